import type { Bitmap } from '../net/bitmap.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Finding } from './finding.ts'
import { type LeakLedger, noLeaks, stillTaken } from './leak-ledger.ts'
import { OwnNumbers } from './own-numbers.ts'
import type { KeptRange, RangeClaims } from './range-claims.ts'
import { type RangeReading, readRange, unreadableRange } from './range-reading.ts'
import type { StoredRange } from './registries/range-registry.ts'
import type { RepairMetrics } from './repair-metrics.ts'

export interface RangeMemoryOptions {
  readonly range: KeptRange
  readonly claims: RangeClaims
  /** The place of the range, in messages. */
  readonly where: string
  /** See {@link RangeMemory.read}. */
  readonly adopt: boolean
  readonly metrics: RepairMetrics
  readonly clock: Clock
}

/** So long after a number was cleared its server is given to store the Service that has given it up; on a laden one some 100 ms were seen. */
const releaseMs = 250

/** What is known of one stored range, from reads, own writes and the registry's watch. */
export class RangeMemory {
  readonly #options: RangeMemoryOptions
  #adopt: boolean
  #reading: RangeReading | undefined
  #fixed: Finding | undefined
  #doubtful = true
  #news = 0
  /** The state up to which the watch has told of every state, by its revision; undefined when some may have been missed. */
  #told: string | undefined
  /** What may have leaked. What is in it has been taken in every state since it was, up to `#told`. */
  ledger: LeakLedger = noLeaks
  /** What was set here. What is in it has been set in every state since, up to `#told`. */
  readonly own: OwnNumbers
  /** What was cleared lately, and until when that is lately. */
  #released: readonly { readonly numbers: Bitmap; readonly untilMs: number }[] = []

  constructor(options: RangeMemoryOptions) {
    this.#options = options
    this.#adopt = options.adopt
    this.own = new OwnNumbers(options.range.size)
  }

  /** What was cleared a moment ago: its server may be about to store why. Undefined for none. */
  released(): Bitmap | undefined {
    const nowMs = this.#options.clock.monotonicMs()
    this.#released = this.#released.filter(({ untilMs }) => untilMs > nowMs)
    return this.#released.reduce<Bitmap | undefined>((all, { numbers }) => all?.or(numbers) ?? numbers, undefined)
  }

  /** In how many milliseconds {@link released} will have ended; undefined when it has. */
  get releasedMs(): number | undefined {
    const last = this.#released.at(-1)
    const leftMs = (last?.untilMs ?? Number.NEGATIVE_INFINITY) - this.#options.clock.monotonicMs()
    return leftMs > 0 ? leftMs : undefined
  }

  /** What was heard last. */
  get reading(): RangeReading | undefined {
    return this.#reading
  }

  /** Whether what was heard last may be out of date for longer than the watch takes. */
  get doubtful(): boolean {
    return this.#doubtful
  }

  /** Changes whenever the watch tells something. */
  get news(): number {
    return this.#news
  }

  /** Why the range is left alone. */
  get withheld(): Finding | undefined {
    return this.#reading?.type === 'withheld' ? this.#reading.finding : this.#fixed
  }

  /**
   * What a stored range means. One of another range is adopted only until the range has once been right: who changes it afterwards wants another
   * range than this program, and is not fought.
   */
  read(stored: StoredRange): RangeReading {
    const { range, claims, where } = this.#options
    return readRange(range, stored, { claims, where, adopt: this.#adopt })
  }

  /** Whether the watch has told of every state up to this one. */
  upToDate(stored: StoredRange): boolean {
    return this.#told === revisionOf(stored)
  }

  /** What a read or an own write says is stored. */
  hear(stored: StoredRange): void {
    this.#told ??= revisionOf(stored)
    this.#take(stored)
  }

  /** What the watch says is stored now; it must say so of every state, in order. */
  hearTold(stored: StoredRange): void {
    this.#news++
    this.#told = revisionOf(stored)
    this.#take(stored)
  }

  /** The watch may have missed states. */
  interrupted(): void {
    this.#news++
    this.#told = undefined
    this.ledger = noLeaks
    this.own.forget()
    this.#doubtful = true
  }

  doubt(): void {
    this.#doubtful = true
  }

  /** Something must be written, but the registry says that this state must not be. Returns what to tell. */
  cannotWrite(reason: string): Finding {
    const { range, where, metrics } = this.#options
    const { finding } = unreadableRange(range, where, reason)
    this.#fixed = finding
    metrics.withheld(range.name, 'unreadable')
    return finding
  }

  #take(stored: StoredRange): void {
    const { range, metrics } = this.#options
    const reading = this.read(stored)
    this.#release(reading)
    this.#reading = reading
    this.#doubtful = false
    this.#fixed = undefined
    metrics.withheld(range.name, reading.type === 'withheld' ? reading.reason : undefined)
    const kept = reading.type === 'taken' && reading.origin === 'kept'
    if (kept) {
      this.#adopt = false
      metrics.usage(range.text, { allocated: reading.set.count, size: range.size })
    }
    this.ledger = kept ? stillTaken(this.ledger, reading.set) : noLeaks
    if (kept) this.own.still(reading.set)
    else this.own.forget()
  }

  /** Notes what is set no more. */
  #release(next: RangeReading): void {
    const before = this.#reading
    if (before?.type !== 'taken' || next.type !== 'taken' || next.origin !== 'kept') return
    const numbers = before.set.minus(next.set)
    const nowMs = this.#options.clock.monotonicMs()
    this.#released = this.#released.filter(({ untilMs }) => untilMs > nowMs)
    if (numbers.count > 0) this.#released = [...this.#released, { numbers, untilMs: nowMs + releaseMs }]
  }
}

function revisionOf(stored: StoredRange): string {
  return stored.type === 'range' ? `revision ${stored.revision}` : stored.type
}

/** Whether two states are one: not two that happen to be equal. */
export function isSameWrite(a: StoredRange, b: StoredRange): boolean {
  return revisionOf(a) === revisionOf(b)
}
