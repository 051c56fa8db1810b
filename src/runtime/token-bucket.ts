import type { Clock } from './clock.ts'

export interface TokenBucketOptions {
  readonly clock: Clock
  /** Tokens added per second; Infinity: no limit. */
  readonly qps: number
  /** The size of the bucket, which is full at the start: a whole number, at least 1. */
  readonly burst: number
}

/** Limits a rate: `burst` at once, `qps` a second in the long run. */
export class TokenBucket {
  readonly #options: TokenBucketOptions
  /** Negative while future tokens are reserved. */
  #tokens: number
  #countedAtMs: number

  /** @throws RangeError for a rate or size that is not positive. */
  constructor(options: TokenBucketOptions) {
    if (!(options.qps > 0)) throw new RangeError(`qps must be positive, not ${options.qps}`)
    if (!Number.isInteger(options.burst) || options.burst < 1) {
      throw new RangeError(`burst must be a whole number of at least 1, not ${options.burst}`)
    }
    this.#options = options
    this.#tokens = options.burst
    this.#countedAtMs = options.clock.monotonicMs()
  }

  /** Takes a token if one is available now. Returns whether it did. */
  tryTake(): boolean {
    this.#refill()
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }

  /** Takes a token, a future one if needed, and returns how many milliseconds remain until it is available. */
  reserve(): number {
    this.#refill()
    this.#tokens -= 1
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#options.qps) * 1000
  }

  /** Gives back one token that was reserved and is not needed. */
  giveBack(): void {
    this.#tokens += 1
    this.#refill()
  }

  /** Gives back the future tokens that are reserved, because nobody waits for them any more. */
  cancelReservations(): void {
    this.#refill()
    this.#tokens = Math.max(this.#tokens, 0)
  }

  #refill(): void {
    const { clock, qps, burst } = this.#options
    const nowMs = clock.monotonicMs()
    this.#tokens = qps === Infinity ? burst : Math.min(burst, this.#tokens + ((nowMs - this.#countedAtMs) / 1000) * qps)
    this.#countedAtMs = nowMs
  }
}
