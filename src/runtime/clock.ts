/** Cancels a scheduled callback. Calling it twice, or after the callback ran, does nothing. */
export type Cancel = () => void

/**
 * Time as one master sees it. Wall time may be skewed or jump; monotonic time never goes back. All code that waits,
 * measures or sets timestamps takes a Clock, so that the simulator can control time.
 */
export interface Clock {
  /** Wall time in milliseconds since the Unix epoch: for timestamps in objects and logs, never for measuring. */
  wallMs(): number
  /** Milliseconds on a clock that never goes back, from an arbitrary origin: for every duration and deadline. */
  monotonicMs(): number
  /** Calls `callback` once, after `delayMs` (negative: 0), never synchronously. Throws a RangeError for NaN. */
  schedule(delayMs: number, callback: () => void): Cancel
  /**
   * Call it between two pieces of work that may each compute for long. If it returns a promise, the process has
   * computed for 10 ms: await the promise before the next piece, so that timers and I/O run. Left out if time stands
   * still during a computation, as in a simulation.
   */
  turn?(): Promise<void> | undefined
}

/**
 * Resolves after `delayMs`. Rejects with the signal's reason as soon as the signal is aborted. Leaves no timer behind.
 */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const onAbort = (): void => {
      cancel()
      reject(signal?.reason)
    }
    const cancel = clock.schedule(delayMs, () => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    })
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/**
 * Calls `onTick` again and again, each time `periodMs` after the previous tick, with the timer's lateness in
 * milliseconds. Returns a function that stops this.
 */
export function every(clock: Clock, periodMs: number, onTick: (lateMs: number) => void): Cancel {
  const next = (dueMs: number): Cancel =>
    clock.schedule(dueMs - clock.monotonicMs(), () => {
      const nowMs = clock.monotonicMs()
      // Scheduled before the call, because the call may stop the ticks.
      cancel = next(nowMs + periodMs)
      onTick(nowMs - dueMs)
    })
  let cancel = next(clock.monotonicMs() + periodMs)
  return () => cancel()
}
