import { Bitmap } from '../../net/bitmap.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { StoredRange } from '../registries/range-registry.ts'
import { MAX_RELEASE_DELAY_MS, MAX_STORE_DELAY_MS } from '../repair.ts'
import type { Finding, RepairMetrics } from '../reporter.ts'
import type { BitmapRange, RangeClaims } from './claims.ts'
import {
  type LeakLedger,
  noLeaks,
  type RangeReading,
  readRange,
  stillTaken,
  unreadableRange,
  withNumbers,
} from './plan.ts'

interface RangeStateOptions {
  readonly range: BitmapRange
  readonly claims: RangeClaims
  /** The place of the range, in messages. */
  readonly where: string
  /** See {@link RangeState.read}. */
  readonly adopt: boolean
  readonly metrics: RepairMetrics
  readonly clock: Clock
}

/**
 * A server is assumed to store the Service within this time, in milliseconds, after it cleared a number of that
 * Service. Measured: about 100 ms.
 */
const STORE_DELAY_MS = 250

/** The known state of one stored range, from reads, own writes and the registry's watch. */
export class RangeState {
  readonly #options: RangeStateOptions
  #adopt: boolean
  #reading: RangeReading | undefined
  #fixed: Finding | undefined
  #outdated = true
  #watchEvents = 0
  /**
   * No state up to this revision was missed. The first read or write after the watch has opened, or was interrupted,
   * sets it; then each state from the watch. Undefined until one of these has happened.
   */
  #watchedRevision: string | undefined
  /** Possible leaks. They have been allocated in every state since they were recorded, up to `#watchedRevision`. */
  ledger: LeakLedger = noLeaks
  /** Numbers that this master has set. They have been set in every state since, up to `#watchedRevision`. */
  readonly own: RecentlySet
  /** Recently cleared numbers, and until when they count as recent, on the monotonic clock; the oldest first. */
  #released: readonly { readonly numbers: Bitmap; readonly untilMs: number }[] = []

  constructor(options: RangeStateOptions) {
    this.#options = options
    this.#adopt = options.adopt
    this.own = new RecentlySet(options.range.size)
  }

  /**
   * Recently cleared numbers: the server may not yet have stored the Service without them. Undefined if there are none.
   */
  released(): Bitmap | undefined {
    const nowMs = this.#options.clock.monotonicMs()
    return this.#released
      .filter(({ untilMs }) => untilMs > nowMs)
      .reduce<Bitmap | undefined>((all, { numbers }) => all?.or(numbers) ?? numbers, undefined)
  }

  /** In how many milliseconds {@link released} has no numbers any more; undefined if it has none. */
  get releasedMs(): number | undefined {
    const last = this.#released.at(-1)
    const leftMs = (last?.untilMs ?? Number.NEGATIVE_INFINITY) - this.#options.clock.monotonicMs()
    return leftMs > 0 ? leftMs : undefined
  }

  get reading(): RangeReading | undefined {
    return this.#reading
  }

  /**
   * Whether the state must be read: at first, after an interruption of the watch, and after a failed call of the
   * registry.
   */
  get outdated(): boolean {
    return this.#outdated
  }

  /** Increases with each change and each interruption that the watch reports. */
  get watchEvents(): number {
    return this.#watchEvents
  }

  /** Why the range is withheld; undefined if it is not. */
  get withheld(): Finding | undefined {
    return this.#reading?.type === 'withheld' ? this.#reading.finding : this.#fixed
  }

  /**
   * Interprets a stored state, and records nothing. A bitmap of another range is adopted only until a bitmap of this
   * range has been received. If the stored range differs later, another program has changed it on purpose, so the range
   * is withheld.
   */
  read(stored: StoredRange): RangeReading {
    const { range, claims, where } = this.#options
    return readRange(range, stored, { claims, where, adopt: this.#adopt })
  }

  /** Whether this is the state up to which none was missed: see `#watchedRevision`. */
  upToDate(stored: StoredRange): boolean {
    return this.#watchedRevision === revisionOf(stored)
  }

  /** Records the state that a read or a write returned. */
  stored(stored: StoredRange): void {
    this.#watchedRevision ??= revisionOf(stored)
    this.#take(stored)
  }

  /** Records a state from the watch, which must deliver every state, in order. */
  watched(stored: StoredRange): void {
    this.#watchEvents++
    this.#watchedRevision = revisionOf(stored)
    this.#take(stored)
  }

  /** Call this when the watch may have missed states. */
  interrupted(): void {
    this.#watchEvents++
    this.#watchedRevision = undefined
    this.ledger = noLeaks
    this.own.forget()
    this.#outdated = true
  }

  /** Call this when a call of the registry has failed. */
  invalidate(): void {
    this.#outdated = true
  }

  /** Call this when no write is needed any more. */
  needsNoWrite(): void {
    if (this.#fixed === undefined) return
    this.#fixed = undefined
    this.#options.metrics.withheld(this.#options.range.name, undefined)
  }

  /**
   * Call this when a write is needed, but the registry forbids rewriting the stored state. Withholds the range until
   * {@link needsNoWrite} is called, or a state is received that may be rewritten. `reason`: see `fixed` of a stored
   * range.
   */
  cannotWrite(reason: string): void {
    const { range, where, metrics } = this.#options
    this.#fixed = unreadableRange(range, where, reason).finding
    metrics.withheld(range.name, 'unreadable')
  }

  #take(stored: StoredRange): void {
    const { range, metrics } = this.#options
    const reading = this.read(stored)
    this.#release(reading)
    this.#reading = reading
    this.#outdated = false
    const isWritable = stored.type !== 'range' || stored.fixed === undefined
    if (isWritable || reading.type === 'withheld') this.#fixed = undefined
    const withheld = reading.type === 'withheld' ? reading.reason : this.#fixed && 'unreadable'
    metrics.withheld(range.name, withheld)
    const isSameRange = reading.type === 'taken' && reading.origin === 'same-range'
    if (isSameRange) {
      this.#adopt = false
      metrics.usage(range.text, { allocated: reading.set.count, size: range.size })
    }
    this.ledger = isSameRange ? stillTaken(this.ledger, reading.set) : noLeaks
    if (isSameRange) this.own.still(reading.set)
    else this.own.forget()
  }

  #release(next: RangeReading): void {
    const before = this.#reading
    if (before?.type !== 'taken' || next.type !== 'taken' || next.origin !== 'same-range') return
    const numbers = before.set.minus(next.set)
    const nowMs = this.#options.clock.monotonicMs()
    this.#released = this.#released.filter(({ untilMs }) => untilMs > nowMs)
    if (numbers.count > 0) this.#released = [...this.#released, { numbers, untilMs: nowMs + STORE_DELAY_MS }]
  }
}

function revisionOf(stored: StoredRange): string {
  return stored.type === 'range' ? `revision ${stored.revision}` : stored.type
}

/**
 * Whether two states come from the same write, not merely have the same content. Two absent states count as one write,
 * and so do two unreadable ones.
 */
export function isSameWrite(a: StoredRange, b: StoredRange): boolean {
  return revisionOf(a) === revisionOf(b)
}

/** Numbers that were recorded at `sinceMs`, on the monotonic clock. */
interface Cohort {
  readonly numbers: Bitmap
  readonly sinceMs: number
}

/**
 * The numbers of one range that this master has set recently and that were not cleared since.
 *
 * When a Service loses its ports or addresses, its API server clears the numbers before it stores the Service. If a
 * master sets the numbers in between, they are leaked until a repair frees them. This master may clear them earlier, as
 * soon as no Service holds them: if they have stayed set since it set them, no API server can have allocated them for a
 * new Service.
 */
export class RecentlySet {
  readonly #size: number
  /**
   * `numbers`: those that a running write sets, except those cleared since it began. `seen`: those that a state has
   * shown.
   */
  #coming: { numbers: Bitmap; seen: Bitmap } | undefined
  /** Numbers that some Service holds, as far as is known. `sinceMs`: when this master set them. */
  #held: readonly Cohort[] = []
  /** Numbers that no Service holds. `sinceMs`: since when this is known. */
  #unheld: readonly Cohort[] = []

  constructor(size: number) {
    this.#size = size
  }

  /**
   * Call this before a write of these numbers, and {@link wereSet} when it has succeeded. Only one write may run at a
   * time. The watch may deliver later states before the registry answers the write.
   */
  setting(numbers: Bitmap): void {
    this.#coming = { numbers, seen: new Bitmap(this.#size) }
  }

  /** Call this when the write has succeeded. Has no effect if states may have been missed since the write began. */
  wereSet(nowMs: number): void {
    if (this.#coming !== undefined) this.#held = [...this.#held, { numbers: this.#coming.numbers, sinceMs: nowMs }]
    this.#coming = undefined
  }

  /** Call this with each state of the range in turn: numbers that are not in `set` have been cleared. */
  still(set: Bitmap): void {
    this.#held = withNumbers(this.#held, (numbers) => numbers.and(set))
    this.#unheld = withNumbers(this.#unheld, (numbers) => numbers.and(set))
    const coming = this.#coming
    if (coming === undefined) return
    const cleared = coming.seen.minus(set)
    coming.numbers = coming.numbers.minus(cleared)
    coming.seen = coming.seen.or(coming.numbers.and(set))
  }

  /** Call this when states may have been missed. */
  forget(): void {
    this.#coming = undefined
    this.#held = []
    this.#unheld = []
  }

  /**
   * Call this with the numbers that Services hold. `due`: numbers of this master to release now, because no Service has
   * held them for {@link MAX_RELEASE_DELAY_MS}. `inMs`: the milliseconds until more are due; undefined if none follow.
   */
  unheld(held: Bitmap, nowMs: number): { readonly due: Bitmap; readonly inMs: number | undefined } {
    this.#unheld = [
      ...withNumbers(this.#unheld, (numbers) => numbers.minus(held)),
      ...withNumbers(this.#held, (numbers) => numbers.minus(held)).map(({ numbers }) => ({ numbers, sinceMs: nowMs })),
    ]
    this.#held = withNumbers(this.#held, (numbers) => numbers.and(held)).filter(
      ({ sinceMs }) => nowMs - sinceMs <= MAX_STORE_DELAY_MS,
    )
    let due = new Bitmap(this.#size)
    let inMs: number | undefined
    for (const { numbers, sinceMs } of this.#unheld) {
      const leftMs = sinceMs + MAX_RELEASE_DELAY_MS - nowMs
      if (leftMs <= 0) due = due.or(numbers)
      else inMs = Math.min(inMs ?? leftMs, leftMs)
    }
    return { due, inMs }
  }
}
