import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { raceNames } from '../simulation/repair-coverage.ts'
import { runRepairCampaign } from '../simulation/repair-processes.ts'

const SEEDS = 10_000

test(`in ${SEEDS} random interleavings no Service loses an address or port, and no IPAddress of a deleted one comes back`, async (t) => {
  const { failures, races, books, cpuMs, seconds } = await runRepairCampaign(SEEDS)
  const speed = `${(SEEDS / seconds).toFixed(1)} seeds/s in ${availableParallelism()} processes, ${(cpuMs / SEEDS).toFixed(0)} ms of CPU each`
  const { objects = 0, both = 0, bitmap = 0 } = books
  t.diagnostic(`${speed}; ClusterIPs of ${objects} in IPAddresses, of ${bitmap} in bitmaps, of ${both} in both`)
  for (const race of raceNames) t.diagnostic(`${races[race] ?? 0} times ${race}`)
  assert.equal(failures.length, 0, `${failures.length} of ${SEEDS}\n${failures.slice(0, 3).join('\n')}`)
  assert.deepEqual(
    raceNames.filter((race) => races[race] === undefined),
    [],
    'every kind of race occurs',
  )
})
