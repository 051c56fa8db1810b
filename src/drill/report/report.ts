import type { Violation } from '../../verify/fleet-checker.ts'
import type { DrillEvent } from '../event.ts'
import type { Scenario } from '../scenario/scenario.ts'

/** The result of a drill, as `report.json` contains it. Plain JSON. Durations are in milliseconds. */
export interface DrillReport {
  readonly apiVersion: 'apiserver-bootstrap/v1alpha1'
  readonly kind: 'DrillReport'
  readonly version: string
  readonly target: 'sim' | 'live'
  readonly seed: number
  /** The command line that repeats the drill; may be empty. */
  readonly command: string
  readonly scenario: Scenario
  readonly held: boolean
  /** Why some effects of the steps could not be judged, in one sentence; undefined if all could be judged. */
  readonly unchecked: string | undefined
  /**
   * Which `requests-fail` steps hit no request in any run, perhaps by a mistake in the scenario; undefined if each hit
   * one.
   */
  readonly idle: string | undefined
  /**
   * A note of two sentences on the greatest lateness of the host's timers in a live drill. Undefined if the invariants
   * and the leases tolerate this lateness.
   */
  readonly hostLate: string | undefined
  readonly variants: readonly VariantReport[]
}

export interface VariantReport {
  /** Such as `lease (etcd)`, `master-count`, `none` or `kube-apiserver`. */
  readonly name: string
  readonly held: boolean
  readonly runs: readonly RunReport[]
  /** Over all runs. */
  readonly figures: Figures
  /**
   * The known failures of this reconciler that occurred: a sentence for each, and how often it occurred. Empty for
   * `lease` and kube-apiservers.
   */
  readonly knownFailures: readonly { readonly sentence: string; readonly count: number }[]
  /** The latency of one message in the simulator, in milliseconds; undefined for `live`. */
  readonly latency: { readonly fromMs: number; readonly toMs: number; readonly spikes: boolean } | undefined
}

export interface RunReport {
  readonly seed: number
  readonly violations: readonly Violation[]
  /** The history of the first run, and of the first three runs that did not hold; undefined for other runs. */
  readonly events: readonly DrillEvent[] | undefined
}

/**
 * The figures of one variant of the fleet, from time 0 to the end, over all runs. docs/drills.md defines alive, dead
 * and healthy, and explains how each figure is measured.
 */
export interface Figures {
  /** How long until a dead address has no lease. Empty if leases are not observed. */
  readonly timeToDetect: Distribution
  /** How long until a dead address is no longer in the EndpointSlice. */
  readonly timeToRemove: Distribution
  /** How long until the address of a healthy master is in the EndpointSlice. */
  readonly timeToAddAgain: Distribution
  /** How often an address left the EndpointSlice although one of its masters had been healthy for six seconds. */
  readonly flaps: number
  /**
   * How often the address of a master was listed for longer than a lease and the margin while no client was served
   * there and some master was healthy.
   */
  readonly deadListedTooLong: number
  readonly deadListedAtEnd: number
  /** How long the EndpointSlice was empty or missing while a master was healthy. */
  readonly emptyMs: number
  /** How long at least one listed address served no client. */
  readonly deadListedMs: number
  readonly fewestListed: number
  readonly connections: {
    readonly total: number
    readonly served: number
    readonly refused: number
    readonly blackHoled: number
    /** The connections of clients that knew no address. */
    readonly nobody: number
    /** The share of connections that were not served: 0 to 1. */
    readonly deadShare: number
    /** The failed connections to a dead address after a master of this address was stopped. */
    readonly notServedAfterStop: number
  }
  /** The writes of the masters to the API server, without Events. */
  readonly writes: {
    readonly total: number
    /** The most writes of one master in ten seconds. */
    readonly mostInTenSeconds: number
  }
}

export interface Distribution {
  /** How many samples have a measured time. */
  readonly count: number
  /** How many samples had not ended by the end of the drill. */
  readonly never: number
  /** The median of the measured times, by nearest rank; undefined without measured times. */
  readonly p50Ms: number | undefined
  readonly p99Ms: number | undefined
  readonly maxMs: number | undefined
  /** Sorted by run and then by begin. In a report, only the first 500 samples. */
  readonly samples: readonly Sample[]
}

export interface Sample {
  /** Of all masters that have had the address of the sample, the one whose state changed last. */
  readonly master: string
  /**
   * The last earlier action, such as `kill`, that named a master of the address, or no master at all; `nothing` without
   * such an action.
   */
  readonly cause: string
  /** When the sample began. */
  readonly atMs: number
  /** Undefined if the sample had not ended by the end of the drill. */
  readonly tookMs: number | undefined
}
