import type { Figures } from './report.ts'

export interface KnownFailure {
  readonly sentence: string
  /** How often it was seen. */
  readonly count: number
}

type Reconciler = 'lease' | 'master-count' | 'none'

interface Known {
  readonly reconciler: Reconciler
  readonly sentence: string
  readonly count: (figures: Figures) => number
}

const neverAdded =
  (wanted: (cause: string) => boolean) =>
  ({ timeToAddAgain }: Figures): number =>
    timeToAddAgain.samples.filter(({ cause, tookMs }) => tookMs === undefined && wanted(cause)).length

/** In the order in which they are told. */
const known: readonly Known[] = [
  {
    reconciler: 'master-count',
    sentence:
      'a dead master stays listed: master-count has no leases, and takes addresses away only when there are more than --apiserver-count',
    count: ({ keptDead }) => keptDead,
  },
  {
    reconciler: 'master-count',
    sentence:
      'a living master is taken off the list: master-count makes room for one at the cost of another, and takes out an address that others share',
    count: ({ flaps }) => flaps,
  },
  {
    reconciler: 'none',
    sentence: 'a dead master stays listed: none keeps no list, whoever wrote it must take the dead away',
    count: ({ keptDead }) => keptDead,
  },
  {
    reconciler: 'none',
    sentence: 'connections to a master that was told to stop fail: none does not take it off the list before it ends',
    count: ({ connections }) => connections.notServedAfterStop,
  },
  {
    reconciler: 'none',
    sentence: 'a master that serves is not listed: none keeps no list, whoever wrote it must add those who come',
    count: neverAdded((cause) => cause !== 'damage'),
  },
  {
    reconciler: 'none',
    sentence: 'an address that somebody took out stays out: none keeps no list, and mends none',
    count: neverAdded((cause) => cause === 'damage'),
  },
]

/** What a reconciler is known for, as far as these figures show it. Nothing is known of `lease`. */
export function knownFailures(reconciler: Reconciler, figures: Figures): readonly KnownFailure[] {
  return known
    .filter((one) => one.reconciler === reconciler)
    .map(({ sentence, count }) => ({ sentence, count: count(figures) }))
    .filter(({ count }) => count > 0)
}
