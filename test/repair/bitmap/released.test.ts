import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Service } from '../../../src/kube/resources.ts'
import { type RangeMaster, RangeWorld, thirtySeconds } from './world.ts'

/**
 * A server that converts a NodePort Service to another type as kube-apiserver does: it clears the bit, and stores the
 * Service some time later.
 */
async function convertedAfter(
  pauseMs: number,
): Promise<{ readonly world: RangeWorld; readonly master: RangeMaster; readonly service: Service }> {
  const world = await RangeWorld.start()
  const service = await world.service(30_001)
  const held = await world.service(30_002)
  assert.ok(held)
  world.store([30_001, 30_002])
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.requests()
  world.store([30_002])
  await world.time.advance(pauseMs)
  await world.delete(service)
  return { world, master, service }
}

test('the port that a Service gives up is not set again while its server stores the Service', async () => {
  const { world, master } = await convertedAfter(40)
  await world.time.advance(20_000)
  assert.deepEqual(await world.taken(), [30_002])
  assert.deepEqual(
    master.requests().filter((request) => !request.startsWith('read')),
    [],
  )
  assert.deepEqual(master.events, [])
  await master.stop()
})

test('a bit that is lost again and again while its server may be clearing it does not accumulate timers', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  await world.service(30_002)
  world.store([30_001, 30_002])
  const clock = world.time.view()
  const master = world.master('a', { timed: () => clock }).run()
  await world.time.advance(1_000)
  const idle = clock.timers
  for (let change = 0; change < 10; change++) {
    world.store([30_002])
    await world.time.advance(5)
    world.store([30_001, 30_002])
    await world.time.advance(5)
  }
  world.store([30_002])
  await world.time.advance(5)
  assert.equal(clock.timers, idle + 1, 'one timer for the bit that is lost now')
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002])
  await master.stop()
})

test('a port that was set again because its server was slow is released soon after no Service holds it', async () => {
  const { world, master } = await convertedAfter(5_000)
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002], 'the server may be clearing it itself')
  await world.time.advance(1_500)
  assert.deepEqual(await world.taken(), [30_002])
  assert.deepEqual(
    master.requests().filter((request) => request.startsWith('write')),
    ['write servicenodeports', 'write servicenodeports'],
  )
  await world.time.advance(4 * thirtySeconds)
  assert.deepEqual(await world.taken(), [30_002])
  await master.stop()
})

test('a port that its server has cleared since is not released if another client allocates it', async () => {
  const { world, master } = await convertedAfter(5_000)
  await world.time.advance(500)
  world.store([30_002])
  world.store([30_001, 30_002])
  await world.time.advance(50_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002])
  await world.service(30_001)
  await world.time.advance(10_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002])
  await master.stop()
})

test('a port that is cleared and allocated again before the answer to its write arrives is not released', async () => {
  const world = await RangeWorld.start()
  const service = await world.service(30_001)
  await world.service(30_002)
  world.store([30_002])
  const master = world.master('a')
  master.registry.afterWrite = async () => {
    master.registry.afterWrite = () => {}
    await world.delete(service)
    world.store([30_002])
    world.store([30_001, 30_002])
  }
  master.run()
  await world.time.advance(1_500)
  assert.deepEqual(
    master.requests().filter((request) => request.startsWith('write')),
    ['write servicenodeports'],
  )
  await world.time.advance(20_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002])
  await master.stop()
})

test('a port is not released after a gap in the watch', async () => {
  const { world, master } = await convertedAfter(5_000)
  master.registry.gap()
  await world.time.advance(20_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002])
  await master.stop()
})

test('a port that another Service holds by then is not released', async () => {
  const { world, master } = await convertedAfter(5_000)
  await world.service(30_001)
  await world.time.advance(20_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002])
  await master.stop()
})

test('a port is released in time although another port was cleared a moment ago', async () => {
  const { world, master } = await convertedAfter(5_000)
  await world.time.advance(1_900)
  world.store([30_001])
  await world.time.advance(150)
  assert.deepEqual(await world.taken(), [])
  await world.time.advance(500)
  assert.deepEqual(await world.taken(), [30_002], 'the other one is a Service’s')
  await master.stop()
})
