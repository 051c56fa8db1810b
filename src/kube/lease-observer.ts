/** One lease as a read showed it. */
export interface ObservedLease {
  readonly key: string
  /** Changes with each renewal and with nothing else; never compared with any clock. */
  readonly renewal: string
  readonly ttlMs: number
}

/**
 * How near its end a lease is.
 * - `renewed`: nobody expects its next renewal yet, or no list has shown it since.
 * - `grace`: a list has shown it a little before the end of its TTL; from then on its holder has the grace to renew it.
 * - `over`: that time has passed too. It stays over until it is renewed, whatever happens to this observer's reads.
 */
type Stage =
  | { readonly type: 'renewed' }
  | { readonly type: 'grace'; readonly sinceMs: number }
  | { readonly type: 'over' }

interface Sighting {
  readonly renewal: string
  readonly ttlMs: number
  /** When this observer first saw this renewal, on its own monotonic clock. */
  readonly sinceMs: number
  readonly stage: Stage
  /** How much a watch had told in all when it told of this; 0 for what a list showed. */
  readonly told: number
  /**
   * The renewal that was there when this observer began to look, or went on after a gap, and since when. A watch that catches up tells of
   * earlier ones once more, and ends with this.
   */
  readonly found: { readonly renewal: string; readonly sinceMs: number } | undefined
}

/** The grace, in milliseconds: whoever cannot renew tries again each second. */
const GRACE_MS = { least: 1_500, most: 2_000 }

/**
 * Judges leases that carry no server-side expiry by this observer's own monotonic clock: a lease is over when the same renewal
 * has been seen for a whole TTL. Wall clocks, its own and the holders', play no part.
 *
 * Successful lists judge, and nothing else does. A watch only tells of renewals earlier than the next list would; whether it stands or
 * breaks says nothing about the holders. After a failed list, or a gap in which this observer did not list at all (it was frozen),
 * every lease that is not over gets a fresh TTL at the next successful one: an outage must not look like the death of everybody else.
 * Nor does the end of a lease alone tell anything: an outage may have passed between two lists. So there must be a list a little before
 * it, and from that on the holder must have had the time to renew. Pure but for its own memory.
 */
export class LeaseObserver {
  readonly #maxGapMs: number
  #sightings = new Map<string, Sighting>()
  #lastListMs = Number.NEGATIVE_INFINITY
  #told = 0
  #hasListed = false

  /** `maxGapMs`: how long may pass between two lists, in milliseconds, before the time between them stops counting. */
  constructor(options: { readonly maxGapMs: number }) {
    this.#maxGapMs = options.maxGapMs
  }

  /** How much a watch has told so far. */
  get told(): number {
    return this.#told
  }

  /**
   * Takes in a complete list, and judges: leases that are not in it are forgotten. `told` as it was when the list was asked for: what a
   * watch has told of since is newer than the list.
   */
  readAll(leases: readonly ObservedLease[], nowMs: number, told = this.#told): void {
    const hadGap = nowMs - this.#lastListMs > this.#maxGapMs
    this.#lastListMs = nowMs
    const before = this.#sightings
    const isFirst = !this.#hasListed
    this.#hasListed = true
    this.#sightings = new Map([...before].filter(([, sighting]) => sighting.told > told))
    for (const lease of leases) {
      const newer = this.#sightings.get(lease.key)
      const sighting = newer ?? sight(before.get(lease.key), lease, nowMs, 0, isFirst)
      this.#sightings.set(lease.key, judge(hadGap ? anew(sighting, nowMs) : sighting, nowMs))
    }
  }

  /** Takes in one lease that a watch told of. */
  readOne(lease: ObservedLease, nowMs: number): void {
    this.#told++
    this.#sightings.set(lease.key, sight(this.#sightings.get(lease.key), lease, nowMs, this.#told, !this.#hasListed))
  }

  /** Takes in that a watch reported a lease to be gone. */
  forget(key: string): void {
    this.#told++
    this.#sightings.delete(key)
  }

  /** A list failed: the time until the next successful one does not count. */
  interrupted(): void {
    this.#lastListMs = Number.NEGATIVE_INFINITY
  }

  /** Whether the last successful list found that the lease has not been renewed for its whole TTL. */
  isOver(key: string): boolean {
    return this.#sightings.get(key)?.stage.type === 'over'
  }

  /** Whether it may have ended long ago: it was there at the first list, or at the first one after a gap, and nobody has renewed it since. */
  isFound(key: string): boolean {
    const sighting = this.#sightings.get(key)
    return sighting !== undefined && sighting.found?.renewal === sighting.renewal
  }

  /**
   * When to list next, so that leases are found over in time: a little before the next end of one that is not over, and at it, if
   * nothing is renewed. Undefined without such leases.
   */
  nextReadMs(nowMs: number): number | undefined {
    const readMs = Math.min(...[...this.#sightings.values()].map(nextJudgementMs).filter((dueMs) => dueMs > nowMs))
    return Number.isFinite(readMs) ? readMs : undefined
  }
}

function sight(
  before: Sighting | undefined,
  lease: ObservedLease,
  nowMs: number,
  told: number,
  isFound: boolean,
): Sighting {
  const { renewal, ttlMs } = lease
  if (before?.renewal === renewal) return { ...before, ttlMs, told }
  const found = isFound ? { renewal, sinceMs: nowMs } : before?.found
  const sinceMs = found?.renewal === renewal ? found.sinceMs : nowMs
  return { renewal, ttlMs, sinceMs, stage: { type: 'renewed' }, told, found }
}

/** The time until now has not counted. */
function anew(sighting: Sighting, nowMs: number): Sighting {
  if (sighting.stage.type === 'over') return sighting
  const found = { renewal: sighting.renewal, sinceMs: nowMs }
  return { ...sighting, sinceMs: nowMs, stage: { type: 'renewed' }, found }
}

function judge(sighting: Sighting, nowMs: number): Sighting {
  if (nowMs < nextJudgementMs(sighting)) return sighting
  switch (sighting.stage.type) {
    case 'renewed':
      return { ...sighting, stage: { type: 'grace', sinceMs: nowMs } }
    case 'grace':
    case 'over':
      return { ...sighting, stage: { type: 'over' } }
  }
}

/** When a list that still shows this renewal brings the lease nearer to its end. */
function nextJudgementMs({ sinceMs, ttlMs, stage }: Sighting): number {
  // How long before its end a holder that lives has renewed its lease, or tries to; a TTL leaves a third at least beside an interval.
  const graceMs = Math.min(Math.max(ttlMs / 6, GRACE_MS.least), GRACE_MS.most, ttlMs / 2)
  switch (stage.type) {
    case 'renewed':
      return sinceMs + ttlMs - graceMs
    case 'grace':
      return Math.max(sinceMs + ttlMs, stage.sinceMs + graceMs)
    case 'over':
      return Number.POSITIVE_INFINITY
  }
}
