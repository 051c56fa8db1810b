import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { RemoteError } from '../runtime/remote-error.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { AvailabilityReporter } from './availability.ts'
import { WriteRetry } from './write-retry.ts'

/** After a refusal that lasts, a look that is asked for is made so long after the last one at the soonest, in milliseconds. */
const REFUSED_MS = 250

/** Why a look is due: at the start, after each interval, and whatever else a controller knows. */
export type LookReason<Own extends string> = 'start' | 'interval' | Own

export interface LookLoopOptions<Own extends string> {
  readonly clock: Clock
  readonly random: Random
  readonly availability: AvailabilityReporter
  /** Names the controller in {@link availability}. */
  readonly source: string
  /** How often to look when nothing seems to happen, in milliseconds. */
  readonly intervalMs: number
  /** Up to this part of it each interval is longer or shorter, by chance. @default 0 */
  readonly spread?: number | undefined
  /**
   * Whether a look is at several objects: when one is refused for good a look that is asked for may be about another, and does not wait until
   * the refused one is tried again. @default false
   */
  readonly severalObjects?: boolean | undefined
  /** No wait after a failed look is longer, in milliseconds. @default as {@link WriteRetry} has it */
  readonly longestWaitMs?: number | undefined
  /** Looks, and makes right what is not. What it rejects with is looked at again, see {@link WriteRetry}. */
  readonly reconcile: (reasons: ReadonlySet<LookReason<Own>>, signal: AbortSignal) => Promise<void>
}

/**
 * The loop of a controller that keeps a handful of objects: any number of causes make one look, looks never overlap, and a look that
 * failed is repeated until it succeeds.
 */
export class LookLoop<Own extends string> {
  readonly #options: LookLoopOptions<Own>
  readonly #looks = new Trigger<LookReason<Own>>()
  readonly #retry: WriteRetry
  readonly #settled = Promise.withResolvers<void>()

  constructor(options: LookLoopOptions<Own>) {
    this.#options = options
    this.#retry = new WriteRetry(options.random)
  }

  /** Resolves after the first look that left everything right. */
  get settled(): Promise<void> {
    return this.#settled.promise
  }

  /** Asks for a look. */
  look(reason: LookReason<Own>): void {
    this.#looks.fire(reason)
  }

  /** Looks until the signal is aborted, beginning at once; then rejects with its reason. */
  async run(signal: AbortSignal): Promise<never> {
    const { clock } = this.#options
    let nextIntervalMs = this.#nextIntervalMs()
    this.look('start')
    for (;;) {
      const cancel = clock.schedule(nextIntervalMs - clock.monotonicMs(), () => this.look('interval'))
      const reasons = await this.#looks.take(signal).finally(cancel)
      if (reasons.has('interval')) nextIntervalMs = this.#nextIntervalMs()
      await this.#untilRight(reasons, signal)
      this.#settled.resolve()
    }
  }

  #nextIntervalMs(): number {
    const { clock, random, intervalMs, spread = 0 } = this.#options
    const byChance = spread === 0 ? 0 : (random.next() * 2 - 1) * spread
    return clock.monotonicMs() + intervalMs * (1 + byChance)
  }

  async #untilRight(causes: ReadonlySet<LookReason<Own>>, signal: AbortSignal): Promise<void> {
    const { clock, availability, source, reconcile, severalObjects = false, longestWaitMs = Infinity } = this.#options
    let reasons = causes
    for (;;) {
      try {
        await reconcile(reasons, signal)
        availability.succeeded(source)
        this.#retry.reset()
        return
      } catch (error) {
        signal.throwIfAborted()
        const nature = error instanceof RemoteError ? error.nature : undefined
        if (nature !== 'conflict') availability.failed(source, error)
        const waitMs = Math.min(this.#retry.next(error), longestWaitMs)
        const deafMs = severalObjects && nature === 'lasting' ? Math.min(waitMs, REFUSED_MS) : waitMs
        await sleep(clock, deafMs, signal)
        if (waitMs > deafMs) reasons = new Set([...reasons, ...(await this.#askedWithin(waitMs - deafMs, signal))])
      }
    }
  }

  /** Waits for a look to be asked for, but no longer than that. */
  async #askedWithin(ms: number, signal: AbortSignal): Promise<ReadonlySet<LookReason<Own>>> {
    const cancel = this.#options.clock.schedule(ms, () => this.#looks.wake())
    return this.#looks.take(signal).finally(cancel)
  }
}
