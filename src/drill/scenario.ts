import type { Bounds } from '../verify/bounds.ts'
import type { DamageName } from './damage.ts'
import type { RequestFilter } from './request-faults.ts'

export { type Bounds, defaultBounds } from '../verify/bounds.ts'

/** One drill: a fleet, what happens to it, and what must hold. Durations are in milliseconds. Plain JSON: it is part of the report. */
export interface Scenario {
  /** Lower case, with dashes. */
  readonly name: string
  /** One sentence. */
  readonly description: string
  readonly fleet: FleetPlan
  readonly clients: ClientsPlan
  /** In the order of their times. */
  readonly steps: readonly Step[]
  /** From the moment that everybody is listed, when time 0 of the steps is, to the end. */
  readonly durationMs: number
  readonly bounds: Bounds
}

export interface FleetPlan {
  readonly masters: readonly MasterPlan[]
  readonly reconciler: 'lease' | 'master-count' | 'none'
  /** How many places `master-count` has. */
  readonly apiserverCount: number
  /** `memory`: all sidecars in one process, in the simulator only. `kine` in the simulator only; live it is whatever `--etcd-servers` leads to. */
  readonly leaseStore: 'etcd' | 'kine' | 'kubernetes' | 'memory'
  readonly leaseTtlMs: number
  readonly reconcileIntervalMs: number
  readonly readinessGate: 'continuous' | 'startup'
  readonly onShutdown: 'withdraw' | 'always' | 'keep'
  /** In the simulator: whether what is sent is sometimes late. */
  readonly spikes: boolean
}

export interface MasterPlan {
  readonly name: string
  /** The first is the one in Endpoints; a second is of the other family. Masters behind one virtual address have the same. */
  readonly addresses: readonly string[]
  /** A kube-apiserver keeps its place itself, with upstream's reconciler; its TTL and interval are 15 s and 10 s. */
  readonly kind: 'apiserver-bootstrap' | 'kube-apiserver'
  /** How far its wall clock is ahead at the start. */
  readonly skewMs: number
  /** In the simulator: how much faster its clocks run, in parts per million. */
  readonly driftPpm: number
  /** Where it differs from the fleet; a later life may differ again. */
  readonly settings: MasterSettings
}

/** What `roll-config` can change of a master. */
export interface MasterSettings {
  readonly reconciler?: FleetPlan['reconciler']
  readonly leaseTtlMs?: number
  readonly reconcileIntervalMs?: number
  readonly readinessGate?: FleetPlan['readinessGate']
  readonly onShutdown?: FleetPlan['onShutdown']
  readonly securePort?: number
  /** Instead of those that it has: from one address or family to another. */
  readonly addresses?: readonly string[]
}

/** Clients that connect to `kubernetes.default` through a kube-proxy each. */
export interface ClientsPlan {
  readonly count: number
  /** Between two connections of one client. */
  readonly intervalMs: number
  /** From a change of the slice until it is in a client's kube-proxy. */
  readonly watchDelayMs: number
  /** After that without an answer a connection counts as black-holed. */
  readonly timeoutMs: number
}

/** With `jitterMs` it happens up to so much later, as the seed of a run decides: so that many runs meet leases of every age. */
export type Step = { readonly atMs: number; readonly jitterMs?: number } & Action

/** Which of the two processes of a master: its API server, the sidecar beside it. */
export type Part = 'sidecar' | 'server' | 'both'

/**
 * What a partition cuts: the sidecar's way to its own API server (`api`); the ways of the sidecar and the server to what they store in
 * (`store`); the clients' way to the server (`clients`); or everything (`all`). Nothing is refused, everything is black-holed.
 */
export type Way = 'api' | 'store' | 'clients' | 'all'

/** Names of masters; `all` of those that there are then. */
export type Chosen = readonly string[] | 'all'

/** With `forMs` a step is undone so much later. */
export type Action =
  /**
   * SIGKILL, SIGTERM, SIGSTOP. Undone by `start`, `start` and `thaw`. Where both are told to stop the server serves on until a little
   * after its sidecar has ended.
   */
  | {
      readonly action: 'kill' | 'terminate' | 'freeze'
      readonly masters: Chosen
      readonly part: Part
      readonly forMs?: number
    }
  | { readonly action: 'start' | 'thaw'; readonly masters: Chosen; readonly part: Part }
  /** Ended by a signal and, `pauseMs` after its end, started; or started `overlapMs` before the old one is ended. */
  | {
      readonly action: 'restart'
      readonly masters: Chosen
      readonly part: Part
      readonly signal: 'kill' | 'terminate'
      readonly pauseMs: number
      readonly overlapMs?: number
    }
  | { readonly action: 'partition'; readonly masters: Chosen; readonly from: Way; readonly forMs?: number }
  /** So much longer takes each message on that way. */
  | {
      readonly action: 'slow'
      readonly masters: Chosen
      readonly from: 'api' | 'store'
      readonly byMs: number
      readonly forMs?: number
    }
  /** What the sidecar asks its own API server meets something on its way; see `ruleOf`. */
  | ({
      readonly action: 'requests-fail'
      readonly masters: Chosen
      readonly how: 'status' | 'hang' | 'delay' | 'cut-watches' | 'lose-event' | 'expired'
      /** Of `status`. */
      readonly status?: number
      /** Of `status`, with 429 and 503. */
      readonly retryAfterMs?: number
      /** Of `delay`. */
      readonly byMs?: number
      /** Of `cut-watches`. */
      readonly everyMs?: number
      /** Of `status`, `hang` and `delay`. */
      readonly requests?: number
      readonly forMs?: number
    } & RequestFilter)
  /** The etcd member beside the API server is dead, and nobody else's. */
  | {
      readonly action: 'own-etcd-dead'
      readonly masters: Chosen
      readonly how: 'fails' | 'hangs'
      readonly forMs?: number
    }
  /** Undoes partitions, slowness, failing requests, dead etcd members and failing readiness. Open connections are reset. */
  | { readonly action: 'heal'; readonly masters: Chosen }
  /** All connections of the sidecar are reset. */
  | { readonly action: 'reset-connections'; readonly masters: Chosen }
  /** The master dies for good, and `pauseMs` later another comes with its address. */
  | { readonly action: 'replace'; readonly masters: Chosen; readonly pauseMs: number }
  /** The wall clock of the sidecar is set, so far ahead of true time (negative: behind). */
  | { readonly action: 'clock-skew'; readonly masters: Chosen; readonly byMs: number }
  /** What everything is stored in is away, or full. */
  | { readonly action: 'datastore-outage'; readonly how: 'away' | 'full'; readonly forMs: number }
  /** The API servers end, and are started again. */
  | { readonly action: 'apiserver-outage'; readonly masters: Chosen; readonly forMs: number }
  | {
      readonly action: 'readyz-fails'
      readonly masters: Chosen
      readonly how: 'unready' | 'hangs' | 'etcd'
      readonly forMs?: number
    }
  | { readonly action: 'compact' }
  | { readonly action: 'damage'; readonly damage: DamageName }
  /** One after the other: ended by SIGTERM, started, listed again (at most 30 s), and then `pauseMs`. */
  | { readonly action: 'rolling-restart'; readonly masters: Chosen; readonly part: Part; readonly pauseMs: number }
  /** A rolling restart of the sidecars with other settings. */
  | {
      readonly action: 'roll-config'
      readonly masters: Chosen
      readonly settings: MasterSettings
      readonly pauseMs: number
    }
  /** More masters are added, or the last ones are terminated for good. */
  | { readonly action: 'scale'; readonly to: number }
  /** Steps that a seed decides, for so long; everything is undone at its end. The drill's own seed, when it has none. */
  | { readonly action: 'random'; readonly forMs: number; readonly seed?: number }

export const defaultClients: ClientsPlan = { count: 20, intervalMs: 250, watchDelayMs: 100, timeoutMs: 2_000 }
