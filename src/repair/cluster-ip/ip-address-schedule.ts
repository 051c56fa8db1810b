import { type Cancel, type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { Trigger } from '../../runtime/trigger.ts'

/**
 * So long, and up to twice as long, is waited after the first sign of something: a server writes the IPAddress before the Service, but the two
 * watches are separate, and what is in the making is right by then. Where several masters look, each waits differently.
 */
const settleMs = 10
/** Full passes that are not due by the interval keep this distance. */
const passDistanceMs = 5_000

/** What to look at. */
export interface Work {
  /** Everything, and what is nobody's may be deleted. */
  readonly full: boolean
  /** The addresses of all Services. */
  readonly all: boolean
  /** These addresses; none where all are looked at in full. */
  readonly names: ReadonlySet<string>
}

/** Collects what should be looked at, and says when. */
export class IpAddressSchedule {
  readonly #clock: Clock
  readonly #random: Random
  readonly #intervalMs: number
  readonly #trigger = new Trigger<'look'>()
  readonly #cancels = new Set<Cancel>()
  #names = new Set<string>()
  #scope: 'names' | 'all' | 'full' = 'names'
  #lastPassMs = Number.NEGATIVE_INFINITY
  #pass: { readonly dueMs: number; readonly cancel: Cancel } | undefined

  constructor(options: { readonly clock: Clock; readonly random: Random; readonly intervalMs: number }) {
    this.#clock = options.clock
    this.#random = options.random
    this.#intervalMs = options.intervalMs
  }

  /** Asks for a look at addresses. */
  mark(names: Iterable<string>): void {
    for (const name of names) this.#names.add(name)
    if (this.#names.size > 0) this.#trigger.fire('look')
  }

  /** Asks for a look at the addresses of all Services. */
  markAll(): void {
    if (this.#scope === 'names') this.#scope = 'all'
    this.#trigger.fire('look')
  }

  /** Asks for a look at addresses after a while. */
  markAfter(names: ReadonlySet<string>, delayMs: number): void {
    const cancel = this.#clock.schedule(delayMs, () => {
      this.#cancels.delete(cancel)
      this.mark(names)
    })
    this.#cancels.add(cancel)
  }

  /** Asks for a full pass in so many milliseconds, or a little later if there has just been one. */
  passWithin(delayMs: number): void {
    const nowMs = this.#clock.monotonicMs()
    const dueMs = Math.max(nowMs + delayMs, this.#lastPassMs + passDistanceMs)
    if (this.#pass !== undefined && this.#pass.dueMs <= dueMs) return
    this.#pass?.cancel()
    const cancel = this.#clock.schedule(dueMs - nowMs, () => {
      this.#pass = undefined
      this.#scope = 'full'
      this.#trigger.fire('look')
    })
    this.#pass = { dueMs, cancel }
  }

  /** Asks for another full pass, since the last has failed: after so many milliseconds, however short the distance. */
  passAgain(delayMs: number): void {
    this.#lastPassMs = Number.NEGATIVE_INFINITY
    this.passWithin(delayMs)
  }

  /** What to look at next, when there is something and it has settled. Rejects with the signal's reason. */
  async next(signal: AbortSignal): Promise<Work> {
    for (;;) {
      await this.#trigger.take(signal)
      await sleep(this.#clock, settleMs * (1 + this.#random.next()), signal)
      // What came while it settled has been taken already when it is the next's turn.
      if (this.#names.size > 0 || this.#scope !== 'names') return this.#take()
    }
  }

  /** Leaves no timer behind. */
  end(): void {
    this.#pass?.cancel()
    for (const cancel of this.#cancels) cancel()
    this.#cancels.clear()
  }

  #take(): Work {
    const full = this.#scope === 'full'
    const work = { full, all: this.#scope !== 'names', names: full ? new Set<string>() : this.#names }
    this.#names = new Set()
    this.#scope = 'names'
    if (full) this.#beginPass()
    return work
  }

  /** The next is due after the interval, give or take a tenth. */
  #beginPass(): void {
    this.#lastPassMs = this.#clock.monotonicMs()
    this.passWithin(this.#intervalMs * (0.9 + 0.2 * this.#random.next()))
  }
}
