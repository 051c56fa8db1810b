import { randomBytes } from 'node:crypto'
import type { Cancel, Clock } from './clock.ts'
import type { Random } from './random.ts'

/** The longest delay that setTimeout supports. If a delay is longer, setTimeout fires at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1

/** How long the work of one turn of the event loop may last, in milliseconds. */
const TURN_MS = 10
/** When the first call of `turn` in this turn of the event loop was; undefined before it. */
let turnBeganMs: number | undefined

/**
 * The clock of this machine. No callback runs early: Node's timers may fire up to a millisecond before the monotonic
 * clock reaches the due time, and are then armed again for the rest, as they are for delays of more than 24 days.
 */
export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  schedule(delayMs: number, callback: () => void): Cancel {
    if (Number.isNaN(delayMs)) throw new RangeError('a delay must be a number of milliseconds, not NaN')
    const dueMs = performance.now() + delayMs
    const arm = (): NodeJS.Timeout =>
      setTimeout(fire, Math.min(Math.max(Math.ceil(dueMs - performance.now()), 0), MAX_TIMEOUT_MS))
    const fire = (): void => {
      if (performance.now() >= dueMs) callback()
      else timer = arm()
    }
    let timer = arm()
    return () => clearTimeout(timer)
  },
  turn(): Promise<void> | undefined {
    if (turnBeganMs === undefined) {
      turnBeganMs = performance.now()
      setImmediate(() => {
        turnBeganMs = undefined
      })
      return undefined
    }
    return performance.now() - turnBeganMs < TURN_MS ? undefined : new Promise((resolve) => setImmediate(resolve))
  },
}

/** Unpredictable randomness from the operating system: 53 bits a number. */
export function systemRandom(): Random {
  return {
    next() {
      const bytes = randomBytes(7)
      // 48 bits, then five more: the 53 that a double holds.
      return (bytes.readUIntBE(0, 6) * 32 + (bytes.readUInt8(6) & 31)) / 2 ** 53
    },
  }
}
