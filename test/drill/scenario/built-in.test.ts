import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { runSchedule } from '../../../src/drill/campaign/run-schedule.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import type { FleetPlan, Scenario } from '../../../src/drill/scenario/scenario.ts'
import type { Violation } from '../../../src/verify/fleet-checker.ts'
import { inUnitOrFloor } from '../../support/tier.ts'

const folder = new URL('../../../config/drills/', import.meta.url)
const stores = inUnitOrFloor(['etcd'], ['etcd', 'kine', 'kubernetes', 'memory'])
const scenarios = readdirSync(folder)
  .filter((file) => file.endsWith('.yaml'))
  .sort()
  .map((file) => parseScenario(readFileSync(new URL(file, folder), 'utf8'), file))

function run(scenario: Scenario, fleet: Partial<FleetPlan>, seed: number): Promise<readonly Violation[]> {
  const varied = { ...scenario, fleet: { ...scenario.fleet, ...fleet } }
  return runSchedule(varied, seed).then(({ violations }) => violations)
}

/** kube-apiservers store their leases in etcd only. */
function storesOf({ fleet }: Scenario): readonly FleetPlan['leaseStore'][] {
  return fleet.masters.some(({ kind }) => kind === 'kube-apiserver')
    ? stores.filter((store) => store === 'etcd' || store === 'kine')
    : stores
}

test('the folder of built-in scenarios contains seventeen', () => {
  assert.equal(scenarios.length, 17)
})

for (const scenario of scenarios) {
  test(`${scenario.name} violates no invariant with any tested lease store`, async () => {
    for (const [seed, leaseStore] of storesOf(scenario).entries()) {
      assert.deepEqual(await run(scenario, { leaseStore }, seed), [], `leases in ${leaseStore}, seed ${seed}`)
    }
  })
}

const DEAD_STAYS = ['dead-master-removed', 'in-sync-after-the-last-fault']

/**
 * The known violations of reconcilers without leases. Both leave a dead master listed. With `none`, damage stays too.
 */
const known: Readonly<Record<'master-count' | 'none', Readonly<Record<string, readonly string[]>>>> = {
  'master-count': {
    crash: DEAD_STAYS,
    freeze: DEAD_STAYS,
    partition: DEAD_STAYS,
    'clock-skew': DEAD_STAYS,
    'ip-reuse': DEAD_STAYS,
    'last-master': DEAD_STAYS,
    graceful: [],
    'rolling-restart': [],
    'shared-vip': [],
  },
  none: {
    crash: DEAD_STAYS,
    freeze: DEAD_STAYS,
    partition: DEAD_STAYS,
    graceful: ['dead-master-removed'],
    damage: ['endpoints-and-slice-agree', 'in-sync-after-the-last-fault', 'live-master-listed'],
    'rolling-restart': [],
  },
}

for (const reconciler of ['master-count', 'none'] as const) {
  for (const [name, broken] of Object.entries(known[reconciler])) {
    test(`with ${reconciler}, ${name} violates exactly the known invariants: ${broken.join(', ') || 'it holds'}`, async () => {
      const scenario = scenarios.find((one) => one.name === name)
      assert.ok(scenario !== undefined)
      const apiserverCount = scenario.fleet.masters.length
      const found = await run(scenario, { reconciler, apiserverCount }, 1)
      assert.deepEqual([...new Set(found.map(({ invariant }) => invariant))].sort(), broken)
    })
  }
}

test('a crash after more than an hour, when servers have ended their watches, violates no invariant', async () => {
  const crash = scenarios.find((one) => one.name === 'crash')
  assert.ok(crash !== undefined)
  const late = {
    ...crash,
    fleet: { ...crash.fleet, masters: crash.fleet.masters.slice(0, 2) },
    steps: [{ atMs: 3_900_000, action: 'kill', masters: ['master-2'], part: 'both' } as const],
    durationMs: 3_960_000,
  }
  assert.deepEqual(await run(late, { leaseStore: 'kubernetes' }, 1), [])
})
