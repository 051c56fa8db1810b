import type { Clock } from './clock.ts'

interface TokenBucketOptions {
  readonly clock: Clock
  /** Tokens added per second: more than 0. */
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

  constructor(options: TokenBucketOptions) {
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

  #refill(): void {
    const { clock, qps, burst } = this.#options
    const nowMs = clock.monotonicMs()
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#countedAtMs) / 1000) * qps)
    this.#countedAtMs = nowMs
  }
}
