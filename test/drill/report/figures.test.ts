import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { DrillEvent } from '../../../src/drill/event.ts'
import { computeFigures, distribution, percentile } from '../../../src/drill/report/figures.ts'
import type { Figures, Sample } from '../../../src/drill/report/report.ts'
import {
  address,
  begin,
  dead,
  frozen,
  leases,
  refused,
  slice,
  sliceGone,
  state,
  step,
  stopping,
  unready,
  write,
} from './histories.ts'

const limits = { deadUntilMs: 17_000 }
const figuresOf = (...events: readonly DrillEvent[]): Figures => computeFigures([{ events, untilMs: 60_000 }], limits)
const took = ({ samples }: Figures['timeToRemove']): readonly (number | undefined)[] =>
  samples.map(({ tookMs }) => tookMs)

test('a killed master is measured until its lease ends, until its removal, and from its return until it is listed', () => {
  const figures = figuresOf(
    ...begin(3),
    leases(-10, [1, 2, 3]),
    step(5000, 'kill', [2]),
    state(5000, 2, dead),
    leases(14_900, [1, 3]),
    slice(15_000.5, [1, 3]),
    state(40_000, 2),
    leases(40_050, [1, 2, 3]),
    slice(40_080, [1, 2, 3]),
  )
  const of = (tookMs: number, atMs = 5000): Figures['timeToRemove'] => ({
    count: 1,
    never: 0,
    p50Ms: tookMs,
    p99Ms: tookMs,
    maxMs: tookMs,
    samples: [{ master: 'master-2', cause: 'kill', atMs, tookMs }],
  })
  assert.deepEqual(figures, {
    timeToDetect: of(9900),
    timeToRemove: of(10_000.5),
    timeToAddAgain: of(80, 40_000),
    flaps: 0,
    deadListedTooLong: 0,
    deadListedAtEnd: 0,
    emptyMs: 0,
    deadListedMs: 10_001,
    fewestListed: 2,
    connections: { total: 0, served: 0, refused: 0, blackHoled: 0, nobody: 0, deadShare: 0, notServedAfterStop: 0 },
    writes: { total: 0, mostInTenSeconds: 0 },
  } satisfies Figures)
})

test('the time to remove of a graceful stop begins when the master begins to stop', () => {
  const figures = figuresOf(...begin(2), state(1000, 2, stopping), slice(1040, [1]), state(9000, 2, dead))
  assert.deepEqual(took(figures.timeToRemove), [40])
})

test('a master whose server is not ready counts as dead', () => {
  const figures = figuresOf(
    ...begin(2),
    state(1000, 2, unready),
    slice(4500, [1]),
    state(9000, 2),
    slice(11_000, [1, 2]),
  )
  assert.deepEqual([took(figures.timeToRemove), took(figures.timeToAddAgain)], [[3500], [2000]])
})

test('a master that cannot renew its lease counts as dead, although clients are served', () => {
  const cut = { renewing: false, healthy: false } as const
  const figures = figuresOf(...begin(2), state(1000, 2, cut), slice(16_000, [1]), state(20_000, 2, { healthy: false }))
  assert.deepEqual([took(figures.timeToRemove), figures.deadListedMs], [[15_000], 0])
  assert.deepEqual(took(figures.timeToAddAgain), [], 'the master is not healthy again')
})

test('figures are computed from the EndpointSlice, not from Endpoints', () => {
  const endpoints = { ...slice(2000, [1]), object: 'endpoints' } as DrillEvent
  const figures = figuresOf(...begin(2), state(1000, 2, dead), endpoints)
  assert.deepEqual([took(figures.timeToRemove), figures.fewestListed, figures.deadListedMs], [[undefined], 2, 59_000])
})

test('a dead master that is never removed counts as `never`, and as dead and listed at the end', () => {
  const figures = figuresOf(...begin(3), step(1000, 'kill', [2]), state(1000, 2, dead))
  const { count, never, p50Ms, maxMs, samples } = figures.timeToRemove
  assert.deepEqual({ count, never, p50Ms, maxMs }, { count: 0, never: 1, p50Ms: undefined, maxMs: undefined })
  assert.deepEqual(samples, [{ master: 'master-2', cause: 'kill', atMs: 1000, tookMs: undefined }])
  assert.equal(figures.deadListedAtEnd, 1)
  assert.equal(figures.deadListedMs, 59_000)
})

test('a dead master that no living master could remove is no sample, but counts as listed at the end', () => {
  const figures = figuresOf(...begin(1), leases(-1, [1]), state(1000, 1, stopping))
  assert.deepEqual([took(figures.timeToRemove), took(figures.timeToDetect), figures.deadListedAtEnd], [[], [], 1])
})

test('a master that recovers before its removal is no sample', () => {
  const figures = figuresOf(
    ...begin(2),
    state(1000, 2, frozen),
    state(6000, 2),
    slice(30_000, [1]),
    slice(30_500, [1, 2]),
  )
  assert.deepEqual(took(figures.timeToRemove), [])
})

test('the removal of a shared address is measured from the death of its last master', () => {
  const shared = { address: address(9) }
  const history = [state(-9, 1, shared), state(-9, 2, shared), state(-9, 3), slice(-1, [3, 9])]
  const one = figuresOf(...history, state(1000, 1, { ...shared, ...dead }))
  assert.deepEqual([took(one.timeToRemove), one.deadListedAtEnd, one.deadListedMs], [[], 0, 0])
  const both = figuresOf(
    ...history,
    step(1000, 'kill', [1]),
    state(1000, 1, { ...shared, ...dead }),
    step(2000, 'terminate', [2]),
    state(2000, 2, { ...shared, ...stopping }),
    slice(2500, [3]),
  )
  assert.deepEqual(both.timeToRemove.samples, [{ master: 'master-2', cause: 'terminate', atMs: 2000, tookMs: 500 }])
})

test('a dead address that is listed again is measured again until its removal', () => {
  const figures = figuresOf(...begin(2), state(1000, 2, dead), slice(2000, [1]), slice(5000, [1, 2]), slice(8000, [1]))
  assert.deepEqual(took(figures.timeToRemove), [1000, 3000])
})

test('an address that its master no longer uses is measured until its removal', () => {
  const figures = figuresOf(...begin(2), state(1000, 2, { address: address(8) }), slice(1700, [1, 8]))
  assert.deepEqual([took(figures.timeToRemove), took(figures.timeToAddAgain)], [[700], [700]])
})

test('the time to re-add begins when a master is healthy, also for a new one, but not for one that is listed', () => {
  const figures = figuresOf(
    ...begin(2),
    step(1000, 'scale', []),
    state(1000, 3, { ...dead, server: 'ready' }),
    state(1500, 3),
    slice(1800, [1, 2, 3]),
    state(3000, 2, frozen),
    state(4000, 2),
  )
  assert.deepEqual(figures.timeToAddAgain.samples, [{ master: 'master-3', cause: 'scale', atMs: 1500, tookMs: 300 }])
})

test('the cause of a sample is the last step that named no master, this master or a predecessor at its address', () => {
  const figures = figuresOf(
    ...begin(3),
    step(500, 'freeze', [2]),
    step(1000, 'replace', [2]),
    step(1500, 'freeze', [3]),
    state(2000, 2, dead),
    slice(9000, [1, 3]),
    { ...state(10_000, 2), master: 'master-2-anew' } as DrillEvent,
    slice(10_100, [1, 2, 3]),
    step(20_000, 'damage', []),
    slice(20_000, [2, 3], true),
    slice(20_009, [1, 2, 3]),
  )
  const causes = (samples: readonly Sample[]): readonly string[] =>
    samples.map(({ master, cause }) => `${cause} ${master}`)
  assert.deepEqual(causes(figures.timeToRemove.samples), ['replace master-2'])
  assert.deepEqual(causes(figures.timeToAddAgain.samples), ['replace master-2-anew', 'damage master-1'])
  assert.equal(figuresOf(...begin(2), state(1000, 1, dead)).timeToRemove.samples[0]?.cause, 'nothing')
})

test('without observed leases no time to detect is measured', () => {
  const figures = figuresOf(...begin(2), state(1000, 2, dead), slice(2000, [1]))
  assert.deepEqual([figures.timeToDetect.count, figures.timeToDetect.never], [0, 0])
})

test('the time to detect for a shared address ends when both of its leases are gone', () => {
  const shared = { address: address(9) }
  const figures = figuresOf(
    ...[state(-9, 1, shared), state(-9, 2, shared), state(-9, 3), slice(-1, [3, 9]), leases(-1, [3, 9, 9])],
    ...[state(1000, 1, { ...shared, ...dead }), state(1000, 2, { ...shared, ...dead })],
    ...[leases(2000, [3, 9]), leases(5000, [3])],
  )
  assert.deepEqual(took(figures.timeToDetect), [4000])
})

test('the removal of a healthy master is a flap, unless it has just recovered or damage changed the list', () => {
  const flaps = (...events: readonly DrillEvent[]): number => figuresOf(...begin(2), ...events).flaps
  assert.equal(flaps(slice(15_000, [1]), slice(16_000, [1, 2]), slice(17_000, [1])), 2)
  assert.equal(flaps(slice(15_000, [1], true), slice(15_100, [1, 2])), 0)
  assert.equal(flaps(slice(15_000, [1], true), slice(15_100, [1])), 1)
  assert.equal(flaps(state(5000, 2, dead), state(8000, 2), slice(13_999, [1])), 0)
  assert.equal(flaps(state(5000, 2, dead), state(8000, 2), slice(14_000, [1])), 1)
  const unmoved = [state(5000, 2, { server: 'ready' }), state(9000, 2, { clientConnections: 'refused' })]
  assert.equal(flaps(...unmoved, slice(14_000, [1])), 1)
  assert.equal(flaps(state(25_000, 2, dead), slice(29_000, [1])), 0)
  assert.equal(flaps(state(25_000, 2, stopping), slice(25_040, [1])), 0)
  assert.equal(flaps({ ...slice(15_000, [1]), object: 'endpoints' } as DrillEvent), 0)
  // Changes before the drill begins do not count.
  assert.equal(figuresOf(state(-19_000, 1), slice(-18_000, [1]), slice(-2000, []), slice(-1000, [1])).flaps, 0)
})

test('emptyMs is the time without a listed address while a master is healthy, whoever emptied the list', () => {
  const figures = figuresOf(
    ...begin(1),
    ...[sliceGone(1000), slice(1250, []), slice(2000, [1])],
    ...[state(10_000, 1, dead), slice(11_000, []), state(20_000, 1), slice(20_500, [1])],
  )
  assert.equal(figures.emptyMs, 1500)
})

test('deadListedMs counts a listed address where no client is served, also if it belongs to no master', () => {
  const cut = { clientConnections: 'black-holed' } as const
  const figures = figuresOf(
    ...begin(2),
    state(1000, 2, cut),
    state(3000, 2),
    slice(5000, [1, 2, 77]),
    slice(5500, [1, 2]),
  )
  assert.equal(figures.deadListedMs, 2500)
  assert.deepEqual(took(figures.timeToRemove), [], 'masters cannot see that clients do not reach the address')
})

test('a dead address is listed too long if it stays beyond the limit while a living master could remove it', () => {
  const deadListedTooLong = (...events: readonly DrillEvent[]): number =>
    figuresOf(...begin(3), ...events).deadListedTooLong
  assert.equal(deadListedTooLong(state(1000, 2, dead), slice(18_000, [1, 3])), 0)
  assert.equal(deadListedTooLong(state(1000, 2, dead), slice(18_001, [1, 3])), 1)
  assert.equal(
    deadListedTooLong(state(1000, 2, dead), state(18_000, 3, unready)),
    1,
    'also if something happens at the limit',
  )
  assert.equal(deadListedTooLong(state(1000, 2, dead), state(1000, 3, frozen)), 2)
  assert.equal(
    deadListedTooLong(state(1000, 2, dead), state(10_000, 2), state(11_000, 2, dead), slice(28_000, [1, 3])),
    0,
  )
  assert.equal(deadListedTooLong(state(1000, 2, dead), state(20_000, 2), state(21_000, 2, dead)), 2)
  assert.equal(
    deadListedTooLong(state(1000, 2, { ...dead, clientConnections: 'served' })),
    0,
    'a dead address whose clients are served does not count',
  )
  assert.equal(deadListedTooLong(slice(1000, [1, 2, 3, 77])), 0, 'no master is dead')
  const nobodyElse = [state(1000, 1, dead), state(1000, 2, dead), state(1000, 3, dead)]
  assert.equal(deadListedTooLong(...nobodyElse), 0)
  assert.equal(deadListedTooLong(...nobodyElse, state(30_000, 1), slice(47_000, [1])), 0)
  assert.equal(deadListedTooLong(...nobodyElse, state(30_000, 1), slice(47_001, [1])), 2)
})

test('fewestListed counts from the list at time 0 on, and ignores lists that damage wrote', () => {
  assert.equal(figuresOf(...begin(3), slice(5000, [1, 2, 3, 4])).fewestListed, 3)
  assert.equal(figuresOf(...begin(3), slice(5000, [1], true), sliceGone(6000), slice(7000, [1, 2])).fewestListed, 2)
  assert.equal(figuresOf(state(-9, 1), slice(-8, []), slice(-7, [1])).fewestListed, 1)
  assert.equal(figuresOf(...begin(2), slice(59_999, [])).fewestListed, 0)
  assert.equal(figuresOf(...begin(2), slice(60_000, [])).fewestListed, 2, 'the end of the period does not count')
})

test('connections are counted by outcome, and deadShare is a share of all connections', () => {
  const met = (outcome: 'refused' | 'black-holed' | 'nobody'): DrillEvent => {
    return { atMs: 2000, type: 'connection', client: 'client-1', address: address(1), outcome }
  }
  const early = { ...met('refused'), atMs: -5 }
  const { connections } = figuresOf(
    ...[...begin(1), early],
    { atMs: 0, type: 'served', count: 10 },
    { atMs: 1000, type: 'served', count: 4 },
    ...[met('refused'), met('refused'), met('refused'), met('black-holed'), met('black-holed'), met('nobody')],
  )
  assert.deepEqual(connections, {
    total: 20,
    served: 14,
    refused: 3,
    blackHoled: 2,
    nobody: 1,
    deadShare: 0.3,
    notServedAfterStop: 0,
  })
})

test('a failed connection counts against a stop from its beginning until the master runs again', () => {
  const after = (...events: readonly DrillEvent[]): number =>
    figuresOf(...begin(2), ...events).connections.notServedAfterStop
  assert.equal(after(refused(900, 2), state(1000, 2, stopping), refused(1100, 2), refused(1200, 1)), 1)
  assert.equal(after(state(1000, 2, stopping), state(2000, 2, dead), refused(3000, 2)), 1)
  assert.equal(after(state(1000, 2, stopping), state(2000, 2), state(3000, 2, dead), refused(4000, 2)), 0)
  assert.equal(after(state(1000, 2, dead), refused(1100, 2)), 0)
})

test('a failed connection to a shared address does not count against the stop of one of its masters', () => {
  const shared = { address: address(9) }
  const history = [
    state(-9, 1, shared),
    state(-9, 2, shared),
    slice(-1, [9]),
    state(1000, 1, { ...shared, ...stopping }),
  ]
  assert.equal(figuresOf(...history, refused(2000, 9)).connections.notServedAfterStop, 0)
})

test('mostInTenSeconds is the most writes of one master in any ten seconds, without writes of Events', () => {
  const { writes } = figuresOf(
    ...begin(2),
    write(-1, 1),
    ...[1000, 5000, 10_999, 11_000, 30_000].map((atMs) => write(atMs, 1)),
    ...[2000, 2001].map((atMs) => write(atMs, 2)),
    ...[2000, 2001, 2002, 2003].map((atMs) => write(atMs, 2, '/api/v1/namespaces/default/events')),
    ...[2004, 2005].map((atMs) => write(atMs, 2, '/apis/events.k8s.io/v1/namespaces/default/events/kubernetes.18c1')),
  )
  assert.deepEqual(writes, { total: 7, mostInTenSeconds: 3 })
})

test('figures of several runs are added up without mixing their times or masters', () => {
  const first = [...begin(3), step(1000, 'kill', [2]), state(1000, 2, dead), slice(4000, [1, 3]), write(5000, 1)]
  const second = [...begin(4), state(1000, 2, dead), write(5000, 1), write(5001, 1), refused(5000, 2)]
  const runs = [first, second].map((events) => ({ events, untilMs: 10_000 }))
  const figures = computeFigures(runs, limits)
  assert.deepEqual(took(figures.timeToRemove), [3000, undefined])
  assert.deepEqual(
    [figures.timeToRemove.count, figures.timeToRemove.never, figures.deadListedAtEnd, figures.deadListedMs],
    [1, 1, 1, 12_000],
  )
  assert.deepEqual([figures.fewestListed, figures.writes], [2, { total: 3, mostInTenSeconds: 2 }])
  assert.equal(computeFigures([], limits).fewestListed, 0)
})

test('apart from flaps and fewestListed, figures depend only on the state after all events of a moment', () => {
  const together = [state(1000, 2, frozen), state(1000, 2), slice(1000, [1]), slice(1000, [1, 2]), state(1000, 1)]
  const calm = figuresOf(...begin(2))
  const { flaps: _, fewestListed: __, ...rest } = figuresOf(...begin(2), ...together)
  assert.partialDeepStrictEqual(calm, rest)
})

test('percentiles use the nearest-rank method', () => {
  assert.equal(percentile([], 50), undefined)
  assert.deepEqual(
    [5, 30, 40, 50, 100].map((percent) => percentile([15, 20, 35, 40, 50], percent)),
    [15, 20, 20, 35, 50],
  )
  fc.assert(
    fc.property(fc.array(fc.integer(), { minLength: 1 }), fc.integer({ min: 1, max: 100 }), (values, percent) => {
      const sorted = values.toSorted((a, b) => a - b)
      const naive = sorted.find(
        (value) => 100 * values.filter((other) => other <= value).length >= percent * values.length,
      )
      assert.equal(percentile(sorted, percent), naive)
    }),
  )
})

test('of 200 samples the 99th percentile is neither the median nor the maximum', () => {
  const samples = Array.from({ length: 200 }, (_, index): Sample => {
    return { master: 'master-1', cause: 'kill', atMs: index, tookMs: 200 - index }
  })
  const { p50Ms, p99Ms, maxMs } = distribution(samples)
  assert.deepEqual([p50Ms, p99Ms, maxMs], [100, 198, 200])
})

test('a distribution does not depend on the order of its samples, and preserves that order', () => {
  const sample = fc.record({
    master: fc.constant('master-1'),
    cause: fc.constant('kill'),
    atMs: fc.nat(),
    tookMs: fc.option(fc.nat(), { nil: undefined }),
  })
  fc.assert(
    fc.property(fc.array(sample), (samples) => {
      const { samples: same, ...figures } = distribution(samples)
      const { samples: _, ...reversed } = distribution(samples.toReversed())
      assert.deepEqual(figures, reversed)
      assert.equal(same, samples)
      assert.equal(figures.count + figures.never, samples.length)
    }),
  )
})

test('for random histories the outcomes sum up to all connections, and every time is within the run', () => {
  const conditions = [{}, dead, frozen, stopping, unready]
  const number = fc.integer({ min: 1, max: 4 })
  const happening = fc.oneof(
    fc.tuple(number, fc.constantFrom(...conditions)).map(
      ([one, change]) =>
        (atMs: number) =>
          state(atMs, one, change),
    ),
    fc.tuple(fc.uniqueArray(number), fc.boolean()).map(
      ([listed, damage]) =>
        (atMs: number) =>
          slice(atMs, listed, damage),
    ),
    fc.uniqueArray(number).map((held) => (atMs: number) => leases(atMs, held)),
    number.map((one) => (atMs: number) => refused(atMs, one)),
    fc.nat(9).map(
      (count) =>
        (atMs: number): DrillEvent => ({ atMs, type: 'served', count }),
    ),
  )
  const history = fc
    .array(fc.tuple(fc.nat(59_999), happening), { maxLength: 30, size: 'max' })
    .map((all) => all.toSorted(([a], [b]) => a - b).map(([atMs, make]) => make(atMs)))
  fc.assert(
    fc.property(history, (events) => {
      const figures = figuresOf(...begin(4), ...events)
      const { total, served, refused, blackHoled, nobody, deadShare } = figures.connections
      assert.equal(total, served + refused + blackHoled + nobody)
      assert.ok(deadShare >= 0 && deadShare <= 1)
      assert.ok(figures.emptyMs <= 60_000 && figures.deadListedMs <= 60_000)
      for (const { samples } of [figures.timeToDetect, figures.timeToRemove, figures.timeToAddAgain]) {
        for (const { atMs, tookMs = 0 } of samples) assert.ok(atMs >= 0 && tookMs >= 0 && atMs + tookMs <= 60_000)
        assert.deepEqual(
          samples,
          samples.toSorted((a, b) => a.atMs - b.atMs),
        )
      }
      // A master that was never removed is still listed.
      if (figures.timeToRemove.never > 0) assert.ok(figures.deadListedAtEnd > 0)
    }),
  )
})
