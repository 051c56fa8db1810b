import type { Clock } from '../../src/runtime/clock.ts'
import type { VirtualClock } from '../../src/runtime/virtual-clock.ts'

/** A clock on which work takes time, although no time passes for timers. `worked` adds such time, in milliseconds. */
export function workingClock(time: VirtualClock): { readonly clock: Clock; readonly worked: (ms: number) => void } {
  const view = time.view()
  let workedMs = 0
  const clock: Clock = {
    wallMs: () => view.wallMs(),
    monotonicMs: () => view.monotonicMs() + workedMs,
    schedule: (delayMs, callback) => view.schedule(delayMs, callback),
  }
  return {
    clock,
    worked: (ms) => {
      workedMs += ms
    },
  }
}

/** The most progress without a pause. It reads `progress` whenever another timer of the same time runs. */
export function longestWithoutPause(time: VirtualClock, progress: () => number): () => number {
  let before = 0
  let longest = 0
  let left = 100
  const other = (): void => {
    longest = Math.max(longest, progress() - before)
    before = progress()
    if (--left > 0) time.view().schedule(0, other)
  }
  time.view().schedule(0, other)
  return () => Math.max(longest, progress() - before)
}

/** `timed` wraps a clock: 2 ms pass between two readings. `pauses` counts the pauses so far in long computations. */
export function busyClock(): { readonly timed: (clock: Clock) => Clock; readonly pauses: () => number } {
  let workedMs = 0
  let count = 0
  const timed = (clock: Clock): Clock => ({
    wallMs: () => clock.wallMs(),
    monotonicMs: () => {
      workedMs += 2
      return clock.monotonicMs() + workedMs
    },
    schedule(delayMs, callback) {
      if (delayMs === 0) count++
      return clock.schedule(delayMs, callback)
    },
  })
  return { timed, pauses: () => count }
}
