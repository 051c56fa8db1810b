import { knownFailures } from '../../../src/drill/report/failures.ts'
import { computeFigures } from '../../../src/drill/report/figures.ts'
import type { DrillReport, Figures, VariantReport } from '../../../src/drill/report/report.ts'
import { defaultBounds, defaultClients, type Scenario } from '../../../src/drill/scenario/scenario.ts'
import { address, begin, dead, leases, slice, state, step } from './histories.ts'

export const scenario: Scenario = {
  name: 'crash',
  description: 'A master dies without a word.',
  fleet: {
    masters: [1, 2, 3].map((number) => ({
      name: `master-${number}`,
      addresses: [address(number)],
      kind: 'apiserver-bootstrap',
      skewMs: 0,
      driftPpm: 0,
      settings: {},
    })),
    reconciler: 'lease',
    apiserverCount: 3,
    leaseStore: 'etcd',
    leaseTtlMs: 15_000,
    reconcileIntervalMs: 10_000,
    readinessGate: 'continuous',
    onShutdown: 'withdraw',
    spikes: false,
  },
  clients: defaultClients,
  steps: [{ atMs: 5000, action: 'kill', masters: ['master-2'], part: 'both' }],
  durationMs: 60_000,
  bounds: defaultBounds,
}

/** A master dies and is removed ten seconds later. */
export const removed = [
  ...[...begin(3), leases(-10, [1, 2, 3]), step(5000, 'kill', [2]), state(5000, 2, dead)],
  ...[leases(14_973.4, [1, 3]), slice(15_000, [1, 3])],
  { atMs: 0, type: 'served', count: 9_800 },
] as const

/** A master dies and stays listed. */
export const notRemoved = [...begin(3), step(5000, 'kill', [2]), state(5000, 2, dead)]

export const figures: Figures = computeFigures([{ events: removed, untilMs: 60_000 }], { deadUntilMs: 17_000 })

export function variant(name: string, change: Partial<VariantReport> = {}): VariantReport {
  const runs = [{ seed: 1, violations: [], events: removed }]
  return { name, held: true, runs, figures, knownFailures: [], latency: undefined, ...change }
}

export const masterCount: VariantReport = (() => {
  const own = computeFigures([{ events: notRemoved, untilMs: 60_000 }], { deadUntilMs: 17_000 })
  return variant('master-count', { figures: own, knownFailures: knownFailures('master-count', own) })
})()

export function report(variants: readonly VariantReport[], change: Partial<DrillReport> = {}): DrillReport {
  return {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'DrillReport',
    version: '1.0.0',
    target: 'sim',
    seed: 1,
    command: 'apiserver-bootstrap drill crash --seed 1',
    scenario,
    held: variants.every(({ held }) => held),
    unchecked: undefined,
    idle: undefined,
    hostLate: undefined,
    variants,
    ...change,
  }
}
