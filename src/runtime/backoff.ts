import type { Random } from './random.ts'

/** Delays that grow with every failure. */
export interface BackoffOptions {
  /** The first delay, in milliseconds. */
  readonly firstMs: number
  /** By how much each delay exceeds the one before. @default 2 */
  readonly factor?: number | undefined
  /** No delay exceeds this before jitter, in milliseconds. */
  readonly maxMs: number
  /**
   * `full`: anything between nothing and the delay, which spreads a crowd best. A number f: the delay and up to f
   * times as much on top (client-go's wait.Jitter). @default 0
   */
  readonly jitter?: 'full' | number | undefined
}

/** Tells how long to wait before the next try. */
export interface Backoff {
  /** The next delay in milliseconds; each call counts as one more failure. */
  next(): number
  /** Begins again with the first delay: call it after a success. */
  reset(): void
}

/** An exponential back-off: `firstMs`, then `factor` times more each time, at most `maxMs`, then jitter. */
export function exponentialBackoff(options: BackoffOptions, random: Random): Backoff {
  const { firstMs, factor = 2, maxMs, jitter = 0 } = options
  let delayMs = Math.min(firstMs, maxMs)
  return {
    next() {
      const currentMs = delayMs
      delayMs = Math.min(delayMs * factor, maxMs)
      if (jitter === 'full') return random.next() * currentMs
      return jitter === 0 ? currentMs : currentMs * (1 + random.next() * jitter)
    },
    reset() {
      delayMs = Math.min(firstMs, maxMs)
    },
  }
}
