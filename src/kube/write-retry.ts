import { type Backoff, exponentialBackoff } from '../runtime/backoff.ts'
import type { Random } from '../runtime/random.ts'
import { RemoteError } from '../runtime/remote-error.ts'

/**
 * A refusal for what the object or its surroundings are is often right a moment later (the address of a deleted Service is free
 * after 2 ms), and after an outage all must be right within 2 s of the server's own first write: short first waits, at most 1 s.
 */
const passing = { firstMs: 2, maxMs: 1_000 }
/** Rights and misunderstandings change when somebody changes them. */
const lasting = { firstMs: 10, maxMs: 10_000 }
/** This many conflicts in a row are somebody else's busy moment; more are a fight, which haste makes worse. */
const conflictsAtOnce = 3

/** How long to wait before what a failed write was for is looked at again. One for each loop that writes. */
export class WriteRetry {
  readonly #passing: Backoff
  readonly #lasting: Backoff
  #conflicts = 0

  constructor(random: Random) {
    this.#passing = exponentialBackoff(passing, random)
    this.#lasting = exponentialBackoff(lasting, random)
  }

  /** Milliseconds to wait after `error`; each call counts as one more failure. */
  next(error: unknown): number {
    const nature = error instanceof RemoteError ? error.nature : undefined
    if (nature === 'conflict' && ++this.#conflicts <= conflictsAtOnce) return 0
    return nature === 'lasting' ? this.#lasting.next() : this.#passing.next()
  }

  /** After a success the waits are short again. */
  reset(): void {
    this.#passing.reset()
    this.#lasting.reset()
    this.#conflicts = 0
  }
}
