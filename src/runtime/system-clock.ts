import type { Cancel, Clock } from './clock.ts'

/** The longest delay that setTimeout honours; a longer one it would run at once. */
const maxTimeoutMs = 2 ** 31 - 1

/**
 * This machine's time. A callback is never early: the timers of Node may fire up to a millisecond before the monotonic
 * clock says so, and are then armed again for the rest, as they are for delays of more than 24 days.
 */
export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  schedule(delayMs: number, callback: () => void): Cancel {
    if (Number.isNaN(delayMs)) throw new RangeError('a delay must be a number of milliseconds, not NaN')
    const dueMs = performance.now() + delayMs
    const arm = (): NodeJS.Timeout =>
      setTimeout(fire, Math.min(Math.max(Math.ceil(dueMs - performance.now()), 0), maxTimeoutMs))
    const fire = (): void => {
      if (performance.now() >= dueMs) callback()
      else timer = arm()
    }
    let timer = arm()
    return () => clearTimeout(timer)
  },
}
