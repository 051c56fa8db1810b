import type { Violation } from '../../verify/fleet-checker.ts'
import type { FleetPlan } from '../scenario/scenario.ts'
import type { Figures, VariantReport } from './report.ts'

/** One invariant that a variant broke. */
interface Broken {
  readonly invariant: string
  readonly first: Violation & { readonly seed: number }
  readonly times: number
  readonly seeds: readonly number[]
}

/** In the order in which they were first broken. */
export function brokenInvariants({ runs }: VariantReport): readonly Broken[] {
  const all = runs.flatMap(({ seed, violations }) => violations.map((violation) => ({ ...violation, seed })))
  return Object.entries(Object.groupBy(all, ({ invariant }) => invariant)).flatMap(([invariant, own = []]) => {
    const seeds = [...new Set(own.map(({ seed }) => seed))]
    return own.slice(0, 1).map((first) => ({ invariant, first, times: own.length, seeds }))
  })
}

type Reconciler = FleetPlan['reconciler']

const neverAdded =
  (wanted: (cause: string) => boolean) =>
  ({ timeToAddAgain }: Figures): number =>
    timeToAddAgain.samples.filter(({ cause, tookMs }) => tookMs === undefined && wanted(cause)).length

/** What each reconciler is known for, and how often figures show it, in the order of the report. */
const known: Readonly<Record<Reconciler, readonly (readonly [sentence: string, (figures: Figures) => number])[]>> = {
  lease: [],
  'master-count': [
    [
      'a dead master stays listed: master-count has no leases, and takes addresses away only when there are more than --apiserver-count',
      ({ deadListedTooLong }) => deadListedTooLong,
    ],
    [
      'a living master is taken off the list: master-count makes room for one at the cost of another, and takes out an address that others share',
      ({ flaps }) => flaps,
    ],
  ],
  none: [
    [
      'a dead master stays listed: none keeps no list, its author must remove dead masters',
      ({ deadListedTooLong }) => deadListedTooLong,
    ],
    [
      'connections to a stopped master fail: none does not remove it from the list before it ends',
      ({ connections }) => connections.notServedAfterStop,
    ],
    [
      'a master that serves is not listed: none keeps no list, its author must add new masters',
      neverAdded((cause) => cause !== 'damage'),
    ],
    [
      'an address that another writer removed stays out: none maintains no list',
      neverAdded((cause) => cause === 'damage'),
    ],
  ],
}

/** The known failures of a reconciler, as far as these figures show them. */
export function knownFailures(reconciler: Reconciler, figures: Figures): VariantReport['knownFailures'] {
  return known[reconciler]
    .map(([sentence, countIn]) => ({ sentence, count: countIn(figures) }))
    .filter(({ count }) => count > 0)
}

/** Whether nothing failed but reconcilers that did what they are known for. */
export function failedAsKnown(variants: readonly VariantReport[]): boolean {
  return variants.every(({ held, knownFailures }) => held || knownFailures.length > 0)
}
