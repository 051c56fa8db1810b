/** One lease as a read showed it. */
export interface ObservedLease {
  readonly key: string
  /** Changes with each renewal and with nothing else; never compared with any clock. */
  readonly renewal: string
  readonly ttlMs: number
}

interface Sighting {
  readonly renewal: string
  readonly ttlMs: number
  /** When this observer first saw this renewal, on its own monotonic clock. */
  readonly sinceMs: number
  /** When it first read anything in the last {@link graceMs} of the lease; undefined before that. */
  readonly confirmedMs: number | undefined
  /** How much a watch had told in all when it told of this; 0 for what a list showed. */
  readonly told: number
}

/** The grace, in milliseconds: whoever cannot renew tries again each second. */
const GRACE_MS = { least: 1_500, most: 2_000 }

/**
 * Judges leases that carry no server-side expiry by this observer's own monotonic clock: a lease is over when the same renewal
 * has been seen for a whole TTL. Wall clocks, its own and the holders', play no part.
 *
 * Only time in which this observer could read counts. After a failed read, or a gap in which it did not read at all (it was
 * frozen), every lease gets a fresh TTL at the next successful one: an outage must not look like the death of everybody else.
 * Nor does the end of a lease alone tell anything: an outage may have passed without a read. So there must be a read a little before
 * it, and from that on the holder must have had the time to renew. Pure but for its own memory.
 */
export class LeaseObserver {
  readonly #maxGapMs: number
  #sightings = new Map<string, Sighting>()
  #lastReadMs = Number.NEGATIVE_INFINITY
  #interrupted = false
  #told = 0

  /** `maxGapMs`: how long may pass between two reads, in milliseconds, before the time between them stops counting. */
  constructor(options: { readonly maxGapMs: number }) {
    this.#maxGapMs = options.maxGapMs
  }

  /** How much a watch has told so far. */
  get told(): number {
    return this.#told
  }

  /**
   * Takes in a complete read: leases that are not in it are forgotten. `told` as it was when the read began: what a watch has told of
   * since is newer than the read.
   */
  readAll(leases: readonly ObservedLease[], nowMs: number, told = this.#told): void {
    this.#resume(nowMs)
    const before = this.#sightings
    this.#sightings = new Map([...before].filter(([, sighting]) => sighting.told > told))
    for (const lease of leases) {
      if (this.#sightings.has(lease.key)) continue
      this.#sightings.set(lease.key, confirm(sight(before.get(lease.key), lease, nowMs, 0), nowMs))
    }
  }

  /** Takes in one lease that a watch reported. */
  readOne(lease: ObservedLease, nowMs: number): void {
    this.#resume(nowMs)
    this.#told++
    const sighting = sight(this.#sightings.get(lease.key), lease, nowMs, this.#told)
    this.#sightings.set(lease.key, confirm(sighting, nowMs))
  }

  /** Takes in that a watch reported a lease to be gone. */
  forget(key: string): void {
    this.#told++
    this.#sightings.delete(key)
  }

  /** A read failed or a watch broke: the time until the next successful read does not count. */
  interrupted(): void {
    this.#interrupted = true
  }

  /** Whether the lease has been seen unrenewed for its whole TTL. Meaningful only right after a successful read. */
  isOver(key: string, nowMs: number): boolean {
    const sighting = this.#sightings.get(key)
    if (sighting?.confirmedMs === undefined) return false
    return nowMs >= endMs(sighting)
  }

  /**
   * When to read next, so that leases are found over in time: a little before the next end of one that is not over, and at it, if
   * nothing is renewed. Undefined without such leases.
   */
  nextReadMs(nowMs: number): number | undefined {
    const reads = [...this.#sightings.values()]
      .map((sighting) => (sighting.confirmedMs === undefined ? graceBeginMs(sighting) : endMs(sighting)))
      .filter((readMs) => readMs > nowMs)
    return reads.length === 0 ? undefined : Math.min(...reads)
  }

  #resume(nowMs: number): void {
    if (this.#interrupted || nowMs - this.#lastReadMs > this.#maxGapMs) {
      for (const [key, sighting] of this.#sightings) {
        this.#sightings.set(key, { ...sighting, sinceMs: nowMs, confirmedMs: undefined })
      }
    }
    this.#interrupted = false
    this.#lastReadMs = nowMs
  }
}

function sight(before: Sighting | undefined, lease: ObservedLease, nowMs: number, told: number): Sighting {
  const { renewal, ttlMs } = lease
  if (before?.renewal === renewal) return { ...before, ttlMs, told }
  return { renewal, ttlMs, sinceMs: nowMs, confirmedMs: undefined, told }
}

function confirm(sighting: Sighting, nowMs: number): Sighting {
  if (sighting.confirmedMs !== undefined || nowMs < graceBeginMs(sighting)) return sighting
  return { ...sighting, confirmedMs: nowMs }
}

/** How long before its end a holder that lives has renewed its lease, or tries to; a TTL leaves a third at least beside an interval. */
function graceMs({ ttlMs }: Sighting): number {
  return Math.min(Math.max(ttlMs / 6, GRACE_MS.least), GRACE_MS.most, ttlMs / 2)
}

function graceBeginMs(sighting: Sighting): number {
  return sighting.sinceMs + sighting.ttlMs - graceMs(sighting)
}

function endMs(sighting: Sighting): number {
  const { sinceMs, ttlMs, confirmedMs = Number.POSITIVE_INFINITY } = sighting
  return Math.max(sinceMs + ttlMs, confirmedMs + graceMs(sighting))
}
