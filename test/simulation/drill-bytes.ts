import { createHash } from 'node:crypto'
import { runDrill, type Variant } from '../../src/drill/run-drill.ts'
import type { Step } from '../../src/drill/scenario/scenario.ts'
import { scenarioOf } from '../drill/drilled.ts'
import { fleetPlan, masterPlan } from '../drill/simulator/fleet-under-test.ts'

// usage: node test/simulation/drill-bytes.ts: prints a line for each variant of a drill with many kinds of steps: its
// name, the number of events and a digest.

const two = ['master-1', 'master-2']
const steps: readonly Step[] = [
  { atMs: 1_000, action: 'kill', masters: two.slice(0, 1), part: 'both', forMs: 18_000 },
  { atMs: 4_000, action: 'freeze', masters: ['master-3'], part: 'sidecar', forMs: 20_000 },
  { atMs: 20_000, action: 'damage', damage: 'slice-emptied' },
  { atMs: 30_000, action: 'partition', masters: two, from: 'all', forMs: 5_000 },
  { atMs: 40_000, action: 'slow', masters: two, from: 'api', byMs: 150, forMs: 10_000 },
  { atMs: 41_000, action: 'clock-skew', masters: two, byMs: 3_600_000 },
  { atMs: 42_000, action: 'readyz-fails', masters: ['master-3'], how: 'unready', forMs: 9_000 },
  { atMs: 60_000, action: 'datastore-outage', how: 'away', forMs: 20_000 },
  { atMs: 95_000, action: 'compact' },
  { atMs: 96_000, action: 'reset-connections', masters: 'all' },
  { atMs: 100_000, action: 'rolling-restart', masters: 'all', part: 'both', pauseMs: 1_000 },
  { atMs: 150_000, action: 'replace', masters: two.slice(1), pauseMs: 3_000 },
  { atMs: 160_000, action: 'scale', to: 4 },
  { atMs: 180_000, action: 'scale', to: 2 },
]
const masters = [1, 2, 3].map((number) => masterPlan(number, { skewMs: number * 1_000, driftPpm: number * 50 }))
const variants: readonly Variant[] = [
  ...(['etcd', 'kine', 'kubernetes', 'memory'] as const).map((leaseStore) => ({
    name: leaseStore,
    fleet: { leaseStore },
  })),
  { name: 'master-count', fleet: { reconciler: 'master-count' } },
  { name: 'none', fleet: { reconciler: 'none' } },
  { name: 'kube-apiserver', fleet: {}, kubeApiservers: true },
]

/**
 * For each variant its name, the number of its events, and a digest of its whole report, including what clients met.
 */
export async function drillBytes(): Promise<readonly string[]> {
  const scenario = scenarioOf(fleetPlan(3, { masters, spikes: true }), steps, 210_000)
  const report = await runDrill(scenario, { seed: 7, variants })
  return report.variants.map((variant) => {
    const events = variant.runs.reduce((sum, run) => sum + (run.events?.length ?? 0), 0)
    return `${variant.name} ${events} ${createHash('sha256').update(JSON.stringify(variant)).digest('hex')}`
  })
}

if (import.meta.main) console.log((await drillBytes()).join('\n'))
