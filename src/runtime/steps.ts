import { type Clock, sleep } from './clock.ts'

/** A long computation that yields wherever it may pause. The data that it reads may change during a pause. */
export type Steps<T> = Generator<void, T, void>

/** A slice takes about this long, in milliseconds: much less than the interval of lease renewals. */
const SLICE_MS = 10
/** The clock is read once after this many steps, because a reading costs more than most steps. */
const STEPS_PER_READING = 32
/**
 * If the steps since the last reading took longer than this, in milliseconds, the clock is read again after the next
 * step: some objects cost far more than others.
 */
const SLOW_STEPS_MS = 1

/** Carries out all steps now. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/**
 * Carries out the steps in slices. Timers and I/O run between two slices; otherwise a pass over a million objects would
 * delay the renewal of this process' lease by seconds. A computation that fits in one slice ends before this returns.
 * On a virtual clock every computation fits, because the clock stands still meanwhile. If `signal` is aborted between
 * two slices, the promise rejects with its reason.
 */
export function inSlices<T>(clock: Clock, steps: Steps<T>, signal?: AbortSignal): T | Promise<T> {
  const work = new SlicedWork(clock)
  const ended = slice(work, steps, signal)
  return 'pause' in ended ? rest(work, steps, signal, ended.pause) : ended.value
}

async function rest<T>(
  work: SlicedWork,
  steps: Steps<T>,
  signal: AbortSignal | undefined,
  first: Promise<void>,
): Promise<T> {
  for (let pause = first; ; ) {
    await pause
    const ended = slice(work, steps, signal)
    if (!('pause' in ended)) return ended.value
    pause = ended.pause
  }
}

/** Carries out one slice. If steps are left, the next slice begins after `pause`. */
function slice<T>(
  work: SlicedWork,
  steps: Steps<T>,
  signal: AbortSignal | undefined,
): { readonly value: T } | { readonly pause: Promise<void> } {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return { value }
    const pause = work.pause(signal)
    if (pause !== undefined) return { pause }
  }
}

/** Divides work that arrives step by step, such as the events of a stream, into slices. See {@link inSlices}. */
export class SlicedWork {
  readonly #clock: Clock
  #endMs: number
  #readMs: number
  #stepsToReading = 1

  constructor(clock: Clock) {
    this.#clock = clock
    this.#readMs = clock.monotonicMs()
    this.#endMs = this.#readMs + SLICE_MS
  }

  /**
   * Call it after each step. If it returns a promise, await that before the next step: timers and I/O run meanwhile.
   * The promise rejects with the reason of `signal`.
   */
  pause(signal?: AbortSignal): Promise<void> | undefined {
    if (--this.#stepsToReading > 0) return undefined
    const nowMs = this.#clock.monotonicMs()
    this.#stepsToReading = nowMs - this.#readMs > SLOW_STEPS_MS ? 1 : STEPS_PER_READING
    this.#readMs = nowMs
    if (nowMs < this.#endMs) return undefined
    return sleep(this.#clock, 0, signal).then(() => {
      this.#readMs = this.#clock.monotonicMs()
      this.#endMs = this.#readMs + SLICE_MS
    })
  }
}
