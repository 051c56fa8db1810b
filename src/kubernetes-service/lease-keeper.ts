import { WriteRetry } from '../kube/write-retry.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { Trigger } from '../runtime/trigger.ts'
import {
  type Contention,
  type ContentionInput,
  type ContentionLimits,
  calm,
  correctionDueMs,
  nextContention,
  nextLookMs,
} from './contention.ts'
import type { ReadinessMonitor } from './readiness-monitor.ts'

/** How often a server that did not answer is asked again before a renewal that is due. */
const RETRY_MS = 500
/** Between two tries of one renewal at most, in milliseconds, whatever was wrong: the lease goes on ending. */
const RENEWAL_RETRY_MS = 1_000
/** An answer older than this, in milliseconds, does not say that the server still lives. */
export const FRESH_MS = 2_500

export interface LeaseKeeperOptions {
  readonly clock: Clock
  readonly random: Random
  readonly monitor: ReadinessMonitor
  /** Between two renewals, in milliseconds. */
  readonly intervalMs: number
  /** When a lease that is taken away again and again is made again only now and then. */
  readonly limits: ContentionLimits
  /** Renews the lease once. */
  readonly renew: (signal: AbortSignal) => Promise<void>
  /** Whether an error ends the keeping for good. */
  readonly isFinal: (error: unknown) => boolean
  /** Told of each outcome; undefined after a success. */
  readonly report: (error: unknown) => void
  /** Told of what was found or done when somebody takes the lease away, and of what follows from it. */
  readonly onContention: (input: ContentionInput, before: Contention, now: Contention) => void
  /** Asks for another look at the leases: this one may have gone while it was being made. */
  readonly look: () => void
}

/**
 * Renews this master's lease, each interval, only while its own API server answers: the lease speaks for the server, not for this
 * process. Apart from the reconcile loop, so that no slow write there can cost the lease.
 *
 * A lease that somebody takes away is made again at once; one that is taken away again and again at growing distances.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  readonly #retry: WriteRetry
  readonly #due = new Trigger<'due'>()
  #renewedMs: number | undefined
  #contention: Contention = calm
  /** Somebody has taken the lease away, as far as a read since the last renewal tells. */
  #lost = false

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
    this.#retry = new WriteRetry(options.random)
  }

  /** When the last renewal was begun that was successful, on the monotonic clock; undefined while the lease is not kept. */
  get renewedMs(): number | undefined {
    return this.#renewedMs
  }

  /** Whether the lease has gone and is not made again yet, because somebody keeps taking it away. */
  get isHeldBack(): boolean {
    return this.#lost && this.#contention.phase === 'backing-off'
  }

  /** Starts with a renewal one interval from now: the lease was just made. Ends with the signal, or when keeping has no use. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, intervalMs } = this.#options
    this.#renewedMs = clock.monotonicMs()
    try {
      while (await this.#next((this.#renewedMs ?? 0) + intervalMs, signal)) {}
    } finally {
      this.#renewedMs = undefined
    }
  }

  /** Renews as soon as the server answers: the lease is gone, or is about to be. */
  hurry(): void {
    this.#lost = true
    this.#due.fire('due')
  }

  /** Waits for a renewal to be due, and makes it. False when keeping has no use any more. */
  async #next(dueMs: number, signal: AbortSignal): Promise<boolean> {
    const { clock, limits, look } = this.#options
    const wakeMs = Math.min(dueMs, nextLookMs(this.#contention, limits) ?? dueMs)
    const cancel = clock.schedule(wakeMs - clock.monotonicMs(), () => this.#due.fire('due'))
    await this.#due.take(signal).finally(cancel)
    this.#take(this.#lost ? 'undone' : 'right')
    if (!this.#lost && clock.monotonicMs() < dueMs) return true
    const waitMs = this.#lost ? correctionDueMs(this.#contention, limits) - clock.monotonicMs() : 0
    if (waitMs > 0) await sleep(clock, waitMs, signal)
    await this.whenAnswered(signal)
    const wasLost = this.#lost
    this.#lost = false
    if (!(await this.#renew(signal))) return false
    if (wasLost) this.#take('corrected')
    if (this.#lost) {
      // That was seen before the lease was made again, or it has gone anew: a look tells.
      this.#lost = false
      look()
    }
    return true
  }

  /** Resolves when the server has answered since the last renewal, and lately. */
  async whenAnswered(signal: AbortSignal): Promise<void> {
    const { clock, monitor } = this.#options
    const renewedMs = this.#renewedMs ?? Number.NEGATIVE_INFINITY
    const { lastAnswerMs = Number.NEGATIVE_INFINITY } = monitor
    if (lastAnswerMs > renewedMs && clock.monotonicMs() - lastAnswerMs < FRESH_MS) return
    while (!(await monitor.probe(signal)).answered) await sleep(clock, RETRY_MS, signal)
  }

  async #renew(signal: AbortSignal): Promise<boolean> {
    const { clock, renew, isFinal, report } = this.#options
    for (;;) {
      const startedMs = clock.monotonicMs()
      try {
        await renew(signal)
        this.#renewedMs = startedMs
        this.#retry.reset()
        report(undefined)
        return true
      } catch (error) {
        signal.throwIfAborted()
        report(error)
        if (isFinal(error)) return false
        await sleep(clock, Math.min(this.#retry.next(error), RENEWAL_RETRY_MS), signal)
        await this.whenAnswered(signal)
      }
    }
  }

  #take(input: ContentionInput): void {
    const before = this.#contention
    this.#contention = nextContention(before, input, this.#options.clock.monotonicMs(), this.#options.limits)
    if (before !== this.#contention) this.#options.onContention(input, before, this.#contention)
  }
}
