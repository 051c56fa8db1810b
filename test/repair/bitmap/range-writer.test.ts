import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../../src/kube/errors.ts'
import { type Service, services } from '../../../src/kube/resources.ts'
import { DryRunRangeRegistry } from '../../../src/repair/registries/memory.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { bitsOf, openWriter, readOnly } from './range-writer-world.ts'
import { portsText } from './world.ts'

const notAllocated = (port: number, end = '; repairing'): string =>
  `PortNotAllocated Port ${port} is not allocated${end}`

test('a range that has all held numbers is read and not written', async () => {
  const { world, writer, done, catchUp, sent, recorded, signal, permit, end } = await openWriter()
  await world.service(30_001)
  world.store([30_001, 30_005])
  await catchUp()
  assert.equal(writer.damaged, false)
  assert.deepEqual(await done(writer.repair(signal)), [])
  assert.deepEqual([sent(), recorded(), permit.asked], [['read'], [], 0])
  await end()
})

test('missing numbers are added after a live read of the Services that hold them, and reported once', async () => {
  const { world, writer, done, catchUp, sent, recorded, taken, signal, repaired, set, reporter, claims, end } =
    await openWriter()
  const standing = claims.leaked(0, 99, false)
  reporter.report([{ ...standing, regarding: { metadata: { name: 'x' } } }], { full: false })
  assert.equal(recorded().length, 1)
  await world.service(30_001, 30_002)
  await world.service(30_003)
  world.store([30_003, 30_050])
  await catchUp()
  assert.equal(writer.damaged, true)
  assert.deepEqual(await done(writer.repair(signal, await writer.read(signal))), [])
  assert.deepEqual(sent(), ['get', 'read', 'write'])
  assert.deepEqual(await taken(), [30_001, 30_002, 30_003, 30_050])
  assert.deepEqual(recorded(), [notAllocated(30_001), notAllocated(30_002)])
  reporter.report([{ ...standing, regarding: { metadata: { name: 'x' } } }], { full: false })
  assert.deepEqual(recorded(), [], 'an earlier finding is not reported again')
  assert.equal(await repaired(), 2)
  assert.deepEqual(set(), await taken(), 'the state has the written numbers at once')
  assert.equal(writer.damaged, false)
  await end()
})

test('if the live read no longer finds the Service of a missing number, nothing is written', async () => {
  const { world, writer, stopInformer, done, sent, recorded, signal, end } = await openWriter()
  const gone = await world.service(30_001)
  world.store([])
  await world.time.advance(10)
  await stopInformer()
  await world.delete(gone)
  assert.deepEqual(await done(writer.repair(signal)), [])
  assert.deepEqual([sent(), recorded()], [['get', 'read'], []])
  await end()
})

test('all numbers that the live read finds are set and reported; one that no Service holds later is released', async () => {
  const { world, writer, stopInformer, done, catchUp, recorded, taken, signal, end } = await openWriter()
  const { metadata } = await world.service(30_001)
  world.store([])
  await catchUp()
  await stopInformer()
  const ports = [30_001, 30_007].map((nodePort) => ({ name: `p${nodePort}`, port: nodePort, nodePort }))
  await world.api.patch(
    services,
    { namespace: 'default', name: metadata?.name ?? '' },
    { type: 'merge', body: { spec: { ports } } },
  )
  await done(writer.repair(signal))
  assert.deepEqual(await taken(), [30_001, 30_007])
  assert.deepEqual(recorded(), [notAllocated(30_001), notAllocated(30_007)])
  await world.delete({ metadata } as Service)
  assert.equal(writer.againMs, 2_000)
  await world.time.advance(2_000)
  await done(writer.giveBack(signal))
  assert.deepEqual(await taken(), [30_001], 'a number of a Service in the informer is not released')
  await end()
})

for (const [what, before] of [
  ['is missing', undefined],
  ['has no name yet', { range: '', data: bitsOf(30_050) }],
] as const) {
  test(`a range that ${what} is written after a list of all Services, even if these hold no number`, async () => {
    const { world, writer, done, catchUp, sent, taken, recorded, logger, signal, end } = await openWriter()
    world.registry.put('servicenodeports', before)
    await catchUp()
    assert.equal(writer.damaged, true)
    await done(writer.repair(signal))
    assert.deepEqual(sent(), ['list', 'read', 'write'])
    assert.deepEqual(await taken(), before === undefined ? [] : [30_050])
    assert.deepEqual(recorded(), [])
    const lines = logger.lines.filter(({ message }) => message.startsWith('wrote'))
    assert.deepEqual(
      lines.map(({ fields }) => fields),
      [{ range: portsText, origin: before === undefined ? 'absent' : 'unnamed' }],
    )
    assert.equal(logger.lines.length, lines.length)
    await done(writer.repair(signal))
    assert.deepEqual(sent(), ['read'])
    await end()
  })
}

test('a range with another text is not changed; with adoptRange it is rewritten and audited', async () => {
  const other = { range: '30000-30199', data: bitsOf(30_050) }
  const retained = await openWriter()
  retained.world.registry.put('servicenodeports', other)
  await retained.catchUp()
  await retained.world.service(30_001)
  await retained.catchUp()
  assert.equal(retained.writer.damaged, false)
  assert.deepEqual(await retained.done(retained.writer.repair(retained.signal)), [])
  assert.deepEqual(retained.sent(), ['read'])
  await retained.end()
  const { world, writer, done, catchUp, sent, taken, recorded, logger, signal, end } = await openWriter({
    adoptRange: true,
  })
  await world.service(30_001)
  world.registry.put('servicenodeports', other)
  await catchUp()
  await done(writer.repair(signal))
  assert.deepEqual(sent(), ['list', 'read', 'write'])
  assert.deepEqual(await taken(), [30_001, 30_050])
  const [line] = logger.lines.filter(({ message }) => message === 'rewrote a stored range to match the flag')
  const { before, after } = (line?.fields ?? {}) as Record<string, unknown>
  assert.deepEqual(
    [before, after],
    [
      { range: other.range, allocated: 1 },
      { range: portsText, allocated: 2 },
    ],
  )
  assert.equal(logger.lines.filter(({ message }) => message.startsWith('wrote')).length, 0)
  assert.deepEqual(
    recorded().map((event) => event.replace(/ .*/, '')),
    ['ServiceRangeAdopted', 'PortNotAllocated'],
  )
  await end()
})

test('a range that must not be rewritten is withheld once a number is missing, not before', async () => {
  const { world, writer, done, catchUp, sent, signal, end } = await openWriter({ registry: readOnly })
  world.store([30_002])
  await catchUp()
  assert.deepEqual(await done(writer.repair(signal)), [])
  await world.service(30_001)
  await catchUp()
  assert.deepEqual(await done(writer.repair(signal)), [])
  assert.match(writer.state.withheld?.note ?? '', /is JSON; it is not changed$/)
  assert.deepEqual(sent(), ['read', 'read'])
  await end()
})

test('without permission to write, the range is read again after 20 ms and only numbers still missing are returned', async () => {
  const { world, writer, done, catchUp, sent, recorded, taken, signal, permit, end } = await openWriter()
  await world.service(30_001, 30_002)
  world.store([])
  await catchUp()
  permit.mode = 'report'
  let findings = writer.repair(signal)
  await world.time.advance(19)
  assert.deepEqual(sent(), ['read'])
  world.store([30_001])
  await world.service(30_003)
  assert.deepEqual(
    (await done(findings)).map(({ note }) => note),
    ['Port 30002 is not allocated'],
  )
  assert.deepEqual([sent(), permit.asked], [['read'], 0])
  permit.mode = 'repair'
  permit.granted = async () => false
  findings = writer.repair(signal)
  assert.equal((await done(findings)).length, 2)
  assert.deepEqual([sent(), permit.asked, recorded()], [['read', 'read'], 1, []])
  assert.deepEqual(await taken(), [30_001])
  permit.granted = () => Promise.reject(new KubeError('Unreachable', 'nobody answers'))
  await assert.rejects(done(writer.repair(signal)), /nobody answers/)
  await end()
})

test('a dry run returns what it would repair, and counts no repair', async () => {
  const { world, writer, done, catchUp, recorded, repaired, signal, end } = await openWriter({
    registry: (inner) => new DryRunRangeRegistry(inner, memoryLogger()),
  })
  await world.service(30_001)
  world.store([])
  await catchUp()
  assert.deepEqual(
    (await done(writer.repair(signal))).map(({ note }) => note),
    ['Port 30001 is not allocated; repairing'],
  )
  assert.deepEqual([recorded(), await repaired()], [[], 0])
  await end()
})

test('a write that conflicts is retried on the newly stored state, with growing delays, until it succeeds', async () => {
  const { world, writer, registry, done, catchUp, taken, signal, time, end } = await openWriter()
  await world.service(30_001)
  world.store([])
  await catchUp()
  const foreign: number[] = []
  const atMs: number[] = []
  registry.beforeWrite = () => {
    atMs.push(time.nowMs)
    if (foreign.length < 12) foreign.push(30_010 + foreign.length)
    else registry.beforeWrite = () => {}
    world.store(foreign)
  }
  await done(writer.repair(signal))
  assert.deepEqual(await taken(), [30_001, ...foreign])
  assert.equal(atMs.length, 13)
  const waits = atMs.slice(1).map((ms, index) => ms - (atMs[index] ?? 0))
  assert.ok(
    waits.every((ms, index) => ms > 0 && ms <= Math.min(2 ** index, 200)),
    waits.join(),
  )
  await end()
})

test('after three conflicts only the holders of eight numbers are read at a time', async () => {
  const { world, writer, registry, stopInformer, done, catchUp, sent, taken, signal, end } = await openWriter()
  const made: Service[] = []
  for (let port = 30_001; port <= 30_020; port++) made.push(await world.service(port))
  world.store([])
  await catchUp()
  let overtakes = 3
  registry.beforeWrite = () => {
    if (overtakes-- > 0) world.store([30_050 + overtakes])
  }
  const gone = made[0] as Service
  await stopInformer()
  await world.delete(gone)
  await done(writer.repair(signal))
  const asked = sent()
  assert.deepEqual(
    [asked.filter((one) => one === 'list').length, asked.filter((one) => one === 'get').length],
    [3, 20],
    'the holder of a released number is not read again',
  )
  assert.deepEqual(await taken(), [...Array.from({ length: 19 }, (_, index) => 30_002 + index), 30_050])
  await end()
})

test('the error of a failed call is passed on, and the state counts as outdated', async () => {
  const { world, writer, registry, done, catchUp, taken, signal, end } = await openWriter()
  await world.service(30_001)
  world.store([])
  await catchUp()
  registry.failure = new KubeError('Timeout', 'no answer')
  await assert.rejects(done(writer.read(signal)), /no answer/)
  assert.equal(writer.state.outdated, true)
  registry.failure = undefined
  await done(writer.read(signal))
  assert.equal(writer.state.outdated, false)
  registry.beforeWrite = () => {
    registry.failure = new KubeError('Timeout', 'no answer')
    registry.writesHappen = true
    registry.hold()
  }
  await assert.rejects(done(writer.repair(signal)), /no answer/)
  assert.equal(writer.state.outdated, true, 'it may have been written')
  assert.deepEqual(await taken(), [30_001])
  registry.failure = undefined
  world.store([])
  registry.release()
  await world.time.advance(300)
  registry.beforeWrite = () => {
    throw new KubeError('Timeout', 'not written')
  }
  await assert.rejects(done(writer.repair(signal)), /not written/)
  await end()
})

test('the answer of a read does not replace a state that the watch delivered during the read', async () => {
  const { world, writer, registry, done, catchUp, set, signal, end } = await openWriter()
  world.store([30_001])
  await catchUp()
  registry.afterRead = () => {
    registry.afterRead = () => {}
    world.store([30_002])
  }
  await done(writer.read(signal))
  assert.deepEqual(set(), [30_002])
  registry.hold()
  world.store([30_003])
  await done(writer.read(signal))
  assert.deepEqual(set(), [30_003], 'without a watch event the answer replaces the state')
  await end()
})

test('an abort signal ends a repair that waits to retry', async () => {
  const { world, writer, registry, catchUp, time, end } = await openWriter()
  await world.service(30_001)
  world.store([])
  await catchUp()
  const stop = new AbortController()
  let tries = 0
  registry.beforeWrite = () => world.store([30_010 + tries++])
  const ended = assert.rejects(writer.repair(stop.signal), /stop/)
  await time.advance(1_000)
  stop.abort(new Error('stop'))
  const before = tries
  await time.advance(1_000)
  await ended
  assert.ok(before > 3 && tries === before)
  await end()
})
