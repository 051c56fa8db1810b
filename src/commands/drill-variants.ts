import { InvalidInputError, type Mistake } from '../documents/validation.ts'
import { type Variant, variantName, vary } from '../drill/run-drill.ts'
import type { Scenario } from '../drill/scenario.ts'
import { storeFault } from '../drill/scenario-rules.ts'
import type { DrillValues } from './drill-options.ts'

/** One thing that is drilled beside others, and the scenario with its fleet. */
export interface VariedScenario {
  readonly variant: Variant
  readonly scenario: Scenario
}

type Reconciler = NonNullable<DrillValues['reconciler']>[number]

/**
 * What is drilled side by side: each reconciler, and leases in each store. What is left out is as the scenario has it.
 * Throws an {@link InvalidInputError} for what cannot be.
 */
export function variantsOf(
  scenario: Scenario,
  { reconciler, leaseStore }: Pick<DrillValues, 'reconciler' | 'leaseStore'>,
): readonly VariedScenario[] {
  const { fleet } = scenario
  const upstream = fleet.masters.every(({ kind }) => kind === 'kube-apiserver')
  const reconcilers: readonly Reconciler[] = [
    ...new Set<Reconciler>(reconciler ?? [upstream ? 'kube-apiserver' : fleet.reconciler]),
  ]
  const stores = [...new Set(leaseStore ?? [fleet.leaseStore])]
  const mistakes: Mistake[] = []
  if (leaseStore !== undefined && !reconcilers.includes('lease')) {
    mistakes.push({ where: '--lease-store', message: 'has no use without the reconciler lease' })
  }
  const varied = reconcilers
    .flatMap((one): readonly Omit<Variant, 'name'>[] => {
      if (one === 'lease') return stores.map((store) => ({ fleet: { reconciler: one, leaseStore: store } }))
      if (one !== 'kube-apiserver') return [{ fleet: { reconciler: one } }]
      // Upstream's leases are in what the servers store everything in.
      return [{ fleet: { leaseStore: fleet.leaseStore === 'kine' ? 'kine' : 'etcd' }, kubeApiservers: true }]
    })
    .map((variant) => {
      const own = vary(scenario, { ...variant, name: '' })
      return { variant: { ...variant, name: variantName(own.fleet) }, scenario: own }
    })
  for (const one of varied) {
    const fault = storeFault(one.scenario.fleet)
    if (fault !== undefined) mistakes.push({ where: '--lease-store', message: fault })
  }
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return varied
}
