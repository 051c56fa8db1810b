import type { KubeApi } from '../../kube/api.ts'
import { endpointSlices, endpoints, services } from '../../kube/resources.ts'
import type { Bounds } from '../../verify/observation.ts'
import type { RequestFilter } from '../request-faults.ts'

export { type Bounds, defaultBounds } from '../../verify/observation.ts'

/**
 * One drill: a fleet, what happens to it, and what must hold. Durations are in milliseconds. Plain JSON: it is part of
 * the report.
 */
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
  /**
   * `memory`: all sidecars in one process, in the simulator only. `kine` in the simulator only; live it is whatever
   * `--etcd-servers` leads to.
   */
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
  /**
   * The first is the one in Endpoints; a second is of the other family. Masters behind one virtual address have the
   * same.
   */
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

/**
 * With `jitterMs` it happens up to so much later, as the seed of a run decides: so that many runs meet leases of every
 * age.
 */
export type Step = { readonly atMs: number; readonly jitterMs?: number } & Action

/** Which of the two processes of a master: its API server, the sidecar beside it. */
export type Part = 'sidecar' | 'server' | 'both'

/**
 * What a partition cuts: the sidecar's way to its own API server (`api`); the connections of the sidecar and the server
 * to what they store in (`store`); the clients' way to the server (`clients`); or everything (`all`). Nothing is
 * refused, everything is black-holed.
 */
export type NetworkPath = 'api' | 'store' | 'clients' | 'all'

/** Names of masters; `all` of those that there are then. */
export type Chosen = readonly string[] | 'all'

/** With `forMs` a step is undone so much later. */
export type Action =
  /**
   * SIGKILL, SIGTERM, SIGSTOP. Undone by `start`, `start` and `thaw`. If both are stopped the server serves on until a
   * little after its sidecar has ended.
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
  | { readonly action: 'partition'; readonly masters: Chosen; readonly from: NetworkPath; readonly forMs?: number }
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
  /**
   * Undoes partitions, slowness, failing requests, dead etcd members and failing readiness. Open connections are reset.
   */
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
  /**
   * Steps that a seed decides, for so long; everything is undone at its end. The drill's own seed, when it has none.
   */
  | { readonly action: 'random'; readonly forMs: number; readonly seed?: number }

export const defaultClients: ClientsPlan = { count: 20, intervalMs: 250, watchDelayMs: 100, timeoutMs: 2_000 }

const ref = { namespace: 'default', name: 'kubernetes' }

/** Every way in which somebody spoils `default/kubernetes`, by name. */
export const damages = {
  'endpoints-deleted': (api) => api.delete(endpoints, ref),
  'endpoints-emptied': (api) => api.patch(endpoints, ref, { type: 'merge', body: { subsets: null } }),
  'endpoints-unlabelled': (api) => api.patch(endpoints, ref, { type: 'merge', body: { metadata: { labels: null } } }),
  'endpoints-with-a-foreign-port': (api) => patchSubset(api, { ports: [{ name: 'https', port: 1, protocol: 'TCP' }] }),
  'endpoints-with-a-foreign-protocol': (api) =>
    patchSubset(api, { ports: [{ name: 'https', port: 6443, protocol: 'UDP' }] }),
  'endpoints-with-a-foreign-address': (api) => patchSubset(api, { addresses: [{ ip: '203.0.113.7' }] }),
  'endpoints-with-a-foreign-unready-address': (api) => patchSubset(api, { notReadyAddresses: [{ ip: '203.0.113.8' }] }),
  'slice-deleted': (api) => api.delete(endpointSlices, ref),
  'slice-unlabelled': (api) => api.patch(endpointSlices, ref, { type: 'merge', body: { metadata: { labels: null } } }),
  'slice-emptied': (api) => api.patch(endpointSlices, ref, { type: 'merge', body: { endpoints: [], ports: [] } }),
  'service-deleted': (api) => api.delete(services, ref),
  'service-with-a-foreign-port': (api) =>
    api.patch(services, ref, { type: 'merge', body: { spec: { ports: [{ name: 'x', port: 1, protocol: 'TCP' }] } } }),
} as const satisfies Readonly<Record<string, (api: KubeApi) => Promise<unknown>>>

export type DamageName = keyof typeof damages

async function patchSubset(api: KubeApi, change: object): Promise<unknown> {
  const { subsets = [] } = await api.get(endpoints, ref)
  return api.patch(endpoints, ref, { type: 'merge', body: { subsets: [{ ...subsets[0], ...change }] } })
}

/** What a fleet lists once it has come up. */
interface ExpectedList {
  /** Everybody who may be listed, in order. */
  readonly addresses: readonly string[]
  isMet(listed: readonly string[] | undefined): boolean
}

/**
 * With leases: everybody whose reconciler is on. With `master-count`: as many of them as there are places. With `none`
 * everywhere: everybody, because whoever set the fleet up has listed them (see writeStaticList).
 */
export function expectedList({ masters, reconciler, apiserverCount }: FleetPlan): ExpectedList {
  const listing = masters.filter((plan) => reconcilerOf(plan, reconciler) !== 'none')
  const addresses = firstAddresses(listing.length > 0 ? listing : masters)
  const counted = listing.length > 0 && listing.every((plan) => reconcilerOf(plan, reconciler) === 'master-count')
  const places = counted ? Math.min(apiserverCount, addresses.length) : addresses.length
  return {
    addresses,
    isMet: (listed = []) => listed.length === places && listed.every((address) => addresses.includes(address)),
  }
}

/** A kube-apiserver has upstream's leases, whatever the others do. */
function reconcilerOf({ kind, settings }: MasterPlan, fleet: FleetPlan['reconciler']): FleetPlan['reconciler'] {
  return kind === 'kube-apiserver' ? 'lease' : (settings.reconciler ?? fleet)
}

/** The addresses of these masters that belong into Endpoints, each once, in order. */
export function firstAddresses(masters: readonly MasterPlan[]): readonly string[] {
  return [...new Set(masters.map(({ addresses, settings }) => (settings.addresses ?? addresses)[0] ?? ''))].sort()
}

/** The master that takes the place of another. */
export function successorName(name: string): string {
  return `${name}-anew`
}

/** Whether whoever comes in the place of `name`, or of its successors, is called so. */
export function isSuccessorName(candidate: string, name: string): boolean {
  return candidate.startsWith(name) && /^(?:-anew)+$/.test(candidate.slice(name.length))
}
