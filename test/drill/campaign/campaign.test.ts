import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CampaignTask,
  type CampaignWorker,
  describeProgress,
  describeSummary,
  runCampaign,
  type ScheduleResult,
  summarize,
} from '../../../src/drill/campaign/campaign.ts'
import { randomScenario } from '../../../src/drill/random/random-scenario.ts'

const never = new AbortController().signal

function resultOf(seed: number, fails: boolean): ScheduleResult {
  const violations = fails ? [{ atMs: 1_000, invariant: 'never-empty', detail: 'slice' }] : []
  const fleet = { leaseStore: 'etcd', leaseTtlMs: seed % 2 === 0 ? 3_000 : 15_000, reconcileIntervalMs: 1_000 } as const
  return { seed, violations, cpuMs: seed, simulatorEvents: 10 * seed, flaps: fails ? 1 : 0, fleet, digest: '' }
}

/** Workers that run nothing. They add each task to `done`. */
function crew(count: number, fails: (seed: number) => boolean, done: CampaignTask[]): readonly CampaignWorker[] {
  return Array.from({ length: count }, () => ({
    async perform(task, hear) {
      done.push(task)
      await undefined
      if (task.type === 'shrink') {
        hear({ type: 'shrunk', seed: task.seed, scenario: randomScenario(task.seed), tries: 1 })
        return
      }
      for (let seed = task.firstSeed; seed < task.firstSeed + task.count; seed++) {
        hear({ type: 'ran', result: resultOf(seed, fails(seed)) })
      }
    },
  }))
}

test('three workers run every seed once, and the results are in the order of the seeds', async () => {
  const done: CampaignTask[] = []
  const { results } = await runCampaign(
    crew(3, () => false, done),
    { firstSeed: 5, runs: 100, signal: never },
  )
  assert.deepEqual(
    results.map(({ seed }) => seed),
    Array.from({ length: 100 }, (_, index) => index + 5),
  )
  assert.ok(done.length >= 9, 'small pieces, so that all end at about the same time')
})

test('a campaign continues after a violation, and shrinks the first three schedules that fail', async () => {
  const done: CampaignTask[] = []
  const { results, shrunk } = await runCampaign(
    crew(1, (seed) => seed % 10 === 0, done),
    {
      firstSeed: 1,
      runs: 100,
      signal: never,
    },
  )
  assert.equal(results.length, 100)
  assert.equal(summarize({ results }, 1_000).failed, 10)
  assert.deepEqual(
    shrunk.map(({ seed }) => seed),
    [10, 20, 30],
  )
  const [first] = done.filter(({ type }) => type === 'shrink')
  assert.deepEqual(first, { type: 'shrink', seed: 10, invariant: 'never-empty' })
})

test('with failFast a campaign starts no new task after a violation', async () => {
  const done: CampaignTask[] = []
  const { results, shrunk } = await runCampaign(
    crew(1, (seed) => seed === 3, done),
    {
      firstSeed: 1,
      runs: 1_000,
      failFast: true,
      signal: never,
    },
  )
  assert.equal(results.length, 25)
  assert.equal(shrunk.length, 1)
})

test('an aborted campaign returns the results so far', async () => {
  const controller = new AbortController()
  const { results } = await runCampaign(
    crew(1, () => false, []),
    {
      firstSeed: 1,
      runs: 1_000,
      signal: controller.signal,
      onResult: ({ seed }) => {
        if (seed === 30) controller.abort()
      },
    },
  )
  assert.equal(results.length, 50)
})

test('a campaign fails with the error of a worker that fails', async () => {
  const broken: CampaignWorker = { perform: () => Promise.reject(new Error('exit code 9')) }
  await assert.rejects(runCampaign([broken], { firstSeed: 1, runs: 10, signal: never }), /exit code 9/)
})

test('the summary contains time, CPU, simulator events, lease stores, and flaps for each lease setting', () => {
  const summary = summarize({ results: [1, 2, 3, 4].map((seed) => resultOf(seed, seed === 4)) }, 2_000)
  assert.deepEqual(summary, {
    schedules: 4,
    failed: 1,
    elapsedSeconds: 2,
    schedulesPerSecond: 2,
    cpuMs: { mean: 2.5, max: 4 },
    simulatorEvents: { mean: 25, max: 40 },
    flaps: [
      { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000, schedules: 2, flaps: 1, flapFree: 1 },
      { leaseTtlMs: 15_000, reconcileIntervalMs: 1_000, schedules: 2, flaps: 0, flapFree: 2 },
    ],
    leaseStores: { etcd: 4 },
  })
  assert.deepEqual(describeSummary(summary), [
    'time       2s, 2.0 schedules a second',
    'CPU        3 ms a schedule, at most 4 ms',
    'simulator  25 events a schedule, at most 40',
    'leases     4 in etcd, of 4 schedules',
    'flaps      1 in 2 schedules with 3s/1s (50.0 % without a flap), 0 in 2 schedules with 15s/1s (100.0 % without a flap)',
  ])
})

test('progress contains the rate and the time left once schedules have run', () => {
  assert.equal(
    describeProgress({ done: 0, runs: 10, failed: 0, elapsedMs: 900 }),
    '0 of 10 schedules, no failure so far',
  )
  assert.equal(
    describeProgress({ done: 100, runs: 10_000, failed: 2, elapsedMs: 10_000 }),
    '100 of 10000 schedules, 10.0 a second, 16m left, 2 failed',
  )
})

test('once all schedules have run, progress mentions the search for shorter schedules if any failed', () => {
  assert.equal(
    describeProgress({ done: 10, runs: 10, failed: 1, elapsedMs: 10_000 }),
    '10 of 10 schedules, searching for shorter schedules that still fail, 1 failed',
  )
  assert.equal(
    describeProgress({ done: 10, runs: 10, failed: 0, elapsedMs: 10_000 }),
    '10 of 10 schedules, no failure so far',
  )
})
