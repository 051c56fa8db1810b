import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { condenseServed, simulateClients } from '../../src/drill/clients.ts'
import type { DrillEvent, EventOf } from '../../src/drill/event.ts'
import { type ClientsPlan, defaultClients } from '../../src/drill/scenario/scenario.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { address, begin, dead, frozen, slice, sliceGone, state } from './report/histories.ts'

interface Met {
  readonly served: number
  readonly failed: readonly EventOf<'connection'>[]
}

function meet(
  events: readonly DrillEvent[],
  { plan = {}, untilMs = 10_000, seed = 1 }: { plan?: Partial<ClientsPlan>; untilMs?: number; seed?: number } = {},
): Met {
  const random = seededRandom(seed, 'clients')
  const met = simulateClients(events, { ...defaultClients, ...plan }, { random, untilMs })
  const served = met.reduce((sum, event) => sum + (event.type === 'served' ? event.count : 0), 0)
  return { served, failed: met.filter((event) => event.type === 'connection') }
}

test('clients connect at every interval, and served connections are counted per second', () => {
  const random = seededRandom(1, 'clients')
  const met = simulateClients(begin(3), defaultClients, { random, untilMs: 3000 })
  assert.deepEqual(met, [
    { atMs: 0, type: 'served', count: 80 },
    { atMs: 1000, type: 'served', count: 80 },
    { atMs: 2000, type: 'served', count: 80 },
  ])
})

test('the clients spread their connections over the interval', () => {
  const { failed } = meet([state(-1, 1, dead), slice(-1, [1])], { plan: { count: 4, intervalMs: 1000 }, untilMs: 1000 })
  assert.deepEqual(
    failed.map(({ atMs, client }) => [Math.floor(atMs / 250), client]),
    [0, 1, 2, 3].map((quarter) => [quarter, `client-${quarter + 1}`]),
  )
})

test('a dead master refuses the connections of a client until its kube-proxy receives the new list', () => {
  const history = [...begin(2), state(2000, 2, dead), slice(5000, [1])]
  const { failed } = meet(history, { plan: { watchDelayMs: 700 } })
  assert.ok(failed.every(({ address: met, outcome }) => met === address(2) && outcome === 'refused'))
  const times = failed.map(({ atMs }) => atMs)
  assert.ok((times[0] ?? 0) >= 2000 && (times[0] ?? 0) < 2200, `${times[0]}`)
  assert.ok((times.at(-1) ?? 0) < 5700 && (times.at(-1) ?? 0) > 5500, `${times.at(-1)}`)
})

test('clients know the addresses that are listed when the drill begins', () => {
  // Clients that did not know the list of time 0 at once would connect to the dead master.
  const history = [state(-5, 1, dead), slice(-5, [1]), state(-1, 2), slice(0, [2])]
  assert.deepEqual(meet(history, { plan: { watchDelayMs: 700 } }), { served: 800, failed: [] })
})

test('connections have the outcome `nobody` while the kube-proxy of a client knows no address', () => {
  const { failed, served } = meet([...begin(1), sliceGone(1000), slice(2000, [1])], { untilMs: 4000 })
  assert.equal(served + failed.length, 320)
  assert.ok(failed.length >= 78 && failed.length <= 82, `${failed.length}`)
  assert.ok(failed.every(({ atMs }) => atMs >= 1100 && atMs < 2100))
  assert.deepEqual([...new Set(failed.map((one) => `${one.outcome}${one.address}`))], ['nobody'])
  assert.equal(meet([], { untilMs: 1000 }).failed.length, 80)
})

test('clients pick each listed address equally often', () => {
  const history = [1, 2, 3, 4, 5].map((number) => state(-1, number, dead))
  const { failed } = meet([...history, slice(-1, [1, 2, 3, 4, 5])], { untilMs: 600_000 })
  assert.equal(failed.length, 48_000)
  const expected = failed.length / 5
  const counts = [1, 2, 3, 4, 5].map((number) => failed.filter((one) => one.address === address(number)).length)
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
  // With four degrees of freedom, chi-square exceeds 18.5 once in a thousand times.
  assert.ok(chiSquare < 18.5, `${counts}`)
})

test('with one of five masters frozen a fifth of the connections fail', () => {
  const { failed, served } = meet([...begin(5), state(0, 5, frozen)], { untilMs: 60_000 })
  const share = failed.length / (failed.length + served)
  // Three standard deviations of 4,800 picks.
  assert.ok(Math.abs(share - 0.2) < 3 * Math.sqrt((0.2 * 0.8) / 4800), `${share}`)
  assert.ok(failed.every(({ outcome }) => outcome === 'black-holed'))
})

test('one serving master behind a shared address is enough for connections to be served', () => {
  const shared = { address: '192.0.2.9' }
  const both = (first: object, second: object): readonly DrillEvent[] => [
    state(-2, 1, { ...shared, ...first }),
    state(-1, 2, { ...shared, ...second }),
    slice(-1, [9]),
  ]
  const outcomes = (history: readonly DrillEvent[]): readonly string[] => [
    ...new Set(meet(history, { untilMs: 1000 }).failed.map(({ outcome }) => outcome)),
  ]
  assert.deepEqual(outcomes(both({}, frozen)), [])
  assert.deepEqual(outcomes(both(dead, {})), [])
  assert.deepEqual(outcomes(both(dead, frozen)), ['black-holed'])
  assert.deepEqual(outcomes(both(dead, dead)), ['refused'])
})

test('connections to an address without a master are black-holed, also after its master has changed address', () => {
  const foreign = meet([...begin(1), slice(-1, [1, 77])], { untilMs: 5000 })
  assert.deepEqual(
    [...new Set(foreign.failed.map((one) => `${one.outcome} ${one.address}`))],
    ['black-holed 192.0.2.77'],
  )
  const moved = meet([...begin(1), state(3000, 1, { address: address(8) })], { untilMs: 5000 })
  assert.ok((moved.failed[0]?.atMs ?? 0) >= 3000)
  assert.deepEqual([...new Set(moved.failed.map((one) => `${one.outcome} ${one.address}`))], ['black-holed 192.0.2.1'])
})

test('an unanswered connection gets the outcome of whatever happens to its server before the timeout', () => {
  const thawed = meet([...begin(1), state(1000, 1, frozen), state(2500, 1)], { plan: { timeoutMs: 2000 } })
  assert.deepEqual(thawed.failed, [])
  const late = meet([...begin(1), state(1000, 1, frozen), state(5000, 1)], { plan: { timeoutMs: 2000 } })
  assert.ok(late.failed.every(({ atMs }) => atMs >= 1000 && atMs < 3000))
  assert.ok(Math.abs(late.failed.length - 160) <= 2, `${late.failed.length}`)
  const killed = meet([...begin(1), state(1000, 1, frozen), state(5000, 1, dead)], { plan: { timeoutMs: 2000 } })
  const firstRefused = killed.failed.find(({ outcome }) => outcome === 'refused')?.atMs ?? 0
  assert.ok(firstRefused >= 3000 && firstRefused < 3200, `${firstRefused}`)
})

test('the same seed gives the same history, and another seed another', () => {
  const history = [...begin(3), state(1000, 2, dead)]
  assert.deepEqual(meet(history), meet(history))
  assert.notDeepEqual(meet(history), meet(history, { seed: 2 }))
})

test('zero clients make no connections', () => {
  assert.deepEqual(meet(begin(1), { plan: { count: 0 } }), { served: 0, failed: [] })
})

const conditions = { healthy: {}, dead, frozen }
const change = fc.oneof(
  fc
    .tuple(
      fc.integer({ min: 1, max: 4 }),
      fc.constantFrom(...Object.values(conditions)),
      fc.integer({ min: 1, max: 3 }),
    )
    .map(
      ([number, condition, at]) =>
        (atMs: number) =>
          state(atMs, number, { ...condition, address: address(at) }),
    ),
  fc.uniqueArray(fc.integer({ min: 1, max: 4 })).map((numbers) => (atMs: number) => slice(atMs, numbers)),
)
const histories = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 9999 }), change), { maxLength: 12 })
  .map((changes) => [...begin(3), ...changes.sort(([a], [b]) => a - b).map(([atMs, make]) => make(atMs))])

test('every connection is counted in time order, and its outcome matches the state at its time', () => {
  fc.assert(
    fc.property(histories, fc.integer({ min: 0, max: 500 }), (history, watchDelayMs) => {
      // No client waits (the timeout is 0): it gets the outcome that the address has at that moment.
      const plan = { ...defaultClients, watchDelayMs, timeoutMs: 0 }
      const met = simulateClients(history, plan, { random: seededRandom(7, 'clients'), untilMs: 10_000 })
      assert.deepEqual(
        met.map(({ atMs }) => atMs),
        met.map(({ atMs }) => atMs).toSorted((a, b) => a - b),
      )
      const total = met.reduce((sum, event) => sum + (event.type === 'served' ? event.count : 1), 0)
      assert.equal(total, 800)
      for (const event of met) {
        if (event.type !== 'connection') continue
        const { known, outcomes } = naively(history, event.atMs, watchDelayMs)
        if (event.outcome === 'nobody') assert.deepEqual(known, [])
        else assert.ok(known.includes(event.address), event.address)
        if (event.outcome !== 'nobody') assert.equal(event.outcome, outcomes(event.address))
      }
    }),
  )
})

test('every connection fails while every known address is dead, and none fails while every known address serves', () => {
  fc.assert(
    fc.property(histories, (history) => {
      const { failed } = meet(history, { plan: { timeoutMs: 0 } })
      const failuresIn = (turn: number): number => failed.filter(({ atMs }) => Math.floor(atMs / 250) === turn).length
      for (let turn = 0; turn < 40; turn++) {
        const times = [turn * 250, turn * 250 + 249]
        const changes = history.some(({ atMs }) => atMs > turn * 250 - 200 && atMs < turn * 250 + 250)
        const { known, outcomes } = naively(history, times[0] ?? 0, 100)
        const noneServes = known.every((one) => outcomes(one) !== 'served')
        if (!changes && noneServes) assert.equal(failuresIn(turn), defaultClients.count, `${turn}`)
        if (!changes && known.length > 0 && known.every((one) => outcomes(one) === 'served')) {
          assert.equal(failuresIn(turn), 0, `${turn}`)
        }
      }
    }),
  )
})

/** The list that clients know and the outcome of each address at a moment, computed event by event. */
function naively(
  history: readonly DrillEvent[],
  atMs: number,
  watchDelayMs: number,
): { readonly known: readonly string[]; readonly outcomes: (address: string) => string } {
  const known = history
    .filter((event) => event.type === 'listed' && (event.atMs <= 0 || event.atMs + watchDelayMs <= atMs))
    .flatMap((event) => (event.type === 'listed' ? [event.addresses ?? []] : []))
    .at(-1)
  const members = new Map<string, EventOf<'state'>>()
  for (const event of history) if (event.type === 'state' && event.atMs <= atMs) members.set(event.master, event)
  const outcomes = (one: string): string => {
    const met = [...members.values()]
      .filter((member) => member.address === one)
      .map(({ clientConnections }) => clientConnections)
    if (met.includes('served')) return 'served'
    return met.length > 0 && !met.includes('black-holed') ? 'refused' : 'black-holed'
  }
  return { known: known ?? [], outcomes }
}

test('a recorded history is condensed: served connections to counts, other events unchanged, all in time order', () => {
  const connection = (atMs: number, outcome: 'served' | 'refused'): DrillEvent => {
    return { atMs, type: 'connection', client: 'client-1', address: address(1), outcome }
  }
  const history = [connection(1900, 'served'), connection(700, 'refused'), connection(1100, 'served'), ...begin(1)]
  assert.deepEqual(condenseServed(history), [
    ...begin(1),
    connection(700, 'refused'),
    { atMs: 1000, type: 'served', count: 2 },
  ])
})
