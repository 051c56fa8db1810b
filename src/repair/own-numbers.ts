import { Bitmap } from '../net/bitmap.ts'

/** A server may clear a number after it stores the Service that gives it up: so long that may take. */
const releaseMs = 2_000
/** And so long it may take to store the Service after it has cleared the number. Who holds one for longer gives it up in another request. */
const storeMs = 10_000

/** Numbers that came in at one time, on the monotonic clock. */
interface Cohort {
  readonly numbers: Bitmap
  readonly sinceMs: number
}

/**
 * The numbers of one range that this master has set lately, as long as nobody has cleared them since.
 *
 * A server clears the numbers of a Service that becomes one without ports or addresses before it stores the Service. Who sets them in between sets them
 * for nobody, and they would be refused to everybody until they count as leaked. But as long as a number has been set without a break since it was set
 * here, no server can have given it to a Service in the making: so it can be given back as soon as no Service holds it.
 */
export class OwnNumbers {
  readonly #size: number
  /** About to be set, but for what has been cleared since; and which of them were seen set. */
  #coming: { numbers: Bitmap; seen: Bitmap } | undefined
  /** Held by a Service, as far as is known. */
  #held: readonly Cohort[] = []
  /** Held by none. */
  #strays: readonly Cohort[] = []

  constructor(size: number) {
    this.#size = size
  }

  /**
   * They are about to be set by a write, the only one under way; {@link wereSet} if it is made. To be told before: the watch may tell of later
   * states sooner than the write is answered.
   */
  setting(numbers: Bitmap): void {
    this.#coming = { numbers, seen: new Bitmap(this.#size) }
  }

  /** The write was made. Does nothing when states may have been missed since it was begun. */
  wereSet(nowMs: number): void {
    if (this.#coming !== undefined) this.#held = [...this.#held, { numbers: this.#coming.numbers, sinceMs: nowMs }]
    this.#coming = undefined
  }

  /** Hears of each state of the range in turn: what is not set in it has been cleared. */
  still(set: Bitmap): void {
    this.#held = narrowed(this.#held, (numbers) => numbers.and(set))
    this.#strays = narrowed(this.#strays, (numbers) => numbers.and(set))
    const coming = this.#coming
    if (coming === undefined) return
    const cleared = coming.seen.minus(set)
    coming.numbers = coming.numbers.minus(cleared)
    coming.seen = coming.seen.or(coming.numbers.and(set))
  }

  /** States may have been missed: nothing is known any more. */
  forget(): void {
    this.#coming = undefined
    this.#held = []
    this.#strays = []
  }

  /** Those that nobody holds, and in how many milliseconds the first of the others may be given back, if there are any. */
  strays(held: Bitmap, nowMs: number): { readonly ripe: Bitmap; readonly inMs: number | undefined } {
    this.#strays = [
      ...narrowed(this.#strays, (numbers) => numbers.minus(held)),
      ...narrowed(this.#held, (numbers) => numbers.minus(held)).map(({ numbers }) => ({ numbers, sinceMs: nowMs })),
    ]
    this.#held = narrowed(this.#held, (numbers) => numbers.and(held)).filter(
      ({ sinceMs }) => nowMs - sinceMs <= storeMs,
    )
    let ripe = new Bitmap(this.#size)
    let inMs: number | undefined
    for (const { numbers, sinceMs } of this.#strays) {
      const leftMs = sinceMs + releaseMs - nowMs
      if (leftMs <= 0) ripe = ripe.or(numbers)
      else inMs = Math.min(inMs ?? leftMs, leftMs)
    }
    return { ripe, inMs }
  }
}

function narrowed(cohorts: readonly Cohort[], change: (numbers: Bitmap) => Bitmap): readonly Cohort[] {
  return cohorts.length === 0
    ? cohorts
    : cohorts
        .map(({ numbers, sinceMs }) => ({ numbers: change(numbers), sinceMs }))
        .filter(({ numbers }) => numbers.count > 0)
}
