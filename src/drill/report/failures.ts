import type { Violation } from '../../verify/fleet-checker.ts'
import type { InvariantName } from '../../verify/invariants.ts'
import type { FleetPlan } from '../scenario/scenario.ts'
import type { Figures, VariantReport } from './report.ts'

interface Broken {
  readonly invariant: string
  readonly first: Violation & { readonly seed: number }
  readonly times: number
  readonly seeds: readonly number[]
}

/** The invariants that a variant broke, in the order of their first violations. */
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

/**
 * The known failures of each reconciler, in the order of the report. The function returns how often the failure
 * occurred.
 */
const known: Readonly<Record<Reconciler, readonly (readonly [sentence: string, (figures: Figures) => number])[]>> = {
  lease: [],
  'master-count': [
    [
      'a dead master stays listed: master-count has no leases, and removes addresses only if there are more than --apiserver-count',
      ({ deadListedTooLong }) => deadListedTooLong,
    ],
    [
      'a living master is removed from the list: master-count removes another address to make room for a new one, and a master that stops removes an address that others share',
      ({ flaps }) => flaps,
    ],
  ],
  none: [
    [
      'a dead master stays listed: none maintains no list, so somebody else must remove dead masters',
      ({ deadListedTooLong }) => deadListedTooLong,
    ],
    [
      'connections to a stopped master fail: none does not remove it from the list before it stops',
      ({ connections }) => connections.notServedAfterStop,
    ],
    [
      'a master that serves is not listed: none maintains no list, so somebody else must add new masters',
      neverAdded((cause) => cause !== 'damage'),
    ],
    [
      'an address that another writer removed stays out: none maintains no list',
      neverAdded((cause) => cause === 'damage'),
    ],
  ],
}

export function knownFailures(reconciler: Reconciler, figures: Figures): VariantReport['knownFailures'] {
  return known[reconciler]
    .map(([sentence, countIn]) => ({ sentence, count: countIn(figures) }))
    .filter(({ count }) => count > 0)
}

/** The invariants that every reconciler must maintain. No known failure explains a violation of one of them. */
const ofEveryReconciler: ReadonlySet<string> = new Set<InvariantName | 'drill-ends'>([
  'service-stays',
  'system-namespaces-exist',
  'no-member-fails',
  'writes-bounded',
  'drill-ends',
])

/** Whether every failed variant had a known failure, and broke no invariant of {@link ofEveryReconciler}. */
export function failedAsKnown(variants: readonly VariantReport[]): boolean {
  return variants.every(({ held, knownFailures, runs }) => {
    const broken = runs.flatMap(({ violations }) => violations.map(({ invariant }) => invariant))
    return held || (knownFailures.length > 0 && !broken.some((name) => ofEveryReconciler.has(name)))
  })
}
