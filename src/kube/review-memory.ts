import { createHash } from 'node:crypto'
import type { Clock } from '../runtime/clock.ts'
import type { TokenBucket } from '../runtime/token-bucket.ts'

/** There are more unknown questions than the API server is asked at a time. */
export class TooManyReviews extends Error {
  override readonly name = 'TooManyReviews'
}

export interface ReviewMemoryOptions<Answer> {
  readonly clock: Clock
  /** For questions that had no good answer before: who asks anything that comes to mind is held to it, and those who are known are not. */
  readonly limit: TokenBucket
  /** How long an answer counts, in milliseconds. */
  readonly lifeMs: (answer: Answer) => number
  readonly isGood: (answer: Answer) => boolean
}

/** Answers at most, good and bad; what was answered longest ago goes first. */
const mostAnswers = 1000

/** Remembers the answers to reviews, and asks once for all who want the same at the same time. Failures are not remembered; nor are questions, which may be secrets: only their hashes. */
export class ReviewMemory<Answer> {
  readonly #options: ReviewMemoryOptions<Answer>
  readonly #known = new Map<string, { readonly answer: Answer; readonly untilMs: number }>()
  readonly #asked = new Map<string, Promise<Answer>>()

  constructor(options: ReviewMemoryOptions<Answer>) {
    this.#options = options
  }

  /** Rejects with TooManyReviews, or with what `ask` rejects with. */
  async of(question: string, ask: () => Promise<Answer>): Promise<Answer> {
    const { clock, limit, isGood } = this.#options
    const key = createHash('sha256').update(question).digest('base64')
    const known = this.#known.get(key)
    if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.answer
    const asked = this.#asked.get(key)
    if (asked !== undefined) return asked
    const wasGood = known !== undefined && isGood(known.answer)
    if (!wasGood && !limit.tryTake()) throw new TooManyReviews('too many reviews')
    const answer = ask()
    this.#asked.set(key, answer)
    try {
      return this.#remember(key, await answer)
    } finally {
      this.#asked.delete(key)
    }
  }

  #remember(key: string, answer: Answer): Answer {
    const { clock, lifeMs } = this.#options
    this.#known.delete(key)
    this.#known.set(key, { answer, untilMs: clock.monotonicMs() + lifeMs(answer) })
    if (this.#known.size > mostAnswers) this.#known.delete(this.#known.keys().next().value as string)
    return answer
  }
}
