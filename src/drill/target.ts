import type { Clock } from '../runtime/clock.ts'
import type { MemberState } from '../verify/member-state.ts'
import type { Listing, ObservedObjects, ObservedRequest } from '../verify/observation.ts'
import type { ConnectionOutcome } from './event.ts'
import type { RequestRule } from './request-faults.ts'
import type { DamageName, MasterPlan, MasterSettings } from './scenario/scenario.ts'

/**
 * One action on a fleet. All but `add` may be repeated. An action that does not apply to its master changes nothing: a
 * kube-apiserver, for example, has no sidecar whose requests could fail.
 */
export type Primitive =
  /**
   * `start` of a sidecar begins a new life: a process, from its start to its end. If an earlier life still runs, both
   * lives run side by side.
   */
  | {
      readonly type: 'start' | 'kill' | 'terminate' | 'freeze' | 'thaw'
      readonly master: string
      readonly part: 'sidecar' | 'server'
    }
  /** SIGTERM for all lives of the sidecar that still run, except the latest. */
  | { readonly type: 'terminate-earlier'; readonly master: string }
  /**
   * `cut` black-holes connections, and `heal` ends the cut. `api`: from the sidecar to its own API server; `store`:
   * from the sidecar to etcd; `server-store`: from the API server to its datastore; `clients`: from clients to the API
   * server.
   */
  | {
      readonly type: 'cut' | 'heal'
      readonly master: string
      readonly path: 'api' | 'store' | 'server-store' | 'clients'
    }
  | { readonly type: 'slow'; readonly master: string; readonly path: 'api' | 'store'; readonly byMs: number }
  /** Begins or ends a fault of the sidecar's requests to its own API server. */
  | { readonly type: 'fault' | 'no-fault'; readonly master: string; readonly rule: RequestRule }
  /** Sets the state of the etcd member beside a master's API server. */
  | { readonly type: 'own-etcd'; readonly master: string; readonly state: 'ok' | 'fails' | 'hangs' }
  | { readonly type: 'reset-connections'; readonly master: string }
  | { readonly type: 'readyz'; readonly master: string; readonly answer: 'ready' | 'unready' | 'hangs' | 'etcd-fails' }
  | { readonly type: 'clock-skew'; readonly master: string; readonly byMs: number }
  /** Changes settings for the next life of the sidecar. */
  | { readonly type: 'configure'; readonly master: string; readonly settings: MasterSettings }
  /** Adds a master whose processes do not run yet. */
  | { readonly type: 'add'; readonly master: MasterPlan }
  /** Kills both processes of a master that is not expected back. */
  | { readonly type: 'retire'; readonly master: string }
  | { readonly type: 'datastore'; readonly state: 'up' | 'away' | 'full' }
  | { readonly type: 'compact' }
  | { readonly type: 'damage'; readonly damage: DamageName }

export type MemberPrimitive = Extract<Primitive, { readonly master: string }>

/** A start of one process of a member, or a signal to it. */
export type ProcessAction = Extract<Primitive, { readonly part: unknown }>['type']

/** Receives each observation as soon as it is made. Times are the target clock's `monotonicMs`. */
export interface TargetObserver {
  listed(listing: Listing): void
  requested(request: ObservedRequest): void
  /** Receives the Service and the namespaces, at each change. */
  objects(found: ObservedObjects): void
  /** Receives the addresses with leases in the store, sorted, at each change. */
  leases(addresses: readonly string[]): void
  /**
   * Called when a connection of a real client has an outcome. The connections of simulated clients are computed from
   * the history.
   */
  connected(connection: {
    /** When the connection began. */
    readonly atMs: number
    readonly client: string
    readonly address: string
    readonly outcome: ConnectionOutcome
  }): void
}

/** A fleet that can be drilled: simulated, or of real processes. */
export interface DrillTarget {
  readonly kind: 'sim' | 'live'
  /** True time. All waiting of a drill uses it. */
  readonly clock: Clock
  /**
   * All masters that were ever added, in the order of addition. Each master is always represented by the same object.
   */
  readonly members: readonly MemberState[]
  /** The names of masters that are not expected back. */
  readonly retired: ReadonlySet<string>
  /** Whether no lease can expire now. */
  readonly leasesCannotExpire: boolean
  /** The greatest lateness of the host's timers so far, in milliseconds; undefined in simulated time. */
  readonly latenessMs?: number
  /** How many requests, watches and events of all masters this rule has hit so far. @default not counted */
  hitsOf?(rule: RequestRule): number
  /**
   * Begins to observe, before any process of the fleet runs. With the reconciler `none`, writes the list, unless real
   * kube-apiservers maintain it.
   */
  open(observer: TargetObserver, signal: AbortSignal): Promise<void>
  /**
   * Resolves when the action is done; the fleet may react later. Rejects with a {@link DrillError} if this target
   * cannot perform the action, and with a KubeError if the API server fails or refuses a damage.
   */
  perform(primitive: Primitive, signal: AbortSignal): Promise<void>
  /** Lets time pass until `work` settles, and settles as `work` does. */
  drive<T>(work: Promise<T>): Promise<T>
  /**
   * Ends every process, and restores the objects. May be called at any moment, and more than once. Rejects with a
   * {@link DrillError} if the objects cannot be restored.
   */
  close(): Promise<void>
}

/**
 * The drill cannot begin, a step cannot be performed or does not end, or the objects cannot be restored. The message is
 * one line.
 */
export class DrillError extends Error {
  override readonly name = 'DrillError'
  readonly code = 'DrillFailed'
}
