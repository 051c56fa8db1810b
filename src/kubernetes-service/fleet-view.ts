import type { Clock } from '../runtime/clock.ts'
import type { Histogram, Metrics } from '../telemetry/metrics.ts'
import { HOLDER_STATES, type HolderState, type MasterLease, OWN_ETCD } from './leases/master-leases.ts'
import { listedAddresses } from './members.ts'

/**
 * Why an address must not be listed, in words. `evicted`: its lease was removed by another client, such as `masters
 * evict`, before it could have ended. `no-lease`: it had no known lease. `surplus`: there are more masters than the
 * reconciler `master-count` may list.
 */
export const absenceWords = {
  'lease-ended': 'its lease has ended',
  evicted: 'its lease was deleted by another client',
  leaving: 'it is leaving',
  withdrawn: 'it was withdrawn',
  unready: 'its API server is not ready',
  [OWN_ETCD]: 'its own etcd fails',
  'no-lease': 'it has no lease',
  surplus: 'there are more masters than --apiserver-count',
} as const

/** Why an address was removed from the list. `detail`: the master's own statement about its server. */
export interface Removal {
  readonly reason: keyof typeof absenceWords
  readonly detail?: string | undefined
}

interface Seen {
  readonly state: HolderState | 'foreign' | 'suspected-expiry'
  readonly host: string | undefined
  readonly reason: string | undefined
  readonly renewal: string | undefined
  /**
   * When we sent the last read that still showed an earlier renewal: the lease lasts at least a TTL from then.
   * Undefined for the first renewal that we saw.
   */
  readonly notYetMs: number | undefined
  /** When we sent the last read that showed this renewal. */
  readonly readMs: number
  /** When we sent the first read that no longer showed the lease; undefined while reads show it. */
  readonly endedMs: number | undefined
}

const STATES: readonly Seen['state'][] = [...HOLDER_STATES, 'foreign', 'suspected-expiry']
/** How many addresses to remember, so that reports can state why one is gone. */
const MAX_REMEMBERED = 256

/** The fleet as one master knows it, for metrics and Events: which masters live, which are gone, since when and why. */
export class FleetView {
  readonly #clock: Clock
  readonly #ttlMs: number
  readonly #delays: Histogram<never>
  readonly #seen = new Map<string, Seen>()
  /** The leases of the last read; undefined before it. */
  #leases: readonly MasterLease[] | undefined
  #listable: readonly string[] = []
  /** Since when an address should no longer be listed, on the monotonic clock. */
  readonly #goneSinceMs = new Map<string, number>()
  #noticedMs: number | undefined

  constructor({ clock, metrics, ttlMs }: { readonly clock: Clock; readonly metrics: Metrics; readonly ttlMs: number }) {
    this.#clock = clock
    this.#ttlMs = ttlMs
    const masters = metrics.gauge({
      name: 'apiserver_bootstrap_masters',
      help: 'Masters with a live lease, by the state in their holder records; foreign: no record, such as a kube-apiserver; suspected-expiry: the lease is missing, possibly because it could not be renewed.',
      labels: ['state'],
    })
    metrics.onCollect(() => {
      if (this.#leases === undefined) return
      const found = this.#leases.map(stateOf)
      for (const state of STATES) masters.set({ state }, found.filter((one) => one === state).length)
    })
    this.#delays = metrics.histogram({
      name: 'apiserver_bootstrap_removal_delay_seconds',
      help: 'Time from detecting that an address must be removed, such as when its lease expires, to the write that removes it; reported by the master that writes.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    })
  }

  /** Called when the leases may have changed, before they are read. */
  noticed(): void {
    this.#noticedMs ??= this.#clock.monotonicMs()
  }

  /** Records the leases of a read that was sent at `sentMs` on the monotonic clock, by default now. */
  read(leases: readonly MasterLease[], sentMs = this.#clock.monotonicMs()): void {
    const sinceMs = this.#noticedMs ?? this.#clock.monotonicMs()
    this.#noticedMs = undefined
    for (const lease of leases) {
      const { address, holder } = lease
      const state = stateOf(lease)
      // The record of a master that removes its own lease has a departure id; that of a master that another client
      // withdrew has none.
      const hasLeft = state === 'withdrawn' && holder?.departure !== undefined
      const seen: Seen = {
        state: hasLeft ? 'leaving' : state,
        host: holder?.host,
        reason: holder?.reason,
        ...timesOf(lease, this.#seen.get(address), sentMs),
      }
      // Moved to the end, because the first addresses are forgotten first: no read has shown them for the longest time.
      this.#seen.delete(address)
      this.#seen.set(address, seen)
    }
    this.#leases = leases
    const listable = listedAddresses(leases)
    for (const address of listable) this.#goneSinceMs.delete(address)
    for (const address of this.#listable) {
      if (!listable.includes(address)) this.#goneSinceMs.set(address, sinceMs)
    }
    this.#listable = listable
    for (const address of this.#seen.keys()) {
      if (this.#seen.size <= MAX_REMEMBERED) break
      this.#seen.delete(address)
      this.#goneSinceMs.delete(address)
    }
  }

  /** Called when this master has removed an address from the list. Returns the reason. */
  removed(address: string): Removal {
    const sinceMs = this.#goneSinceMs.get(address)
    if (sinceMs !== undefined) this.#delays.observe({}, (this.#clock.monotonicMs() - sinceMs) / 1000)
    this.#goneSinceMs.delete(address)
    const seen = this.#seen.get(address)
    if (seen === undefined) return { reason: 'no-lease' }
    if (seen.state === 'leaving' || seen.state === 'withdrawn') return { reason: seen.state }
    if (this.isKnown(address)) {
      return seen.reason === OWN_ETCD ? { reason: OWN_ETCD } : { reason: 'unready', detail: seen.reason }
    }
    const { notYetMs = Number.NEGATIVE_INFINITY, endedMs = Number.POSITIVE_INFINITY } = seen
    if (endedMs >= notYetMs + this.#ttlMs) return { reason: 'lease-ended' }
    // A kube-apiserver that stops removes its own lease.
    return { reason: seen.host === undefined ? 'leaving' : 'evicted' }
  }

  /** Whether an address had a lease, a lease with a suspected expiry, or a record without a lease, at the last read. */
  isKnown(address: string): boolean {
    return this.#leases?.some((lease) => lease.address === address) ?? false
  }

  /** The host that holds, or last held, the lease of an address; undefined if no record names it. */
  hostOf(address: string): string | undefined {
    return this.#seen.get(address)?.host
  }
}

function stateOf({ holder, expirySuspected }: MasterLease): Seen['state'] {
  return expirySuspected === true ? 'suspected-expiry' : (holder?.state ?? 'foreign')
}

function timesOf({ renewal, expirySuspected }: MasterLease, before: Seen | undefined, sentMs: number) {
  if (expirySuspected === true && before !== undefined) {
    const { notYetMs, readMs, endedMs = sentMs } = before
    return { renewal, notYetMs, readMs, endedMs }
  }
  const notYetMs = renewal === before?.renewal ? before?.notYetMs : before?.readMs
  return { renewal, notYetMs, readMs: sentMs, endedMs: undefined }
}
