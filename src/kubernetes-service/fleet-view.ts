import type { Clock } from '../runtime/clock.ts'
import type { Gauge, Histogram, Metrics } from '../telemetry/metrics.ts'
import type { Holder, HolderState, MasterLease } from './leases/master-leases.ts'
import { listedAddresses } from './members.ts'

/**
 * Why an address is not to be listed. A lease that was removed by `masters evict` has ended, too: the stores do not show the difference.
 * `no-lease`: nobody is known to have held one for it.
 */
export type Absence = 'lease-ended' | 'leaving' | 'withdrawn' | 'unready' | 'no-lease'

/** What one lease said last. */
interface Seen {
  readonly state: HolderState | 'foreign' | 'doubtful'
  readonly host: string | undefined
  /** What the master says of its state in its own words. */
  readonly reason: string | undefined
}

const STATES: readonly Seen['state'][] = ['ready', 'failing', 'unready', 'leaving', 'withdrawn', 'foreign', 'doubtful']
/** Addresses that have gone are remembered for those who ask why; so many at most. */
const MAX_REMEMBERED = 256

/** What one master knows of the others, for metrics and events: who lives, who has gone since when, and why. */
export class FleetView {
  readonly #clock: Clock
  readonly #masters: Gauge<'state'>
  readonly #delays: Histogram<never>
  readonly #seen = new Map<string, Seen>()
  #live: ReadonlySet<string> = new Set()
  #listable: readonly string[] = []
  /** Since when an address that was to be listed is not, on the monotonic clock. */
  readonly #goneSinceMs = new Map<string, number>()
  #noticedMs: number | undefined

  constructor({ clock, metrics }: { readonly clock: Clock; readonly metrics: Metrics }) {
    this.#clock = clock
    this.#masters = metrics.gauge({
      name: 'apiserver_bootstrap_masters',
      help: 'Masters with a live lease, by what their holder records say; foreign: no record, such as a kube-apiserver; doubtful: ended, perhaps only because nobody could renew.',
      labels: ['state'],
    })
    this.#delays = metrics.histogram({
      name: 'apiserver_bootstrap_removal_delay_seconds',
      help: 'Time from noticing that an address is not to be listed any more, such as at the end of its lease, to the write that removes it; only by the master that writes.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    })
  }

  /** The leases may have changed; they are about to be read. */
  noticed(): void {
    this.#noticedMs ??= this.#clock.monotonicMs()
  }

  /** The leases were read. */
  read(leases: readonly MasterLease[]): void {
    const sinceMs = this.#noticedMs ?? this.#clock.monotonicMs()
    this.#noticedMs = undefined
    const counts = new Map(STATES.map((state) => [state, 0]))
    for (const { address, holder, doubtful } of leases) {
      const state = doubtful === true ? 'doubtful' : (holder?.state ?? 'foreign')
      counts.set(state, (counts.get(state) ?? 0) + 1)
      // Last, so that those that have gone longest are forgotten first.
      this.#seen.delete(address)
      this.#seen.set(address, { state, host: holder?.host, reason: reasonIn(holder) })
    }
    for (const [state, count] of counts) this.#masters.set({ state }, count)
    this.#live = new Set(leases.map(({ address }) => address))
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

  /** An address was taken off the list here. Says why that was to be done: in the master's own words, else an {@link Absence}. */
  removed(address: string): string {
    const sinceMs = this.#goneSinceMs.get(address)
    if (sinceMs !== undefined) this.#delays.observe({}, (this.#clock.monotonicMs() - sinceMs) / 1000)
    this.#goneSinceMs.delete(address)
    const seen = this.#seen.get(address)
    if (seen === undefined) return 'no-lease' satisfies Absence
    if (seen.state === 'leaving' || seen.state === 'withdrawn') return seen.reason ?? (seen.state satisfies Absence)
    if (!this.#live.has(address)) return 'lease-ended' satisfies Absence
    return seen.reason ?? ('unready' satisfies Absence)
  }

  /** Whether an address had a lease, or a record of its own, when the leases were last read. */
  isLive(address: string): boolean {
    return this.#live.has(address)
  }

  /** The host that holds, or held last, the lease of an address; undefined where no record says so. */
  hostOf(address: string): string | undefined {
    return this.#seen.get(address)?.host
  }
}

function reasonIn(holder: Holder | undefined): string | undefined {
  return (holder as { readonly reason?: string } | undefined)?.reason
}
