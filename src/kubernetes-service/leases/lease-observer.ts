/** One lease as a read showed it. */
export interface ObservedLease {
  readonly key: string
  /** Changes with each renewal and with nothing else; never compared with any clock. */
  readonly renewal: string
  readonly ttlMs: number
}

interface Sighting {
  readonly renewal: string
  /** The one before: a list that was under way when a watch told of a newer one still shows it. */
  readonly earlier: string | undefined
  readonly ttlMs: number
  /** When this observer first saw this renewal, on its own monotonic clock. */
  readonly sinceMs: number
}

/**
 * Judges leases that carry no server-side expiry by this observer's own monotonic clock: a lease is over when the same renewal
 * has been seen for a whole TTL. Wall clocks, its own and the holders', play no part.
 *
 * Only time in which this observer could read counts. After a failed read, or a gap in which it did not read at all (it was
 * frozen), every lease gets a fresh TTL at the next successful one: an outage must not look like the death of everybody else.
 * Pure but for its own memory.
 */
export class LeaseObserver {
  readonly #maxGapMs: number
  #sightings = new Map<string, Sighting>()
  #lastReadMs = Number.NEGATIVE_INFINITY
  #interrupted = false

  /** `maxGapMs`: how long may pass between two reads, in milliseconds, before the time between them stops counting. */
  constructor(options: { readonly maxGapMs: number }) {
    this.#maxGapMs = options.maxGapMs
  }

  /** Takes in a complete read: leases that are not in it are forgotten. */
  readAll(leases: readonly ObservedLease[], nowMs: number): void {
    this.#resume(nowMs)
    const before = this.#sightings
    this.#sightings = new Map()
    for (const lease of leases) this.#sightings.set(lease.key, sight(before.get(lease.key), lease, nowMs))
  }

  /** Takes in one lease that a watch reported. */
  readOne(lease: ObservedLease, nowMs: number): void {
    this.#resume(nowMs)
    this.#sightings.set(lease.key, sight(this.#sightings.get(lease.key), lease, nowMs))
  }

  forget(key: string): void {
    this.#sightings.delete(key)
  }

  /** A read failed or a watch broke: the time until the next successful read does not count. */
  interrupted(): void {
    this.#interrupted = true
  }

  /** Whether the lease has been seen unrenewed for its whole TTL. Meaningful only right after a successful read. */
  isOver(key: string, nowMs: number): boolean {
    const sighting = this.#sightings.get(key)
    return sighting !== undefined && nowMs - sighting.sinceMs >= sighting.ttlMs
  }

  /** When the next of the leases that are not over will be, if nothing is renewed; undefined without such leases. */
  nextEndMs(nowMs: number): number | undefined {
    const ends = [...this.#sightings.values()]
      .map(({ sinceMs, ttlMs }) => sinceMs + ttlMs)
      .filter((endMs) => endMs > nowMs)
    return ends.length === 0 ? undefined : Math.min(...ends)
  }

  #resume(nowMs: number): void {
    if (this.#interrupted || nowMs - this.#lastReadMs > this.#maxGapMs) {
      for (const [key, sighting] of this.#sightings) this.#sightings.set(key, { ...sighting, sinceMs: nowMs })
    }
    this.#interrupted = false
    this.#lastReadMs = nowMs
  }
}

function sight(before: Sighting | undefined, lease: ObservedLease, nowMs: number): Sighting {
  const { renewal, ttlMs } = lease
  if (before === undefined) return { renewal, earlier: undefined, ttlMs, sinceMs: nowMs }
  if (before.renewal === renewal) return { ...before, ttlMs }
  if (before.earlier === renewal) return before
  return { renewal, earlier: before.renewal, ttlMs, sinceMs: nowMs }
}
