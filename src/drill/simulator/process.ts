import type { Holder, MasterLease, MasterLeases } from '../../kubernetes-service/leases/master-leases.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { ClockView, VirtualClock } from '../../runtime/virtual-clock.ts'

/** How a process' time differs from true time. */
interface ClockFaults {
  /** How far its wall clock is ahead, in milliseconds. */
  readonly skewMs?: number | undefined
  /** How much faster its monotonic clock and its timers run, in parts per million. */
  readonly driftPpm?: number | undefined
}

/** One process' clock. */
export interface ProcessClock extends ClockView {
  /** Ends the process as SIGKILL does: none of its callbacks runs again. */
  kill(): void
  readonly killed: boolean
}

/** How late a timer of a drifting clock fires, in milliseconds: without this, rounding could make it fire early. */
const ROUNDING_MS = 1e-6

/** Creates the clock of a process of the simulation. */
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

/** The clock of a store. While the store is stopped, its monotonic time stands still. */
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
 * Leases in shared memory, as one process uses them. Every request and notification waits for a timer of that process,
 * so a frozen or dead process neither reads nor writes nor is notified.
 */
export class ProcessLeases implements MasterLeases {
  readonly #inner: MasterLeases
  readonly #clock: Clock

  constructor(inner: MasterLeases, clock: Clock) {
    this.#inner = inner
    this.#clock = clock
  }

  async list(signal: AbortSignal): Promise<readonly MasterLease[]> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.list(signal)
  }

  async update(holder: Holder, signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.update(holder, signal)
  }

  async mark(holder: Holder, signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.mark(holder, signal)
  }

  async remove(holder: Holder, signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.remove(holder, signal)
  }

  watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    return this.#inner.watch(() => void this.#clock.schedule(0, onChange), signal)
  }
}
