import type { FleetPlan } from '../scenario/scenario.ts'
import type { Figures, VariantReport } from './report.ts'

type Reconciler = FleetPlan['reconciler']

interface Known {
  readonly reconciler: Reconciler
  readonly sentence: string
  readonly count: (figures: Figures) => number
}

const neverAdded =
  (wanted: (cause: string) => boolean) =>
  ({ timeToAddAgain }: Figures): number =>
    timeToAddAgain.samples.filter(({ cause, tookMs }) => tookMs === undefined && wanted(cause)).length

/** In the order of the report. */
const known: readonly Known[] = [
  {
    reconciler: 'master-count',
    sentence:
      'a dead master stays listed: master-count has no leases, and takes addresses away only when there are more than --apiserver-count',
    count: ({ deadListedTooLong }) => deadListedTooLong,
  },
  {
    reconciler: 'master-count',
    sentence:
      'a living master is taken off the list: master-count makes room for one at the cost of another, and takes out an address that others share',
    count: ({ flaps }) => flaps,
  },
  {
    reconciler: 'none',
    sentence: 'a dead master stays listed: none keeps no list, its author must remove dead masters',
    count: ({ deadListedTooLong }) => deadListedTooLong,
  },
  {
    reconciler: 'none',
    sentence: 'connections to a stopped master fail: none does not remove it from the list before it ends',
    count: ({ connections }) => connections.notServedAfterStop,
  },
  {
    reconciler: 'none',
    sentence: 'a master that serves is not listed: none keeps no list, its author must add new masters',
    count: neverAdded((cause) => cause !== 'damage'),
  },
  {
    reconciler: 'none',
    sentence: 'an address that another writer removed stays out: none maintains no list',
    count: neverAdded((cause) => cause === 'damage'),
  },
]

/** The known failures of a reconciler, as far as these figures show them. `lease` has none. */
export function knownFailures(reconciler: Reconciler, figures: Figures): VariantReport['knownFailures'] {
  return known
    .filter((one) => one.reconciler === reconciler)
    .map(({ sentence, count }) => ({ sentence, count: count(figures) }))
    .filter(({ count }) => count > 0)
}

/** Whether nothing failed but reconcilers that did what they are known for. */
export function failedAsKnown(variants: readonly VariantReport[]): boolean {
  return variants.every(({ held, knownFailures }) => held || knownFailures.length > 0)
}
