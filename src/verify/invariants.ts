import { deadAndListed } from './dead-listed.ts'
import {
  addedWithoutCause,
  emptyLists,
  goneThoughHealthy,
  healthyAndMissing,
  leavesForUnready,
  removedByOthers,
  removedWithoutCause,
  stillOutOfSync,
  stoppedAndListed,
  unreadyAndListed,
} from './listing-changes.ts'
import type { Breach, Moment } from './moment.ts'
import {
  differing,
  excessiveWrites,
  failed,
  foreignWriterReports,
  missingNamespaces,
  serviceChanged,
  writtenInQuiet,
} from './objects.ts'

export interface Invariant {
  readonly sentence: string
  readonly broken: (moment: Moment) => readonly Breach[]
}

/**
 * The invariants in the order of reports. Their names are stable. They apply to every reconciler: with `master-count`
 * and `none` too, a dead master that stays listed is a breach.
 */
export const invariants = {
  'dead-master-removed': {
    sentence: 'A dead master is listed until its lease ends, and no longer than the margin after that.',
    broken: deadAndListed,
  },
  'live-master-listed': {
    sentence: 'A master that is alive and ready is listed within the bound.',
    broken: healthyAndMissing,
  },
  'never-empty': {
    sentence: 'The list is never empty while a master is alive.',
    broken: emptyLists,
  },
  'not-removed-by-others': {
    sentence: 'No master is removed by the shutdown of another, or by the restart of a sidecar.',
    broken: removedByOthers,
  },
  'no-address-goes-without-cause': {
    sentence: 'An address is removed only if all of its masters have a cause to leave.',
    broken: removedWithoutCause,
  },
  'no-address-comes-without-cause': {
    sentence: 'An address is added only if somebody may hold a lease for it.',
    broken: addedWithoutCause,
  },
  'listed-master-stays': {
    sentence: 'An address that was added stays while its master is healthy.',
    broken: goneThoughHealthy,
  },
  'stopped-master-leaves': {
    sentence: 'A master that gets SIGTERM leaves at once while another serves.',
    broken: stoppedAndListed,
  },
  'unready-master-leaves': {
    sentence: 'A master that is not ready leaves while another serves.',
    broken: unreadyAndListed,
  },
  'unready-leaves-only-for-ready': {
    sentence: 'No unready master leaves in favour of others that are not ready either.',
    broken: leavesForUnready,
  },
  'endpoints-and-slice-agree': {
    sentence: 'Endpoints and EndpointSlice list the same within the bound.',
    broken: differing,
  },
  'in-sync-after-the-last-fault': {
    sentence: 'After the last fault exactly the live masters are listed within the bound.',
    broken: stillOutOfSync,
  },
  'quiet-when-in-sync': {
    sentence: 'While in sync, only leases and Events are written.',
    broken: writtenInQuiet,
  },
  'writes-bounded': {
    sentence: 'No master writes more often than the bound.',
    broken: excessiveWrites,
  },
  'nobody-taken-for-a-foreign-writer': {
    sentence: 'No master mistakes another master, or a repair, for a foreign writer.',
    broken: foreignWriterReports,
  },
  'service-stays': {
    sentence: 'A Service that exists stays, with its ClusterIP and its NodePorts.',
    broken: serviceChanged,
  },
  'system-namespaces-exist': {
    sentence: 'The system namespaces exist.',
    broken: missingNamespaces,
  },
  'no-member-fails': {
    sentence: 'No process of a master exits with an error.',
    broken: failed,
  },
} as const satisfies Readonly<Record<string, Invariant>>

export type InvariantName = keyof typeof invariants

export const invariantNames = Object.keys(invariants) as readonly InvariantName[]

/** The sentence of an invariant; the name itself for an unknown one. */
export function sentenceOf(name: string): string {
  return invariantNames.includes(name as InvariantName) ? invariants[name as InvariantName].sentence : name
}
