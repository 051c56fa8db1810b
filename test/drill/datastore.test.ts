import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Datastore, ServerStore } from '../../src/drill/datastore.ts'
import type { Random } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

/** Always returns the same number. */
const fixed = (number: number): Random => ({ next: () => number })

/** A datastore whose servers recover after a share of the outage: the smallest share for 0, the largest for 1. */
function setUp(number = 0) {
  const time = new VirtualClock()
  const datastore = new Datastore({ clock: time.view(), random: fixed(number) })
  const join = () => {
    const seen: string[] = []
    const store: ServerStore = new ServerStore(datastore, () => seen.push(store.state))
    /** The states that the store reported since the last call. */
    const changes = () => seen.splice(0)
    return { store, changes }
  }
  return { time, datastore, join }
}

test('every server loses the datastore at once, and regains it some time after its return', async () => {
  const { time, datastore, join } = setUp()
  const [one, two] = [join(), join()]
  await time.advance(5_000)
  datastore.state = 'away'
  assert.deepEqual([one.changes(), two.changes()], [['hangs'], ['hangs']])
  await time.advance(10_000)
  datastore.state = 'up'
  await time.advance(399)
  assert.deepEqual([one.changes(), two.changes(), one.store.state], [[], [], 'hangs'])
  await time.advance(1)
  assert.deepEqual([one.changes(), two.changes(), one.store.state], [['ok'], ['ok'], 'ok'])
})

test('the recovery takes from 4 to 70 % of the outage, but two minutes at most', async () => {
  for (const [number, outageMs, recoveryMs] of [
    [0, 10_000, 400],
    [0.5, 10_000, 3_700],
    [1, 10_000, 7_000],
    [1, 200_000, 120_000],
    [0.5, 200_000, 64_000],
    [0, 10_000_000, 120_000],
  ] as const) {
    const { time, datastore, join } = setUp(number)
    const { store } = join()
    await time.advance(3_000)
    datastore.state = 'away'
    await time.advance(outageMs)
    datastore.state = 'up'
    await time.advance(recoveryMs - 1)
    assert.equal(store.state, 'hangs')
    await time.advance(1)
    assert.equal(store.state, 'ok')
  }
})

test('setting the same state of the datastore again does not change the length of an outage', async () => {
  const { time, datastore, join } = setUp()
  const { store, changes } = join()
  datastore.state = 'up'
  datastore.state = 'away'
  await time.advance(5_000)
  datastore.state = 'away'
  await time.advance(5_000)
  datastore.state = 'up'
  await time.advance(200)
  datastore.state = 'up'
  await time.advance(200)
  assert.equal(store.state, 'ok')
  assert.deepEqual(changes(), ['hangs', 'ok'])
  assert.equal(datastore.state, 'up')
})

test('a server that has not recovered when the datastore fails again waits for the second recovery', async () => {
  const { time, datastore, join } = setUp()
  const { store, changes } = join()
  datastore.state = 'away'
  await time.advance(10_000)
  datastore.state = 'up'
  await time.advance(300)
  datastore.state = 'away'
  await time.advance(20_000)
  assert.deepEqual([store.state, changes()], ['hangs', ['hangs', 'hangs']])
  datastore.state = 'up'
  await time.advance(799)
  assert.equal(store.state, 'hangs')
  await time.advance(1)
  assert.deepEqual([store.state, changes()], ['ok', ['ok']])
})

test('a server that restarts connects at once if the datastore is up, and not while it is away', async () => {
  const { time, datastore, join } = setUp(1)
  const { store, changes } = join()
  datastore.state = 'away'
  store.restart()
  assert.equal(store.state, 'hangs')
  await time.advance(10_000)
  datastore.state = 'up'
  assert.equal(store.state, 'hangs')
  store.restart()
  assert.equal(store.state, 'ok')
  changes()
  await time.advance(10_000)
  assert.deepEqual(changes(), [], 'the pending recovery is cancelled')
})

test('a server that joins during an outage does not reach the datastore either', async () => {
  const { time, datastore, join } = setUp()
  datastore.state = 'away'
  const { store } = join()
  assert.equal(store.state, 'hangs')
  await time.advance(1_000)
  datastore.state = 'up'
  await time.advance(40)
  assert.equal(store.state, 'ok')
})

test('a server is connected only after every cause has ended, and `hangs` takes precedence over `fails`', () => {
  const { datastore, join } = setUp()
  const { store, changes } = join()
  const other = join()
  store.own = 'fails'
  store.cut = true
  store.own = 'hangs'
  store.cut = false
  store.own = 'fails'
  datastore.state = 'away'
  assert.deepEqual(changes(), ['fails', 'hangs', 'hangs', 'hangs', 'fails', 'hangs'])
  assert.deepEqual(other.changes(), ['hangs'], 'faults of one server do not affect another one')
  store.cut = true
  store.own = 'ok'
  datastore.state = 'up'
  assert.equal(store.state, 'hangs')
  store.cut = false
  assert.equal(store.state, 'ok')
})
