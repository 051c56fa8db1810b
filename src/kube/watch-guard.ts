import type { Cancel, Clock } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'

/** A watch that stood this long without an event has proven that the server serves it. */
export const provenAfterMs = 1_000

/** How long a watch may say nothing, and how long it may last in all, in milliseconds. */
export interface Patience {
  readonly quietMs: number
  readonly totalMs?: number | undefined
}

/**
 * Looks after one watch request: ends it when it is quiet for longer than its patience, and notes when it has proven itself.
 * Holds at most two timers and one listener, none after {@link end}.
 */
export class WatchGuard {
  readonly #clock: Clock
  readonly #link: ReturnType<typeof linkedController>
  readonly #onProven: () => void
  readonly #startedMs: number
  #patience: Patience
  #patienceMs: number
  #heardMs: number
  #cancelQuiet: Cancel
  #cancelProof: Cancel = () => {}
  #opened = false
  #proven = false
  #ranOut = false

  constructor(options: {
    readonly clock: Clock
    readonly signal: AbortSignal
    readonly patience: Patience
    readonly onProven: () => void
  }) {
    this.#clock = options.clock
    this.#link = linkedController(options.signal)
    this.#onProven = options.onProven
    this.#patience = options.patience
    this.#startedMs = options.clock.monotonicMs()
    this.#heardMs = this.#startedMs
    this.#patienceMs = this.#startedMs
    this.#cancelQuiet = this.#arm(options.patience.quietMs)
  }

  /** Ends the request: aborted by whoever runs the watch, or because patience ran out. */
  get signal(): AbortSignal {
    return this.#link.controller.signal
  }

  get opened(): boolean {
    return this.#opened
  }

  get proven(): boolean {
    return this.#proven
  }

  /** Whether it was this guard that ended the request. */
  get ranOut(): boolean {
    return this.#ranOut
  }

  get ageMs(): number {
    return this.#clock.monotonicMs() - this.#startedMs
  }

  /** The server has accepted the watch. */
  open(): void {
    if (this.#opened) return
    this.#opened = true
    this.heard()
    this.#cancelProof = this.#clock.schedule(provenAfterMs, () => this.prove())
  }

  /** Something came. */
  heard(): void {
    this.#heardMs = this.#clock.monotonicMs()
  }

  /** What came is what a working server sends. */
  prove(): void {
    this.#cancelProof()
    if (this.#proven) return
    this.#proven = true
    this.#onProven()
  }

  /** From now on, `patience` counts. */
  allow(patience: Patience): void {
    this.heard()
    this.#patience = patience
    this.#patienceMs = this.#heardMs
    this.#cancelQuiet()
    this.#cancelQuiet = this.#arm(patience.quietMs)
  }

  end(): void {
    this.#cancelQuiet()
    this.#cancelProof()
    this.#link.unlink()
  }

  /** One timer that looks at the last sign of life when it fires: cheaper than a timer for every event. */
  #arm(delayMs: number): Cancel {
    return this.#clock.schedule(delayMs, () => {
      const { quietMs, totalMs = Number.POSITIVE_INFINITY } = this.#patience
      const endMs = Math.min(this.#heardMs + quietMs, this.#patienceMs + totalMs)
      const leftMs = endMs - this.#clock.monotonicMs()
      if (leftMs > 0) {
        this.#cancelQuiet = this.#arm(leftMs)
      } else {
        this.#ranOut = true
        this.#link.controller.abort()
      }
    })
  }
}
