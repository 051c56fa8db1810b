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
  /** Ends the process as SIGKILL does: nothing of it ever happens again. */
  kill(): void
  readonly killed: boolean
}

/** What a timer of a drifting clock is late at most, in milliseconds: rounding must not let it ring before its time. */
const ROUNDING_MS = 1e-6

/** The clock of one more process of the simulation. */
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

/** The clock of a store that can be stopped for a while: its time then stands still, as if it had not been. */
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
 * Leases in a shared memory, as one process reaches them: by its own clock, so that one that is frozen or dead neither
 * reads nor writes nor hears anything.
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
