export interface ObservedLease {
  readonly key: string
  /** Changes with each renewal and with nothing else. It is compared only for equality, never with a clock. */
  readonly renewal: string
  readonly ttlMs: number
}

/**
 * How close a lease is to its end.
 * - `renewed`: no list close to the end of the TTL, or later, has returned this renewal yet.
 * - `grace`: such a list has returned this renewal. The holder has until the end of the TTL, and at least the grace
 *   period, to renew.
 * - `over`: a list after that time has returned this renewal. The lease stays over until a renewal, even if reads fail.
 */
type Stage =
  | { readonly type: 'renewed' }
  | { readonly type: 'grace'; readonly sinceMs: number }
  | { readonly type: 'over' }

interface Observation {
  readonly renewal: string
  readonly ttlMs: number
  /** When this observer first saw this renewal, on its own monotonic clock. */
  readonly sinceMs: number
  readonly stage: Stage
  /** The observer's event count at the last watch event about this lease; 0 if a later list has returned the lease. */
  readonly eventCount: number
  /**
   * The renewal in the first list at the start or after a gap, and the time of that list; undefined if that list did
   * not have the lease. A watch that started from an older state reports earlier renewals first and then this renewal
   * again. The TTL after this renewal still counts from that list.
   */
  readonly found: { readonly renewal: string; readonly sinceMs: number } | undefined
}

/**
 * The limits of the grace period, in milliseconds. With a TTL under 3 s the period is half of the TTL. A holder that
 * cannot renew tries again each second.
 */
const GRACE_MS = { least: 1_500, most: 2_000 }

/**
 * Decides when leases without a server-side expiry are over: when the same renewal was observed for a whole TTL, on
 * this observer's own monotonic clock. Wall clocks are not used.
 *
 * Only successful lists decide. A watch only shows renewals earlier than the next list would. Whether the watch works
 * shows nothing about the holders. After a failed list, or a gap without lists (this process was frozen), every lease
 * that is not over gets a fresh TTL at the next successful list: an outage must not be mistaken for the death of every
 * other master. One list after the end of a TTL is not enough, because an outage may have begun and ended since the
 * previous list. So two lists must return the same renewal. The first must be shortly before the end of the TTL or
 * later. The second must be after the end, and at least the grace period after the first.
 */
export class LeaseObserver {
  readonly #maxGapMs: number
  #observations = new Map<string, Observation>()
  #lastListMs = Number.NEGATIVE_INFINITY
  #eventCount = 0

  /** `maxGapMs`: how long may pass between two lists, in milliseconds, before the time between them stops counting. */
  constructor(options: { readonly maxGapMs: number }) {
    this.#maxGapMs = options.maxGapMs
  }

  get eventCount(): number {
    return this.#eventCount
  }

  /**
   * Records a complete list, which arrived at `nowMs`, and advances every lease in it whose next stage is due. Forgets
   * the other leases, except those of later watch events. `eventCount` is the count when the list was requested: later
   * watch events are newer than the list.
   */
  readAll(leases: readonly ObservedLease[], nowMs: number, eventCount = this.#eventCount): void {
    const hadGap = nowMs - this.#lastListMs > this.#maxGapMs
    this.#lastListMs = nowMs
    const before = this.#observations
    this.#observations = new Map([...before].filter(([, observation]) => observation.eventCount > eventCount))
    for (const lease of leases) {
      const newer = this.#observations.get(lease.key)
      const observation = newer ?? observe(before.get(lease.key), lease, nowMs, 0)
      this.#observations.set(lease.key, advance(hadGap ? anew(observation, nowMs) : observation, nowMs))
    }
  }

  /** Records one lease from a watch event. */
  readOne(lease: ObservedLease, nowMs: number): void {
    this.#eventCount++
    this.#observations.set(lease.key, observe(this.#observations.get(lease.key), lease, nowMs, this.#eventCount))
  }

  /** Records that a watch reported the deletion of a lease. */
  forget(key: string): void {
    this.#eventCount++
    this.#observations.delete(key)
  }

  /** Records that a list failed: the time until the next successful one does not count. */
  interrupted(): void {
    this.#lastListMs = Number.NEGATIVE_INFINITY
  }

  /** Whether a list has found that the lease was not renewed for its whole TTL, and no renewal was observed since. */
  isOver(key: string): boolean {
    return this.#observations.get(key)?.stage.type === 'over'
  }

  /** Whether the lease may have ended long ago: not renewed since the first list, at the start or after a gap. */
  isFound(key: string): boolean {
    const observation = this.#observations.get(key)
    return observation !== undefined && observation.found?.renewal === observation.renewal
  }

  /**
   * When to list next, on the caller's monotonic clock, to detect the end of leases in time: shortly before the end of
   * a lease that is not over, and at the end if there is no renewal. Undefined if there is no such time after `nowMs`.
   */
  nextReadMs(nowMs: number): number | undefined {
    const readMs = Math.min(...[...this.#observations.values()].map(nextListMs).filter((dueMs) => dueMs > nowMs))
    return Number.isFinite(readMs) ? readMs : undefined
  }
}

function observe(
  before: Observation | undefined,
  lease: ObservedLease,
  nowMs: number,
  eventCount: number,
): Observation {
  const { renewal, ttlMs } = lease
  if (before?.renewal === renewal) return { ...before, ttlMs, eventCount }
  const found = before?.found
  const sinceMs = found?.renewal === renewal ? found.sinceMs : nowMs
  return { renewal, ttlMs, sinceMs, stage: { type: 'renewed' }, eventCount, found }
}

/** A lease that is not over gets a fresh TTL: the time until now does not count. */
function anew(observation: Observation, nowMs: number): Observation {
  if (observation.stage.type === 'over') return observation
  const found = { renewal: observation.renewal, sinceMs: nowMs }
  return { ...observation, sinceMs: nowMs, stage: { type: 'renewed' }, found }
}

function advance(observation: Observation, nowMs: number): Observation {
  if (nowMs < nextListMs(observation)) return observation
  switch (observation.stage.type) {
    case 'renewed':
      return { ...observation, stage: { type: 'grace', sinceMs: nowMs } }
    case 'grace':
    case 'over':
      return { ...observation, stage: { type: 'over' } }
  }
}

/** The time from which a list with this same renewal advances the lease to its next stage. */
function nextListMs({ sinceMs, ttlMs, stage }: Observation): number {
  // A live holder has renewed its lease this long before the end, or is trying to, because a TTL is at least 1.5 times
  // the renewal interval. With a TTL under 4.5 s the grace period may begin before the renewal is due.
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
