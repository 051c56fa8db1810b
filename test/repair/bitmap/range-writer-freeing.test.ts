import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DryRunRangeRegistry } from '../../../src/repair/registries/memory.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { openWriter, readOnly } from './range-writer-world.ts'

type Opened = Awaited<ReturnType<typeof openWriter>>
const leaked = (port: number, end = ': cleaning up'): string => `Port ${port} appears to have leaked${end}`

/**
 * Two passes have seen that no Service holds 30005 and 30006. The next call is the third, when no Service has held them
 * for two minutes.
 */
async function leaking(options?: Parameters<typeof openWriter>[0], waitMs = 120_000): Promise<Opened> {
  const opened = await openWriter(options)
  const { world, writer, catchUp, time, signal, done } = opened
  await world.service(30_001)
  world.store([30_001, 30_005, 30_006])
  await catchUp()
  for (let pass = 1; pass <= 2; pass++) {
    await done(writer.read(signal))
    writer.seen()
  }
  await time.advance(waitMs)
  opened.sent()
  return opened
}

async function free({ writer, done, signal }: Opened): Promise<readonly string[]> {
  const stored = await done(writer.read(signal))
  return (await done(writer.free(signal, stored))).map(({ note }) => note)
}

describe('leaked numbers', () => {
  test('are freed and reported in the third pass, two minutes after the first and not a millisecond sooner', async () => {
    const opened = await leaking(undefined, 119_999)
    assert.deepEqual(await free(opened), [])
    assert.deepEqual(opened.sent(), ['read'])
    await opened.time.advance(1)
    assert.deepEqual(await free(opened), [])
    assert.deepEqual(opened.sent(), ['list', 'read', 'write'])
    assert.deepEqual(await opened.taken(), [30_001])
    assert.deepEqual(opened.set(), [30_001])
    assert.equal(await opened.repaired(), 2)
    const lines = opened.logger.lines.filter(({ fields }) => fields.reason === 'PortLeaked')
    assert.deepEqual(
      lines.map(({ message }) => message),
      [leaked(30_005), leaked(30_006)],
    )
    await opened.end()
  })

  test('are not freed before a third recorded pass, however much time passes', async () => {
    const opened = await openWriter()
    opened.world.store([30_005])
    await opened.catchUp()
    opened.writer.seen()
    await opened.time.advance(600_000)
    assert.deepEqual(await free(opened), [])
    opened.writer.seen()
    await free(opened)
    assert.deepEqual(await opened.taken(), [])
    await opened.end()
  })

  test('are not freed if a Service in the live list holds them, even if the watch has not delivered it', async () => {
    const opened = await leaking()
    await opened.stopInformer()
    await opened.world.service(30_005)
    assert.deepEqual(await free(opened), [])
    assert.deepEqual(await opened.taken(), [30_001, 30_005])
    const both = await leaking()
    await both.stopInformer()
    await both.world.service(30_005, 30_006)
    assert.deepEqual(await free(both), [])
    assert.deepEqual(both.sent(), ['list', 'read'])
    await Promise.all([opened.end(), both.end()])
  })

  test('are returned but not freed without permission to write, and no Services are read', async () => {
    const notes = [leaked(30_005, ''), leaked(30_006, '')]
    const opened = await leaking()
    opened.permit.mode = 'report'
    assert.deepEqual(await free(opened), notes)
    assert.equal(opened.permit.asked, 0)
    opened.permit.mode = 'repair'
    opened.permit.granted = async () => false
    assert.deepEqual(await free(opened), notes)
    assert.equal(opened.permit.asked, 1)
    const fixed = await leaking({ registry: readOnly })
    assert.deepEqual(await free(fixed), notes)
    for (const { sent } of [opened, fixed]) assert.ok(sent().every((request) => request === 'read'))
    await Promise.all([opened.end(), fixed.end()])
  })

  test('are returned by a dry run as about to be freed, and are not freed', async () => {
    const opened = await leaking({ registry: (inner) => new DryRunRangeRegistry(inner, memoryLogger()) })
    assert.deepEqual(await free(opened), [leaked(30_005), leaked(30_006)])
    assert.deepEqual(await opened.taken(), [30_001, 30_005, 30_006])
    assert.equal(await opened.repaired(), 0)
    await opened.end()
  })

  test('are freed from the newly stored state if another write comes first, without another list', async () => {
    const opened = await leaking()
    const { world, registry } = opened
    const startedMs = opened.time.nowMs
    registry.beforeWrite = () => {
      registry.beforeWrite = () => {}
      world.store([30_001, 30_005, 30_006, 30_040])
    }
    await free(opened)
    assert.deepEqual(await opened.taken(), [30_001, 30_040])
    assert.deepEqual(opened.sent(), ['list', 'read', 'write', 'read', 'write'])
    assert.equal(opened.time.nowMs - startedMs, 20)
    await opened.end()
  })

  test('are not freed if they were cleared and allocated again meanwhile; the others are freed', async () => {
    const opened = await leaking()
    const { world, registry } = opened
    registry.beforeWrite = () => {
      registry.beforeWrite = () => {}
      world.store([30_001, 30_006])
      world.store([30_001, 30_005, 30_006])
    }
    await free(opened)
    assert.deepEqual(await opened.taken(), [30_001, 30_005])
    assert.equal(await opened.repaired(), 1)
    const all = await leaking()
    all.registry.beforeWrite = () => all.world.store([30_001])
    assert.deepEqual(await free(all), [])
    assert.deepEqual(all.sent(), ['list', 'read', 'write', 'read'])
    assert.equal(await all.repaired(), 0)
    await Promise.all([opened.end(), all.end()])
  })

  test('wait for the watch to deliver all that was read, for at most five tries 20 ms apart', async () => {
    const opened = await leaking()
    const { world, registry, time } = opened
    registry.hold()
    world.store([30_001, 30_005, 30_006, 30_040])
    const startedMs = time.nowMs
    assert.deepEqual(await free(opened), [])
    assert.equal(time.nowMs - startedMs, 80)
    assert.deepEqual(opened.sent(), ['list', 'read', 'read', 'read', 'read', 'read'])
    let reads = 0
    registry.afterRead = () => {
      if (++reads === 4) registry.release()
    }
    await free(opened)
    assert.deepEqual(await opened.taken(), [30_001, 30_040])
    await opened.end()
  })

  test('are not freed if another range was stored meanwhile', async () => {
    const opened = await leaking()
    const { world, registry } = opened
    registry.beforeWrite = () => {
      registry.beforeWrite = () => {}
      world.store([30_001, 30_005, 30_006], '30000-30199')
    }
    assert.deepEqual(await free(opened), [])
    assert.deepEqual(await opened.taken(), [30_001, 30_005, 30_006])
    assert.equal(opened.sent().filter((request) => request === 'write').length, 1)
    await opened.end()
  })
})

describe('a number that was set while its Service released it', () => {
  /** The number 30001 was set for a Service that has been deleted since. The watches have reported everything. */
  async function setInVain(): Promise<Opened> {
    const opened = await openWriter()
    const { world, writer, catchUp, done, signal, sent } = opened
    const service = await world.service(30_001)
    world.store([30_002])
    await catchUp()
    await done(writer.repair(signal))
    await world.delete(service)
    await catchUp()
    assert.deepEqual([...writer.unheld.due], [])
    sent()
    return opened
  }

  test('is released two seconds after it was first found without a Service', async () => {
    const opened = await setInVain()
    const { writer, done, signal, time } = opened
    assert.equal(writer.againMs, 2_000)
    await time.advance(1_999)
    await done(writer.giveBack(signal))
    assert.deepEqual([opened.sent(), writer.againMs], [[], 1])
    await time.advance(1)
    await done(writer.giveBack(signal))
    assert.deepEqual(opened.sent(), ['list', 'read', 'write'])
    assert.deepEqual(await opened.taken(), [30_002])
    await done(writer.giveBack(signal))
    assert.deepEqual(opened.sent(), [])
    await opened.end()
  })

  test('is not released if a Service holds it by then, in the informer, in the list, or since the read', async () => {
    for (const seen of ['before', 'not', 'during'] as const) {
      const opened = await setInVain()
      const { world, writer, registry, catchUp, done, signal, time } = opened
      await time.advance(2_000)
      if (seen === 'not') await opened.stopInformer()
      if (seen === 'during') registry.afterRead = async () => void (await world.service(30_001))
      else await world.service(30_001)
      if (seen === 'before') await catchUp()
      await done(writer.giveBack(signal))
      assert.deepEqual(await opened.taken(), [30_001, 30_002])
      assert.deepEqual(opened.sent(), { before: [], not: ['list', 'read'], during: ['read'] }[seen])
      await opened.end()
    }
  })

  test('is not released once another client has cleared it, or if that may have been missed', async () => {
    for (const missed of [false, true]) {
      const opened = await setInVain()
      const { world, writer, registry, done, signal, time } = opened
      if (missed) registry.gap()
      else for (const ports of [[30_002], [30_001, 30_002]]) world.store(ports)
      await time.advance(10_000)
      await done(writer.giveBack(signal))
      assert.deepEqual([await opened.taken(), opened.sent()], [[30_001, 30_002], []])
      await opened.end()
    }
  })

  test('is not set again within 250 ms after its server cleared it; the next check is due by then', async () => {
    const opened = await openWriter()
    const { world, writer, catchUp, done, signal, time } = opened
    await world.service(30_001)
    world.store([30_001])
    await catchUp()
    assert.equal(writer.againMs, undefined)
    world.store([])
    assert.deepEqual([writer.damaged, writer.againMs], [false, 250])
    await done(writer.repair(signal))
    assert.deepEqual(opened.sent(), ['read'])
    await time.advance(250)
    assert.deepEqual([writer.damaged, writer.againMs], [true, undefined])
    await done(writer.repair(signal))
    assert.deepEqual(await opened.taken(), [30_001])
    await opened.end()
    const both = await setInVain()
    both.world.store([30_001])
    assert.equal(both.writer.againMs, 250)
    both.world.store([30_001, 30_002])
    await both.time.advance(1_900)
    both.world.store([30_001])
    assert.equal(both.writer.againMs, 100)
    await both.time.advance(50)
    both.world.store([30_001, 30_002])
    both.world.store([30_001])
    assert.equal(both.writer.againMs, 50)
    await both.end()
  })
})
