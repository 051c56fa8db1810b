import type { Random } from './random.ts'

export interface BackoffOptions {
  readonly firstMs: number
  /** No delay exceeds this before jitter, in milliseconds. */
  readonly maxMs: number
  /**
   * `full`: a random delay between zero and the computed one, which spreads many clients best. A number f: the computed
   * delay plus a random part of up to f times that delay (client-go's wait.Jitter). @default 0
   */
  readonly jitter?: 'full' | number | undefined
}

export interface Backoff {
  /** The next delay in milliseconds; each call counts as one more failure. */
  next(): number
  /** Starts again with the first delay: call it after a success. */
  reset(): void
}

/** The first delay is `firstMs`. Each further delay is twice the one before, up to `maxMs`. Jitter applies last. */
export function exponentialBackoff(options: BackoffOptions, random: Random): Backoff {
  const { firstMs, maxMs, jitter = 0 } = options
  let delayMs = Math.min(firstMs, maxMs)
  return {
    next() {
      const currentMs = delayMs
      delayMs = Math.min(delayMs * 2, maxMs)
      if (jitter === 'full') return random.next() * currentMs
      return jitter === 0 ? currentMs : currentMs * (1 + random.next() * jitter)
    },
    reset() {
      delayMs = Math.min(firstMs, maxMs)
    },
  }
}

/**
 * A loss that begins within this time after a recovery, and lasts less than this time, belongs to the same disturbance.
 */
export const FLAP_MS = 5_000

/**
 * Decides which changes between up and down get a log line. Normally a loss and its recovery are logged at once. But a
 * loss within five seconds of a recovery is logged only after it has lasted for five seconds, so that the log shows one
 * outage of a server that answers every other request. If {@link observe} is called often enough, the last logged state
 * is wrong for at most five seconds.
 */
export class FlapDamping {
  #isUp: boolean
  #loggedUp: boolean
  #recoveredAtMs = Number.NEGATIVE_INFINITY
  #lostAtMs = Number.NEGATIVE_INFINITY

  /** `up`: the initial state, which is not logged. */
  constructor(up: boolean) {
    this.#isUp = up
    this.#loggedUp = up
  }

  /** Records the state at `nowMs`, on the monotonic clock. Returns the state to log now, if any. */
  observe(up: boolean, nowMs: number): 'up' | 'down' | undefined {
    if (up !== this.#isUp) {
      this.#isUp = up
      if (!up) this.#lostAtMs = nowMs
      // A server that was down from the start has not recovered.
      else if (this.#lostAtMs !== Number.NEGATIVE_INFINITY) this.#recoveredAtMs = nowMs
    }
    if (up === this.#loggedUp) return undefined
    if (!up && this.#lostAtMs - this.#recoveredAtMs < FLAP_MS && nowMs - this.#lostAtMs < FLAP_MS) return undefined
    this.#loggedUp = up
    return up ? 'up' : 'down'
  }
}
