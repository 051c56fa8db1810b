import type { MasterLeases } from '../../kubernetes-service/leases/master-leases.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { ClockView, VirtualClock } from '../../runtime/virtual-clock.ts'

interface ClockFaults {
  /** How far the wall clock of the process is ahead, in milliseconds. */
  readonly skewMs?: number | undefined
  /** How much faster the monotonic clock and the timers of the process run, in parts per million. */
  readonly driftPpm?: number | undefined
}

export interface ProcessClock extends ClockView {
  /** Ends the process as SIGKILL does: none of its callbacks runs again. */
  kill(): void
  readonly killed: boolean
}

/**
 * Added to the delay of each timer of a drifting clock, in milliseconds. Without it, a rounding error could make a
 * timer fire early.
 */
const ROUNDING_MS = 1e-6

export function processClock(time: VirtualClock, { skewMs = 0, driftPpm = 0 }: ClockFaults = {}): ProcessClock {
  const view = time.view({ skewMs })
  const rate = 1 + driftPpm / 1_000_000
  const late = driftPpm === 0 ? 0 : ROUNDING_MS
  let killed = false
  return {
    wallMs: () => view.wallMs(),
    monotonicMs: () => view.monotonicMs() * rate,
    freeze: () => view.freeze(),
    thaw: () => {
      if (!killed) view.thaw()
    },
    kill: () => {
      killed = true
      view.freeze()
    },
    get killed() {
      return killed
    },
    setSkew: (ms) => view.setSkew(ms),
    get frozen() {
      return view.frozen
    },
    get timers() {
      return view.timers
    },
    schedule: (delayMs, callback) => view.schedule(delayMs > 0 ? delayMs / rate + late : delayMs, callback),
  }
}

/**
 * The clock of a store. While the store is stopped, the monotonic time of this clock stands still, but timers fire as
 * usual.
 */
export class StoreClock {
  readonly #view: ClockView
  #stoppedAtMs: number | undefined
  #missedMs = 0

  constructor(time: VirtualClock) {
    this.#view = time.view()
  }

  stop(): void {
    this.#stoppedAtMs ??= this.#view.monotonicMs()
  }

  start(): void {
    if (this.#stoppedAtMs !== undefined) this.#missedMs += this.#view.monotonicMs() - this.#stoppedAtMs
    this.#stoppedAtMs = undefined
  }

  wallMs(): number {
    return this.#view.wallMs()
  }

  monotonicMs(): number {
    return (this.#stoppedAtMs ?? this.#view.monotonicMs()) - this.#missedMs
  }

  schedule(delayMs: number, callback: () => void): () => void {
    return this.#view.schedule(delayMs, callback)
  }
}

/**
 * The leases in shared memory, for one process. Every request and notification waits for a timer of that process, so a
 * frozen or dead process does not read, does not write and is not notified.
 */
export function processLeases(inner: MasterLeases, clock: Clock): MasterLeases {
  const afterTimer = async <T>(signal: AbortSignal, request: () => Promise<T>): Promise<T> => {
    await sleep(clock, 0, signal)
    return request()
  }
  return {
    list: (signal) => afterTimer(signal, () => inner.list(signal)),
    update: (holder, signal) => afterTimer(signal, () => inner.update(holder, signal)),
    mark: (holder, signal) => afterTimer(signal, () => inner.mark(holder, signal)),
    remove: (holder, signal) => afterTimer(signal, () => inner.remove(holder, signal)),
    watch: (onChange, signal) => inner.watch(() => void clock.schedule(0, onChange), signal),
  }
}
