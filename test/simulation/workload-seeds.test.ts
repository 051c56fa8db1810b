import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inUnitOrFloor } from '../support/tier.ts'
import { foreignResources } from './tripwire.ts'
import { workloadFaultNames } from './workload-faults.ts'
import { runWorkloadCampaign } from './workload-processes.ts'
import { runWorkloadScenario } from './workload-scenario.ts'

const SEEDS = inUnitOrFloor(25, 120)
/** How often each kind of step and fault must occur. */
const OCCURRENCES = inUnitOrFloor(1, 10)
const UNDER_TRIPWIRE = 10

test(`after ${SEEDS} random schedules of churn and faults Endpoints and EndpointSlices are what the model of the cluster says`, async () => {
  const { failures, digests, coverage } = await runWorkloadCampaign(SEEDS)
  assert.equal(failures.length, 0, failures.slice(0, 3).join('\n'))
  const steps = ['add', 'change', 'delete', 'end', 'flap', 'flip', 'move', 'relabel', 'remove', 'spoil', 'write']
  const expected = [...workloadFaultNames, ...steps.map((step) => `step ${step}`), 'leading', 'conflicts']
  assert.deepEqual(
    expected.filter((what) => (coverage[what] ?? 0) < OCCURRENCES),
    [],
  )
  const again: string[] = []
  const foreign = await foreignResources(async () => {
    for (let seed = 1; seed <= UNDER_TRIPWIRE; seed++) again.push((await runWorkloadScenario(seed)).digest)
  })
  // Another process came to the same.
  assert.deepEqual(again, digests.slice(0, UNDER_TRIPWIRE))
  assert.deepEqual(foreign, [])
})
