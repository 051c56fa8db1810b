import { type Cancel, type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { Trigger } from '../../runtime/trigger.ts'

/**
 * A round waits this long to twice as long after its first request, in milliseconds. By then the events of both watches
 * have normally arrived. The time is random, so that masters do not all repair at once.
 */
const SETTLE_MS = 10
/**
 * If more than this many addresses wait and more arrive, the wait is repeated: their check costs two lists of Services.
 */
const MANY_ADDRESSES = 8
const MAX_SETTLE_WAITS = 5
/** The least time between two full passes, in milliseconds, except after a failure. */
const PASS_DISTANCE_MS = 5_000

/**
 * A deleted IPAddress is checked after this long to twice as long, in milliseconds: a server deletes the IPAddress
 * before it stores the Service without the address. On a loaded server about 100 ms were measured between the two.
 */
const STORE_DELAY_MS = 150

/** What one round checks. */
export interface Work {
  /** Whether this is a full pass: all addresses are checked, and IPAddresses without a Service are deleted. */
  readonly full: boolean
  /** Whether this is the full pass of the interval, not an additional one. */
  readonly regular: boolean
  /** Whether the addresses of all Services are checked, not only `names`. True in a full pass. */
  readonly all: boolean
  /** The addresses that were requested one by one; empty in a full pass. */
  readonly names: ReadonlySet<string>
}

export class IpAddressSchedule {
  readonly #clock: Clock
  readonly #random: Random
  readonly #intervalMs: number
  readonly #trigger = new Trigger<'round'>()
  readonly #cancels = new Set<Cancel>()
  /** Addresses whose IPAddress was deleted: `fresh` since the last tick of the timer, `waiting` before it. */
  #deleted: { readonly fresh: Set<string>; readonly waiting: Set<string> } | undefined
  /** When delayed checks of addresses are due; see {@link markAfter}. */
  readonly #later = new Map<string, number>()
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

  mark(names: Iterable<string>): void {
    for (const name of names) this.#names.add(name)
    if (this.#names.size > 0) this.#trigger.fire('round')
  }

  markAll(): void {
    if (this.#scope === 'names') this.#scope = 'all'
    this.#trigger.fire('round')
  }

  /** Requests a check of an address whose IPAddress was deleted, in {@link STORE_DELAY_MS} to twice that time. */
  markDeleted(name: string): void {
    if (this.#deleted === undefined) {
      this.#deleted = { fresh: new Set(), waiting: new Set() }
      this.#tickDeleted()
    }
    this.#deleted.fresh.add(name)
  }

  /** Whether the check of an address must wait, because its IPAddress was just deleted; see {@link markDeleted}. */
  isJustDeleted(name: string): boolean {
    return this.#deleted !== undefined && (this.#deleted.fresh.has(name) || this.#deleted.waiting.has(name))
  }

  #tickDeleted(): void {
    const cancel = this.#clock.schedule(STORE_DELAY_MS, () => {
      this.#cancels.delete(cancel)
      const { fresh, waiting } = this.#deleted ?? { fresh: new Set<string>(), waiting: new Set<string>() }
      this.#deleted = fresh.size === 0 ? undefined : { fresh: new Set(), waiting: fresh }
      this.mark(waiting)
      if (fresh.size > 0) this.#tickDeleted()
    })
    this.#cancels.add(cancel)
  }

  /**
   * Requests a check of each address in this many milliseconds. Does nothing for an address whose check is due sooner,
   * so that an address that fails repeatedly does not collect timers.
   */
  markAfter(names: Iterable<string>, delayMs: number): void {
    const dueMs = this.#clock.monotonicMs() + delayMs
    const later = [...names].filter((name) => (this.#later.get(name) ?? Number.POSITIVE_INFINITY) > dueMs)
    if (later.length === 0) return
    for (const name of later) this.#later.set(name, dueMs)
    const cancel = this.#clock.schedule(delayMs, () => {
      this.#cancels.delete(cancel)
      const due = later.filter((name) => this.#later.get(name) === dueMs)
      for (const name of due) this.#later.delete(name)
      this.mark(due)
    })
    this.#cancels.add(cancel)
  }

  /** Requests a full pass in this many milliseconds, but not within {@link PASS_DISTANCE_MS} of the last one. */
  passAfter(delayMs: number): void {
    const nowMs = this.#clock.monotonicMs()
    const dueMs = Math.max(nowMs + delayMs, this.#lastPassMs + PASS_DISTANCE_MS)
    if (this.#pass !== undefined && this.#pass.dueMs <= dueMs) return
    this.#pass?.cancel()
    const cancel = this.#clock.schedule(dueMs - nowMs, () => {
      this.#pass = undefined
      this.#scope = 'full'
      this.#trigger.fire('round')
    })
    this.#pass = { dueMs, cancel }
  }

  /** Requests a regular full pass after a failure: in this many milliseconds, even shortly after the last one. */
  passAgain(delayMs: number): void {
    this.#regularDueMs = Number.NEGATIVE_INFINITY
    this.#lastPassMs = Number.NEGATIVE_INFINITY
    this.passAfter(delayMs)
  }

  /**
   * Resolves with the work of the next round, after a request and a wait for more requests. Rejects with the signal's
   * reason.
   */
  async next(signal: AbortSignal): Promise<Work> {
    for (;;) {
      await this.#trigger.take(signal)
      await this.#settle(signal)
      // Requests that arrive during the wait join this round, but also fire the trigger again. That trigger has no work
      // left.
      if (this.#names.size > 0 || this.#scope !== 'names') return this.#take()
    }
  }

  async #settle(signal: AbortSignal): Promise<void> {
    for (let i = 0; i < MAX_SETTLE_WAITS; i++) {
      const before = this.#names.size
      await sleep(this.#clock, SETTLE_MS * (1 + this.#random.next()), signal)
      if (this.#names.size <= Math.max(before, MANY_ADDRESSES)) return
    }
  }

  /** Cancels the timers. */
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

  /**
   * Returns whether this pass is regular. The next regular one is due after an interval, plus or minus up to a tenth.
   */
  #beginPass(): boolean {
    const nowMs = this.#clock.monotonicMs()
    this.#lastPassMs = nowMs
    const regular = nowMs >= this.#regularDueMs
    if (regular) this.#regularDueMs = nowMs + this.#intervalMs * (0.9 + 0.2 * this.#random.next())
    this.passAfter(this.#regularDueMs - nowMs)
    return regular
  }
}
