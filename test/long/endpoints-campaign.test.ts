import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runWorkloadCampaign, tooRareIn } from '../simulation/workload-processes.ts'

const SEEDS = 2_000
/** How often each kind of step and fault must occur. */
const OCCURRENCES = 100

test(`after ${SEEDS} random schedules of churn and faults Endpoints and EndpointSlices match the model of the cluster`, async (t) => {
  const report = await runWorkloadCampaign(SEEDS)
  const { failures, coverage, seconds, cpuMs, settledMs } = report
  const speed = `${(SEEDS / seconds).toFixed(1)} seeds/s, ${(cpuMs / SEEDS).toFixed(0)} ms of CPU each`
  t.diagnostic(`${speed}; all right ${settledMs / 1000} s after the last fault at the latest`)
  t.diagnostic(
    Object.entries(coverage)
      .map(([what, count]) => `${count} x ${what}`)
      .join(', '),
  )
  assert.equal(failures.length, 0, `${failures.length} of ${SEEDS}\n${failures.slice(0, 3).join('\n')}`)
  assert.deepEqual(tooRareIn(report, OCCURRENCES), [])
})
