import type { Clock } from '../runtime/clock.ts'
import type { Listing } from '../verify/listing.ts'
import type { MemberState } from '../verify/member-state.ts'
import type { ObservedObjects, ObservedRequest } from '../verify/observation.ts'
import type { DamageName } from './damage.ts'
import type { ConnectionOutcome } from './event.ts'
import type { RequestRule } from './request-faults.ts'
import type { MasterPlan, MasterSettings } from './scenario.ts'

/** One thing that is done to a fleet, at once. Every one may be done twice; what has no meaning then changes nothing. */
export type Primitive =
  /** `start` begins another life of the sidecar, beside one that still runs. */
  | {
      readonly type: 'start' | 'kill' | 'terminate' | 'freeze' | 'thaw'
      readonly master: string
      readonly part: 'sidecar' | 'server'
    }
  /** SIGTERM for the life before the present one, where lives overlap. */
  | { readonly type: 'terminate-earlier'; readonly master: string }
  | {
      readonly type: 'cut' | 'heal'
      readonly master: string
      readonly way: 'api' | 'store' | 'server-store' | 'clients'
    }
  | { readonly type: 'slow'; readonly master: string; readonly way: 'api' | 'store'; readonly byMs: number }
  /** What the sidecar's requests to its own API server meet from now on, and no more. */
  | { readonly type: 'fault' | 'no-fault'; readonly master: string; readonly rule: RequestRule }
  /** The etcd member beside its API server. */
  | { readonly type: 'own-etcd'; readonly master: string; readonly state: 'ok' | 'fails' | 'hangs' }
  | { readonly type: 'reset-connections'; readonly master: string }
  | { readonly type: 'readyz'; readonly master: string; readonly answer: 'ready' | 'unready' | 'hangs' | 'etcd-fails' }
  | { readonly type: 'clock-skew'; readonly master: string; readonly byMs: number }
  /** For the next life. */
  | { readonly type: 'configure'; readonly master: string; readonly settings: MasterSettings }
  /** A host whose processes do not run yet. */
  | { readonly type: 'add'; readonly master: MasterPlan }
  /** Both its processes are killed, and it is not expected back. */
  | { readonly type: 'retire'; readonly master: string }
  | { readonly type: 'datastore'; readonly state: 'up' | 'away' | 'full' }
  | { readonly type: 'compact' }
  | { readonly type: 'damage'; readonly damage: DamageName }

/** Hears what happens, at once and in its order. Times are the target clock's `monotonicMs`. */
export interface TargetObserver {
  listed(listing: Listing): void
  requested(request: ObservedRequest): void
  /** The Service and the namespaces, each time that they change. */
  objects(found: ObservedObjects): void
  /** The addresses whose leases are in the store, sorted, each time that they change. */
  leases(addresses: readonly string[]): void
  /** Of real clients; simulated ones are worked out from the history. */
  connected(connection: {
    /** When it began. */
    readonly atMs: number
    readonly client: string
    readonly address: string
    readonly outcome: ConnectionOutcome
  }): void
}

/** A fleet that can be drilled: simulated, or of real processes. */
export interface DrillTarget {
  readonly kind: 'sim' | 'live'
  /** True time. All waiting of a drill goes through it. */
  readonly clock: Clock
  /** Everybody who was ever added, in that order; the same objects each time. */
  readonly members: readonly MemberState[]
  /** Names of those who are not expected back. */
  readonly retired: ReadonlySet<string>
  /** Nobody's lease can end at this moment. */
  readonly leasesStandStill: boolean
  /** How late the timers of the host were at most so far, in milliseconds. @default time is simulated, and no timer is late */
  readonly latenessMs?: number
  /** Begins to observe. No process of the fleet runs yet. */
  open(observer: TargetObserver, signal: AbortSignal): Promise<void>
  /** Resolves when it is done, not when it has had its effect. Rejects when it cannot be done here, in one line for people. */
  perform(primitive: Primitive, signal: AbortSignal): Promise<void>
  /** Lets time pass until `work` is done; how it ends is how this ends. */
  drive<T>(work: Promise<T>): Promise<T>
  /** Ends every process, and puts back what was found. May be called at any moment, and twice. */
  close(): Promise<void>
}
