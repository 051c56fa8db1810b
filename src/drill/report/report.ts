import type { Violation } from '../../verify/fleet-checker.ts'
import type { DrillEvent } from '../event.ts'
import type { Scenario } from '../scenario/scenario.ts'

/** What came of a drill. Plain JSON: `report.json` is this. Durations are in milliseconds. */
export interface DrillReport {
  readonly apiVersion: 'apiserver-bootstrap/v1alpha1'
  readonly kind: 'DrillReport'
  /** Of this program. */
  readonly version: string
  readonly target: 'sim' | 'live'
  readonly seed: number
  /** What makes it again. */
  readonly command: string
  readonly scenario: Scenario
  readonly held: boolean
  /** Why not everything could be judged, in one sentence; undefined when all of it could. */
  readonly unchecked: string | undefined
  /**
   * That the host of a live drill was later for its own timers than the judge or its leases allow, and by how much, in
   * one sentence or two; undefined when it was not.
   */
  readonly hostLate: string | undefined
  /** One for each reconciler that was drilled, side by side. */
  readonly variants: readonly VariantReport[]
}

/** How one way to keep the list fared. */
export interface VariantReport {
  /** `lease (etcd)`, `master-count`, `none`, `kube-apiserver`. */
  readonly name: string
  readonly held: boolean
  readonly runs: readonly RunReport[]
  /** Over all runs. */
  readonly figures: Figures
  /** What this reconciler is known for, as far as it was seen: one sentence each, with how often. Empty for `lease`. */
  readonly knownFailures: readonly { readonly sentence: string; readonly count: number }[]
  /** What the simulator takes a message to need, in milliseconds; undefined for `live`. */
  readonly latency: { readonly fromMs: number; readonly toMs: number; readonly spikes: boolean } | undefined
}

export interface RunReport {
  readonly seed: number
  readonly violations: readonly Violation[]
  /** The whole history, in the order of time; of the first run and of the first three that did not hold. */
  readonly events: readonly DrillEvent[] | undefined
}

/**
 * What came of one way to keep the list, from time 0 to the end, over all runs. docs/drills.md has how each figure is
 * measured, and what alive, dead and healthy mean.
 */
export interface Figures {
  /** Until a dead address has no lease. Empty where leases are not seen. */
  readonly timeToDetect: Distribution
  /** Until a dead address is not in the EndpointSlice. */
  readonly timeToRemove: Distribution
  /** Until the address of a healthy master is in the EndpointSlice. */
  readonly timeToAddAgain: Distribution
  /** How often an address left while a master of it had been healthy for a while. */
  readonly flaps: number
  /** How often a dead address was listed for longer than a lease and the margin. */
  readonly deadListedTooLong: number
  readonly deadListedAtEnd: number
  /** How long nobody was listed while a master was healthy. */
  readonly emptyMs: number
  /** How long an address was listed where no client was served. */
  readonly deadListedMs: number
  readonly fewestListed: number
  readonly connections: {
    readonly total: number
    readonly served: number
    readonly refused: number
    readonly blackHoled: number
    /** Begun by a client that knew no address. */
    readonly nobody: number
    /** The share that was not served: 0 to 1. */
    readonly deadShare: number
    /** Of those to a dead address, one of whose masters had been stopped. */
    readonly notServedAfterStop: number
  }
  /** Of the masters to the API server, without Events. */
  readonly writes: {
    readonly total: number
    /** The most of one master. */
    readonly mostInTenSeconds: number
  }
}

export interface Distribution {
  /** How many came about. */
  readonly count: number
  /** How many had not come about at the end. */
  readonly never: number
  /** Of those that came about, by nearest rank; undefined when none did. */
  readonly p50Ms: number | undefined
  readonly p99Ms: number | undefined
  readonly maxMs: number | undefined
  /** The first 500, run by run in the order in which they began. */
  readonly samples: readonly Sample[]
}

export interface Sample {
  /** Of those with the address, the one that something happened to last. */
  readonly master: string
  /**
   * The last action before that named a master of the address, or nobody in particular, such as `kill`; `nothing` when
   * there was none.
   */
  readonly cause: string
  /** When it began. */
  readonly atMs: number
  /** Undefined when it never came about. */
  readonly tookMs: number | undefined
}
