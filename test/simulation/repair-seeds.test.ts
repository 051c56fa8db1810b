import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byReference } from '../support/by-copy.ts'
import { inUnitOrFloor } from '../support/tier.ts'
import { raceNames, rareRaces } from './repair-coverage.ts'
import { runRepairCampaign } from './repair-processes.ts'
import { runRepairScenario } from './repair-scenario.ts'
import { foreignResources } from './tripwire.ts'

const SEEDS = inUnitOrFloor(40, 200)
/** How often each race must occur, or the campaign proves nothing about it. */
const RACES = inUnitOrFloor(1, 5)
const UNDER_TRIPWIRE = 10

test(`in ${SEEDS} random interleavings no Service loses an address or port, and no IPAddress of a deleted Service reappears`, async () => {
  const { failures, digests, races } = await runRepairCampaign(SEEDS)
  assert.equal(failures.length, 0, failures.slice(0, 3).join('\n'))
  const missed = raceNames.filter((name) => !rareRaces.has(name) && (races[name] ?? 0) < RACES)
  assert.deepEqual(missed, [], `not run ${RACES} times, so nothing is shown of: ${missed.join(', ')}`)
  const again: string[] = []
  const foreign = await foreignResources(async () => {
    for (let seed = 1; seed <= UNDER_TRIPWIRE; seed++) {
      again.push((await runRepairScenario(seed, { transport: byReference })).digest)
    }
  })
  // Another process, with answers by copy, computed the same digests.
  assert.deepEqual(again, digests.slice(0, UNDER_TRIPWIRE))
  assert.deepEqual(foreign, [])
})
