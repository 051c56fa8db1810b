import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { describeFailure, describeSummary, runCampaign, summarize } from '../../src/drill/campaign/campaign.ts'
import { ProcessPool } from '../../src/drill/campaign/process-pool.ts'
import { renderScenario } from '../../src/drill/scenario/render.ts'

const SCHEDULES = 10_000

test(`${SCHEDULES} random schedules of ten minutes on the lease stores violate no invariant`, async (t) => {
  const pool = new ProcessPool(availableParallelism())
  t.after(() => pool.close())
  const startedMs = performance.now()
  const outcome = await runCampaign(pool.workers, { firstSeed: 1, runs: SCHEDULES, signal: t.signal })
  const summary = summarize(outcome, performance.now() - startedMs)
  for (const line of describeSummary(summary)) t.diagnostic(line)
  const failed = outcome.results.filter(({ violations }) => violations.length > 0)
  const text = failed.slice(0, 3).flatMap((result) => {
    const schedule = outcome.shrunk.find(({ seed }) => seed === result.seed)
    const shortest = schedule && {
      schedule,
      file: `seed-${result.seed}.yaml`,
      yaml: renderScenario(schedule.scenario),
    }
    return describeFailure(result, shortest)
  })
  assert.equal(summary.schedules, SCHEDULES)
  assert.equal(failed.length, 0, [`${failed.length} of ${SCHEDULES}`, ...text].join('\n'))
  assert.ok(summary.simulatorEvents.mean <= 20_000, 'the simulator needs at most 20,000 events a schedule')
  // An address may be removed because of a state from before an outage, but not more often with short leases than with
  // long ones.
  const rates = summary.flaps.map(({ schedules, flaps }) => flaps / schedules)
  t.diagnostic(`flaps a schedule, by TTL: ${rates.map((rate) => rate.toFixed(3)).join(', ')}`)
})
