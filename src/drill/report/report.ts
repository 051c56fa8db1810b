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
 * What came of one way to keep the list, from time 0 to the end, over all runs. A listed address is *alive* while one
 * of its masters may renew its lease, was not stopped since it was started, and has an API server that is ready;
 * otherwise it is *dead*. So an address that several masters share is dead when the last of them is. A master is
 * *healthy* when it lives and reaches all that it needs.
 */
export interface Figures {
  /**
   * From the moment that an address is dead, or its lease comes back although it is, until it has no lease in the
   * store. One that is alive again before that does not count; nor does one that has a lease at the end when nobody
   * else is alive then. Not measured where leases are not seen.
   */
  readonly timeToDetect: Distribution
  /**
   * The same until it is not in the EndpointSlice; a graceful stop counts from the moment that the master is stopped.
   */
  readonly timeToRemove: Distribution
  /**
   * From the moment that a master of an address is healthy while the EndpointSlice does not list it, new ones and what
   * somebody spoiled included, until it does. One that is no longer healthy before that does not count.
   */
  readonly timeToAddAgain: Distribution
  /**
   * How often an address left the EndpointSlice, not by damage, while a master of it had been healthy for six seconds
   * or more.
   */
  readonly flaps: number
  /**
   * How often the address of a master was listed for longer than a lease and the margin, on end, while clients were not
   * served there and some master was healthy that could have removed it.
   */
  readonly deadListedTooLong: number
  /** Addresses in the EndpointSlice at the end that were dead, or no master's. */
  readonly deadListedAtEnd: number
  /** How long the EndpointSlice listed nobody, or was gone, while a master was healthy. */
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
    /** Begun by a client that knew no address. */
    readonly nobody: number
    /** Of all connections, the share that was not served: 0 to 1. */
    readonly deadShare: number
    /** How many of the connections to a dead address, one of whose masters had been stopped, were not served. */
    readonly notServedAfterStop: number
  }
  /**
   * Requests of the masters that were to change something, their leases included where those are in the API; Events
   * left out.
   */
  readonly writes: {
    readonly total: number
    /** The most that one master wrote within ten seconds. */
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
