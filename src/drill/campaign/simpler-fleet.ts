import type { FleetPlan, MasterPlan, Scenario, Step } from '../scenario.ts'

/** Each makes a fleet a little more ordinary. */
export const withoutPeculiarity: readonly ((fleet: FleetPlan) => FleetPlan)[] = [
  (fleet) => ({ ...fleet, spikes: false }),
  (fleet) => everyMaster(fleet, (master) => ({ ...master, driftPpm: 0 })),
  (fleet) => everyMaster(fleet, (master) => ({ ...master, skewMs: 0 })),
  (fleet) => everyMaster(fleet, (master) => ({ ...master, settings: {} })),
  (fleet) => ({ ...fleet, readinessGate: 'continuous' }),
  (fleet) => ({ ...fleet, onShutdown: 'withdraw' }),
  (fleet) => ({ ...fleet, leaseTtlMs: 15_000, reconcileIntervalMs: 10_000 }),
  (fleet) => (fleet.leaseStore === 'kine' ? { ...fleet, leaseStore: 'etcd' } : fleet),
  (fleet) => (fleet.leaseStore === 'memory' ? { ...fleet, leaseStore: 'kubernetes' } : fleet),
]

/** A scenario in which somebody never was; steps that were for that one alone go too. */
export function withoutMaster(scenario: Scenario, name: string): Scenario {
  const steps = scenario.steps.flatMap((step): readonly Step[] => {
    if (!('masters' in step) || step.masters === 'all') return [step]
    const masters = step.masters.filter((one) => one !== name && one !== `${name}-anew`)
    return masters.length === 0 ? [] : [{ ...step, masters }]
  })
  const masters = scenario.fleet.masters.filter((master) => master.name !== name)
  return { ...scenario, steps, fleet: { ...scenario.fleet, masters, apiserverCount: masters.length } }
}

function everyMaster(fleet: FleetPlan, change: (master: MasterPlan) => MasterPlan): FleetPlan {
  return { ...fleet, masters: fleet.masters.map(change) }
}
