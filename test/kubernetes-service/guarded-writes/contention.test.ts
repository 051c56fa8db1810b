import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { noEvents } from '../../../src/kube/event-object.ts'
import {
  type Contention,
  type ContentionInput,
  ContentionReports,
  type Contested,
  calm,
  correctionDueMs,
  FIGHT,
  nextCheckMs,
  nextContention,
} from '../../../src/kubernetes-service/guarded-writes/contention.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'

const mostMs = 10_000

function after(steps: readonly (readonly [number, ContentionInput])[], start: Contention = calm): Contention {
  return steps.reduce((state, [atMs, input]) => nextContention(state, input, atMs), start)
}

/** `times` corrections, each undone before the next. */
function undoneAndCorrected(times: number, everyMs: number): readonly (readonly [number, ContentionInput])[] {
  return Array.from({ length: times }, (_, index) => index * everyMs).flatMap((atMs) => [
    [atMs, 'undone'] as const,
    [atMs, 'corrected'] as const,
  ])
}

const fight = after([...undoneAndCorrected(10, 100), [1_000, 'undone']])

test('an undone write after ten corrections within ten seconds is a fight; fewer or older corrections are none', () => {
  assert.deepEqual(fight, {
    phase: 'backing-off',
    sinceMs: 0,
    writtenMs: 900,
    corrections: 10,
    inSyncSinceMs: undefined,
  })
  assert.equal(after([...undoneAndCorrected(9, 100), [1_000, 'undone']]).phase, 'calm')
  assert.equal(after([...undoneAndCorrected(100, 1_001), [100_100, 'undone']]).phase, 'calm')
  assert.equal(
    after([...undoneAndCorrected(10, 100), [1_000, 'in-sync']]).phase,
    'calm',
    'without another overwrite there is no fight',
  )
  assert.equal(
    after([...undoneAndCorrected(10, 100), [10_950, 'undone']]).phase,
    'calm',
    'corrections older than ten seconds do not count',
  )
})

test('other writes do not count as corrections, however many', () => {
  const writes = Array.from({ length: 100 }, (_, index) => [index * 10, 'written'] as const)
  assert.deepEqual(after(writes), calm)
})

test('during a fight the wait is an eighth of its length, at least 250 ms and at most the maximum', () => {
  const wait = (state: Contention): number =>
    correctionDueMs(state, mostMs) - (state.phase === 'calm' ? 0 : state.writtenMs)
  assert.equal(wait(fight), 250)
  for (const [atMs, waitMs] of [
    [2_000, 250],
    [4_000, 500],
    [40_000, 5_000],
    [80_000, 10_000],
    [3_600_000, 10_000],
  ] as const) {
    assert.equal(wait(nextContention(fight, 'corrected', atMs)), waitMs, `after ${atMs} ms`)
  }
  assert.equal(correctionDueMs(calm, mostMs), Number.NEGATIVE_INFINITY)
})

test('a fight ends after ten seconds in sync; an overwrite before that starts the ten seconds anew', () => {
  const right = after(
    [
      [2_000, 'corrected'],
      [11_999, 'in-sync'],
    ],
    fight,
  )
  assert.equal(right.phase, 'backing-off')
  assert.equal(nextCheckMs(right, mostMs), 12_000)
  assert.equal(nextContention(right, 'in-sync', 12_000), calm)
  const again = after(
    [
      [2_000, 'corrected'],
      [11_999, 'undone'],
      [12_000, 'in-sync'],
    ],
    fight,
  )
  assert.equal(nextCheckMs(again, mostMs), 22_000, 'the ten seconds start at the correction by another writer')
  assert.equal(nextCheckMs(fight, mostMs), 1_150)
  assert.equal(nextCheckMs(calm, mostMs), undefined)
})

test('for any overwrites: no more corrections at once than the burst, no wait beyond the maximum, and an end of the fight', () => {
  // The overwrites come quickly and often enough for a fight. Without `size` a list has at most ten items.
  const delays = fc
    .integer({ min: 1, max: 5_000 })
    .chain((max) => fc.array(fc.integer({ min: 1, max }), { minLength: 1, maxLength: 200, size: 'max' }))
  let fights = 0
  fc.assert(
    fc.property(delays, fc.integer({ min: 500, max: 60_000 }), (undoneAfterMs, maxMs) => {
      let state: Contention = calm
      let nowMs = 0
      const corrections: number[] = []
      for (const delayMs of undoneAfterMs) {
        nowMs += delayMs
        state = nextContention(state, 'undone', nowMs)
        const dueMs = correctionDueMs(state, maxMs)
        assert.ok(dueMs - nowMs <= maxMs)
        nowMs = Math.max(nowMs, dueMs)
        state = nextContention(state, 'corrected', nowMs)
        corrections.push(nowMs)
        // Eleven corrections in a row take longer than the window, or the last one had to wait.
        const eleventh = corrections.at(-FIGHT.burst - 1)
        if (eleventh === undefined || nowMs - eleventh >= FIGHT.windowMs) continue
        assert.equal(state.phase, 'backing-off')
        fights++
      }
      const [firstMs = 0] = corrections
      const soonAfter = corrections.filter((atMs) => atMs - firstMs < 1_000).length
      assert.ok(soonAfter <= FIGHT.burst + 1_000 / FIGHT.leastMs)
      const rightMs = nowMs + FIGHT.quietMs
      assert.equal(nextContention(nextContention(state, 'in-sync', nowMs), 'in-sync', rightMs).phase, 'calm')
    }),
    { numRuns: 2_000 },
  )
  assert.ok(fights > 1_000, `${fights}`)
})

test('damage at least a second apart is never a fight', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1_000, max: 20_000 }), { maxLength: 100, size: 'max' }), (gaps) => {
      let state: Contention = calm
      let nowMs = 0
      for (const gapMs of gaps) {
        nowMs += gapMs
        state = after(
          [
            [nowMs, 'undone'],
            [nowMs, 'corrected'],
            [nowMs + 1, 'in-sync'],
          ],
          state,
        )
        assert.equal(state.phase, 'calm')
      }
    }),
    { examples: [[Array(30).fill(1_000)]] },
  )
})

test('twenty writers are counted by name, however often they write, and all others together', async () => {
  const metrics = prometheusMetrics()
  const reports = new ContentionReports({ logger: silentLogger, metrics, events: noEvents })
  for (let round = 0; round < 2; round++) {
    for (let writer = 1; writer <= 21; writer++) reports.corrected('Service', `writer-${writer}`)
  }
  const text = await metrics.expose()
  const countOf = (writer: string): string | undefined =>
    new RegExp(`_foreign_overwrites_total\\{kind="Service",writer="${writer}"\\} (\\d+)`).exec(text)?.[1]
  assert.deepEqual(['writer-1', 'writer-20', 'writer-21', 'other'].map(countOf), ['2', '2', undefined, '2'])
})

test('the back-off gauge of a kind stays 1 until the last of its contested objects is calm', async () => {
  const metrics = prometheusMetrics()
  const reports = new ContentionReports({ logger: silentLogger, metrics, events: noEvents })
  const contested = { kind: 'Lease', fields: {}, backingOff: '', calmAgain: '', event: () => ({}) }
  const calm = { phase: 'calm' } as unknown as Contention
  const fight = { phase: 'backing-off', corrections: 11, sinceMs: 0 } as unknown as Contention
  const change = (before: Contention, now: Contention): void =>
    reports.changed(contested as unknown as Contested, before, now, 1_000)
  const gauge = async (): Promise<string | undefined> =>
    /^apiserver_bootstrap_backing_off\{kind="Lease"\} (\d)$/m.exec(await metrics.expose())?.[1]
  change(calm, fight)
  change(calm, fight)
  assert.equal(await gauge(), '1')
  change(fight, calm)
  assert.equal(await gauge(), '1', 'one of two is still contested')
  change(fight, calm)
  assert.equal(await gauge(), '0')
})
