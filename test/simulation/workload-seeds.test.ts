import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byReference } from '../support/by-copy.ts'
import { inUnitOrFloor } from '../support/tier.ts'
import { foreignResources } from './tripwire.ts'
import { runWorkloadCampaign, tooRareIn } from './workload-processes.ts'
import { runWorkloadScenario } from './workload-scenario.ts'

const SEEDS = inUnitOrFloor(25, 120)
/** How often each kind of step and fault must occur. */
const OCCURRENCES = inUnitOrFloor(1, 10)
const UNDER_TRIPWIRE = 10

test(`after each of ${SEEDS} random schedules of churn and faults Endpoints and EndpointSlices match the model`, async () => {
  const report = await runWorkloadCampaign(SEEDS)
  assert.equal(report.failures.length, 0, report.failures.slice(0, 3).join('\n'))
  const rare = tooRareIn(report, OCCURRENCES)
  assert.deepEqual(rare, [], `not met ${OCCURRENCES} times, so nothing is shown of: ${rare.join(', ')}`)
  const again: string[] = []
  const foreign = await foreignResources(async () => {
    for (let seed = 1; seed <= UNDER_TRIPWIRE; seed++) {
      again.push((await runWorkloadScenario(seed, { transport: byReference })).digest)
    }
  })
  // Another process, with answers by copy, computed the same digests.
  assert.deepEqual(again, report.digests.slice(0, UNDER_TRIPWIRE))
  assert.deepEqual(foreign, [])
})
