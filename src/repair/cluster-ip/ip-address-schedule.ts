import { type Cancel, type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { Trigger } from '../../runtime/trigger.ts'

/**
 * So long, and up to twice as long, is waited after the first sign of something: a server writes the IPAddress before the Service, but the two
 * watches are separate, and what is in the making is right by then. Where several masters look, each waits differently.
 */
const settleMs = 10
/** A mass of damage is told of over some time. To look at it all at once costs two lists of the Services, in parts two for each part. */
const mass = 8
const settlesOfMass = 5
/** Full passes that are not due by the interval keep this distance. */
const passDistanceMs = 5_000

/**
 * An IPAddress that has just been deleted is looked at after so long, and at most twice as long: a server that turns a Service into one without an
 * address deletes the IPAddress before it stores the Service. On a laden server some 100 ms were seen between the two.
 */
const releaseMs = 150

/** What to look at. */
export interface Work {
  /** Everything, and what is nobody's may be deleted. */
  readonly full: boolean
  /** It is the full pass of the interval, not one for a grace that ends. */
  readonly regular: boolean
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
  /** Addresses whose IPAddress was deleted since the last tick of their clock, and before it. */
  #released: { readonly fresh: Set<string>; readonly waiting: Set<string> } | undefined
  #names = new Set<string>()
  #scope: 'names' | 'all' | 'full' = 'names'
  #lastPassMs = Number.NEGATIVE_INFINITY
  #regularDueMs = Number.NEGATIVE_INFINITY
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

  /** Asks for a look at an address whose IPAddress has been deleted, when its server has had time to store why. */
  markReleased(name: string): void {
    if (this.#released === undefined) {
      this.#released = { fresh: new Set(), waiting: new Set() }
      this.#tickReleased()
    }
    this.#released.fresh.add(name)
  }

  /** Whether the look at an address must wait for its server; see {@link markReleased}. */
  isReleased(name: string): boolean {
    return this.#released !== undefined && (this.#released.fresh.has(name) || this.#released.waiting.has(name))
  }

  #tickReleased(): void {
    const cancel = this.#clock.schedule(releaseMs, () => {
      this.#cancels.delete(cancel)
      const { fresh, waiting } = this.#released ?? { fresh: new Set<string>(), waiting: new Set<string>() }
      this.#released = fresh.size === 0 ? undefined : { fresh: new Set(), waiting: fresh }
      this.mark(waiting)
      if (fresh.size > 0) this.#tickReleased()
    })
    this.#cancels.add(cancel)
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
    this.#regularDueMs = Number.NEGATIVE_INFINITY
    this.#lastPassMs = Number.NEGATIVE_INFINITY
    this.passWithin(delayMs)
  }

  /** What to look at next, when there is something and it has settled. Rejects with the signal's reason. */
  async next(signal: AbortSignal): Promise<Work> {
    for (;;) {
      await this.#trigger.take(signal)
      await this.#settle(signal)
      // What came while it settled has been taken already when it is the next's turn.
      if (this.#names.size > 0 || this.#scope !== 'names') return this.#take()
    }
  }

  async #settle(signal: AbortSignal): Promise<void> {
    for (let i = 0; i < settlesOfMass; i++) {
      const before = this.#names.size
      await sleep(this.#clock, settleMs * (1 + this.#random.next()), signal)
      if (this.#names.size <= Math.max(before, mass)) return
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
    const all = this.#scope !== 'names'
    const names = full ? new Set<string>() : this.#names
    this.#names = new Set()
    this.#scope = 'names'
    return { full, regular: full && this.#beginPass(), all, names }
  }

  /** The next that is regular is due an interval after the last, give or take a tenth, whatever comes between. */
  #beginPass(): boolean {
    const nowMs = this.#clock.monotonicMs()
    this.#lastPassMs = nowMs
    const regular = nowMs >= this.#regularDueMs
    if (regular) this.#regularDueMs = nowMs + this.#intervalMs * (0.9 + 0.2 * this.#random.next())
    this.passWithin(this.#regularDueMs - nowMs)
    return regular
  }
}
