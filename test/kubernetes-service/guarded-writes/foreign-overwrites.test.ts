import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Endpoints, endpoints } from '../../../src/kube/resources.ts'
import { ForeignOverwrites } from '../../../src/kubernetes-service/guarded-writes/foreign-overwrites.ts'
import { KUBERNETES_SERVICE } from '../../../src/kubernetes-service/identity.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'

function list(resourceVersion: number, manager: string, ...ips: readonly string[]): Endpoints {
  const managedFields = [{ manager, operation: 'Update', time: `${resourceVersion}`, fieldsV1: { 'f:subsets': {} } }]
  return {
    metadata: { ...KUBERNETES_SERVICE, uid: 'u', resourceVersion: String(resourceVersion), managedFields },
    subsets: [{ addresses: ips.map((ip) => ({ ip })), ports: [{ port: 6443 }] }],
  } as unknown as Endpoints
}

function setUp() {
  const time = new VirtualClock()
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const events: string[] = []
  const overwrites = new ForeignOverwrites({
    clock: time.view(),
    logger,
    metrics,
    events: { record: ({ reason }) => events.push(reason) },
    intervalMs: 10_000,
  })
  let version = 1
  const wanted = (): Endpoints => list(version, 'own', '192.0.2.1')
  /**
   * Somebody overwrites the list, or deletes it without a trace. It is then corrected, unless that must wait. Returns
   * whether it was corrected.
   */
  const undoAndCorrect = (manager: string | undefined): boolean => {
    version += 1
    const found = manager === undefined ? undefined : list(version, manager, '198.51.100.1')
    if (overwrites.mustWait(endpoints, wanted(), found)) return false
    version += 1
    const object = wanted()
    overwrites.written(endpoints, object, object)
    return true
  }
  overwrites.inSync(endpoints, wanted())
  const counted = async (writer: string): Promise<number> => {
    const pattern = new RegExp(`_overwrites_total\\{kind="Endpoints",writer="${writer}"\\} (\\d+)`)
    return Number(pattern.exec(await metrics.expose())?.[1] ?? 0)
  }
  return { time, overwrites, events, logger, undoAndCorrect, counted }
}

test('corrections wait only while a callback is attached', async () => {
  const { time, overwrites, events, undoAndCorrect } = setUp()
  for (let round = 0; round < 30; round++) assert.ok(undoAndCorrect('x'))
  assert.deepEqual(events, [])
  let woken = 0
  const release = overwrites.attach(() => {
    woken += 1
  })
  assert.equal(undoAndCorrect('x'), false, 'thirty in a moment are a fight')
  await time.advance(250)
  assert.equal(woken, 1)
  assert.ok(undoAndCorrect('x'))
  assert.equal(undoAndCorrect('x'), false)
  release()
  await time.advance(60_000)
  assert.equal(woken, 1, 'no timer is left')
  for (let round = 0; round < 30; round++) assert.ok(undoAndCorrect('x'))
})

test('during a fight a new list of masters is written at once, while corrections of foreign writes still wait', () => {
  const { overwrites, undoAndCorrect } = setUp()
  overwrites.attach(() => {})
  for (let round = 0; round < 10; round++) assert.ok(undoAndCorrect('x'))
  assert.equal(undoAndCorrect('x'), false)
  const foreign = list(100, 'x', '198.51.100.1')
  const joined = list(100, 'own', '192.0.2.1', '192.0.2.2')
  assert.equal(overwrites.isWaiting(endpoints, joined, foreign), false)
  assert.equal(overwrites.mustWait(endpoints, joined, foreign), false)
  overwrites.written(endpoints, joined, list(101, 'own', '192.0.2.1', '192.0.2.2'))
  const again = list(102, 'x', '198.51.100.1')
  assert.equal(overwrites.isWaiting(endpoints, joined, again), true)
  assert.equal(overwrites.mustWait(endpoints, joined, again), true)
})

test('a list that differs because the leases have changed is written at once, and is not counted as an overwrite', async () => {
  const { overwrites, events, counted } = setUp()
  overwrites.attach(() => {})
  for (let round = 2; round < 100; round++) {
    const object = list(round, 'own', `192.0.2.${round}`)
    assert.equal(overwrites.mustWait(endpoints, object, list(round - 1, 'own', `192.0.2.${round - 1}`)), false)
    overwrites.written(endpoints, object, object)
  }
  assert.deepEqual(events, [])
  assert.equal(await counted('own'), 0)
})

test('an overwrite is counted for its writer although a stale cached object was read before', async () => {
  const { overwrites, counted } = setUp()
  overwrites.attach(() => {})
  const object = list(10, 'own', '192.0.2.1', '192.0.2.2')
  overwrites.mustWait(endpoints, object, undefined)
  overwrites.written(endpoints, object, object)
  overwrites.inSync(endpoints, list(9, 'own', '192.0.2.1'))
  const wanted = list(11, 'own', '192.0.2.1', '192.0.2.2')
  overwrites.mustWait(endpoints, wanted, list(11, 'x', '198.51.100.1'))
  overwrites.written(endpoints, wanted, list(12, 'own'))
  assert.equal(await counted('x'), 1)
})

test('an object that another client creates again and again is removed at growing intervals, until that client stops', async () => {
  const { time, overwrites, events, logger } = setUp()
  overwrites.attach(() => {})
  const remove = (): boolean => {
    const object = list(2, 'x', '198.51.100.1')
    if (overwrites.mustWait(endpoints, undefined, object)) return false
    overwrites.written(endpoints, object, undefined)
    return true
  }
  assert.ok(remove(), 'the first removal is not delayed')
  for (let round = 0; round < 10; round++) assert.ok(remove())
  assert.equal(remove(), false)
  assert.deepEqual(events, ['ForeignOverwrite'])
  const removedMs = [time.nowMs]
  while (removedMs.length < 30) {
    await time.advance(50)
    if (remove()) removedMs.push(time.nowMs)
  }
  const gaps = removedMs.slice(1).map((atMs, index) => atMs - (removedMs[index] ?? 0))
  assert.deepEqual(
    gaps,
    gaps.toSorted((a, b) => a - b),
  )
  assert.equal(gaps[0], 250)
  assert.ok((gaps.at(-1) ?? 0) >= 2_500, `${gaps}`)
  // Nobody reconciles an object that does not exist.
  await time.advance(10_000)
  assert.equal(logger.lines.at(-1)?.message, 'other writers no longer overwrite this object; back-off ended')
})

test('the first twenty writers are counted by name, all others together', async () => {
  const { undoAndCorrect, counted } = setUp()
  for (let number = 1; number <= 25; number++) undoAndCorrect(`writer-${number}`)
  assert.equal(await counted('writer-20'), 1)
  assert.equal(await counted('writer-21'), 0)
  assert.equal(await counted('other'), 5)
})

test('a fight names the last writer that left a trace', async () => {
  const { overwrites, logger, undoAndCorrect } = setUp()
  overwrites.attach(() => {})
  for (let round = 0; round < 10; round++) assert.ok(undoAndCorrect('x'))
  assert.ok(
    overwrites.mustWait(endpoints, list(99, 'own', '192.0.2.1'), undefined),
    'a deletion by an unknown writer continues the fight',
  )
  assert.equal(logger.lines.at(-1)?.fields.writer, 'x')
})

/** Ten seconds later somebody deletes the list again and again without a trace. Returns which writer the log names. */
async function namedForDeletions({ time, logger, undoAndCorrect }: ReturnType<typeof setUp>): Promise<unknown> {
  await time.advance(10_000)
  for (let round = 0; round < 10; round++) assert.ok(undoAndCorrect(undefined))
  assert.equal(undoAndCorrect(undefined), false)
  const { level, fields } = logger.lines.at(-1) ?? assert.fail()
  assert.deepEqual([level, fields.corrections], ['warn', 10], 'a new fight')
  return fields.writer
}

test('a fight without a trace does not name the writer of the previous fight', async () => {
  const world = setUp()
  const { time, overwrites, logger, undoAndCorrect } = world
  overwrites.attach(() => {})
  for (let round = 0; round < 10; round++) assert.ok(undoAndCorrect('x'))
  assert.equal(undoAndCorrect('x'), false)
  await time.advance(250)
  assert.ok(undoAndCorrect('x'))
  assert.equal(logger.lines.at(-1)?.fields.writer, 'x')
  assert.equal(await namedForDeletions(world), undefined)
})

test('a fight without a trace does not name a writer that was corrected once before it', async () => {
  const world = setUp()
  world.overwrites.attach(() => {})
  assert.ok(world.undoAndCorrect('x'))
  assert.equal(await namedForDeletions(world), undefined)
})

test('creating an object again that another master deleted first does not count as a correction', () => {
  const { overwrites } = setUp()
  const remade = list(9, 'own', '192.0.2.1')
  const makeAgain = () => {
    overwrites.mustWait(endpoints, remade, undefined)
    return overwrites.written(endpoints, remade, remade)
  }
  assert.ok(makeAgain(), 'another client deleted the object')
  overwrites.mustWait(endpoints, undefined, remade)
  overwrites.gone(endpoints, remade)
  assert.equal(makeAgain(), undefined)
})
