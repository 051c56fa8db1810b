import type { Cancel, Clock } from './clock.ts'

/** Looks each `periodMs` how late this process comes to its timers, and tells it in milliseconds. Returns what ends it. */
export function watchLateness(clock: Clock, periodMs: number, onLook: (lateMs: number) => void): Cancel {
  const next = (dueMs: number): Cancel =>
    clock.schedule(dueMs - clock.monotonicMs(), () => {
      const nowMs = clock.monotonicMs()
      onLook(nowMs - dueMs)
      cancel = next(nowMs + periodMs)
    })
  let cancel = next(clock.monotonicMs() + periodMs)
  return () => cancel()
}
