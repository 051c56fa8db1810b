import type { Violation } from '../verify/fleet-judge.ts'
import type { DrillEvent } from './event.ts'
import type { Scenario } from './scenario.ts'

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
  /** The whole history, in its order; of the first run and of those that did not hold. Served connections are left out. */
  readonly events: readonly DrillEvent[] | undefined
}

export interface Figures {
  /**
   * From the moment that nobody renews a listed master's lease any more, or that it is told to stop, until its lease is gone; until it is
   * not in the EndpointSlice any more; and from the moment that a master is well again until it is in the EndpointSlice.
   */
  readonly timeToDetect: Distribution
  readonly timeToRemove: Distribution
  readonly timeToAddAgain: Distribution
  /** How often an address left while its master was alive and ready and had not been told to stop. */
  readonly flaps: number
  /** Masters that were dead and still listed at the end. */
  readonly deadListedAtEnd: number
  /** How long the EndpointSlice listed nobody, or was gone, while a master was well. */
  readonly emptyMs: number
  /** How long the EndpointSlice listed at least one address where no client was served. */
  readonly deadListedMs: number
  /** The fewest addresses that were in the EndpointSlice at once; what somebody spoiled is not counted. */
  readonly fewestListed: number
  readonly connections: {
    readonly total: number
    readonly served: number
    readonly refused: number
    readonly blackHoled: number
    readonly nobody: number
    /** Of all connections, the share that was not served: 0 to 1. */
    readonly deadShare: number
    /** How many of the connections to a master that has been told to stop were not served. */
    readonly notServedAfterStop: number
  }
  readonly writes: {
    readonly total: number
    /** The most that one master wrote in ten seconds. */
    readonly mostInTenSeconds: number
  }
}

export interface Distribution {
  /** How many were measured. */
  readonly count: number
  /** How many never came about until the end. */
  readonly never: number
  /** Undefined when nothing was measured. Nearest rank. */
  readonly p50Ms: number | undefined
  readonly p99Ms: number | undefined
  readonly maxMs: number | undefined
  /** Each one, in the order of time. */
  readonly samples: readonly Sample[]
}

export interface Sample {
  readonly master: string
  /** The action that was the cause, such as `kill`. */
  readonly cause: string
  readonly atMs: number
  /** Undefined when it never came about. */
  readonly tookMs: number | undefined
}
