import { type Backoff, exponentialBackoff } from '../runtime/backoff.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { RemoteError } from '../runtime/errors.ts'
import type { Random } from '../runtime/random.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { AvailabilityReporter } from './availability.ts'
import { isKubeError } from './errors.ts'

/**
 * With `severalObjects`, a call of `trigger` ends the wait after a permanent refusal, but not within this many
 * milliseconds.
 */
const REFUSED_MS = 250

/** Why to reconcile: at the start, after each interval, or for a controller's own reason. */
export type ReconcileReason<Own extends string> = 'start' | 'interval' | Own

interface ReconcileLoopOptions<Own extends string> {
  readonly clock: Clock
  readonly random: Random
  readonly availability: AvailabilityReporter
  /** Names the controller in {@link availability}. */
  readonly source: string
  /** How often to reconcile without another reason, in milliseconds. */
  readonly intervalMs: number
  /** Each interval is longer or shorter by a random share of itself, at most this share. @default 0 */
  readonly spread?: number | undefined
  /**
   * Whether a reconciliation covers several objects. If so, a call of {@link ReconcileLoop.trigger} ends the wait after
   * a permanent refusal, because the call may concern another object than the refused one. @default false
   */
  readonly severalObjects?: boolean | undefined
  /** The longest wait after a failed reconciliation, in milliseconds. @default as in {@link WriteRetry} */
  readonly longestWaitMs?: number | undefined
  /** A rejection is retried, see {@link WriteRetry}. */
  readonly reconcile: (reasons: ReadonlySet<ReconcileReason<Own>>, signal: AbortSignal) => Promise<void>
}

/**
 * The loop of a controller that manages a few objects. Waiting calls of {@link ReconcileLoop.trigger} are merged into
 * one reconciliation, reconciliations never overlap, and a failed one is repeated until it succeeds.
 */
export class ReconcileLoop<Own extends string> {
  readonly #options: ReconcileLoopOptions<Own>
  readonly #trigger = new Trigger<ReconcileReason<Own>>()
  readonly #retry: WriteRetry
  readonly #settled = Promise.withResolvers<void>()

  constructor(options: ReconcileLoopOptions<Own>) {
    this.#options = options
    this.#retry = new WriteRetry(options.random)
  }

  /** Resolves after the first successful reconciliation. */
  get settled(): Promise<void> {
    return this.#settled.promise
  }

  trigger(reason: ReconcileReason<Own>): void {
    this.#trigger.fire(reason)
  }

  /** Reconciles until the signal is aborted, beginning at once; then rejects with the signal's reason. */
  async run(signal: AbortSignal): Promise<never> {
    const { clock, availability, source } = this.#options
    let nextIntervalMs = this.#nextIntervalMs()
    this.trigger('start')
    try {
      for (;;) {
        const cancel = clock.schedule(nextIntervalMs - clock.monotonicMs(), () => this.trigger('interval'))
        const reasons = await this.#trigger.take(signal).finally(cancel)
        if (reasons.has('interval')) nextIntervalMs = this.#nextIntervalMs()
        await this.#reconcileUntilSuccess(reasons, signal)
        this.#settled.resolve()
      }
    } finally {
      // Otherwise a failure just before the end would count as an outage for ever.
      availability.forget(source)
    }
  }

  #nextIntervalMs(): number {
    const { clock, random, intervalMs, spread = 0 } = this.#options
    const byChance = spread === 0 ? 0 : (random.next() * 2 - 1) * spread
    return clock.monotonicMs() + intervalMs * (1 + byChance)
  }

  async #reconcileUntilSuccess(causes: ReadonlySet<ReconcileReason<Own>>, signal: AbortSignal): Promise<void> {
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
        const uninterruptedMs = severalObjects && nature === 'lasting' ? Math.min(waitMs, REFUSED_MS) : waitMs
        await sleep(clock, uninterruptedMs, signal)
        if (waitMs > uninterruptedMs)
          reasons = new Set([...reasons, ...(await this.#triggeredWithin(waitMs - uninterruptedMs, signal))])
      }
    }
  }

  /** Waits at most `ms` for a call of `trigger`; resolves with the reasons of all calls, or with none. */
  async #triggeredWithin(ms: number, signal: AbortSignal): Promise<ReadonlySet<ReconcileReason<Own>>> {
    const cancel = this.#options.clock.schedule(ms, () => this.#trigger.wake())
    return this.#trigger.take(signal).finally(cancel)
  }
}

/**
 * A refusal because of the state of an object often ends a moment later: the address of a deleted Service is free after
 * 2 ms. So the first waits are short. After an outage everything must be in sync within 2 s of the first write that the
 * server accepts, so no such wait exceeds 1 s.
 */
const passing = { firstMs: 2, maxMs: 1_000 }
/** Missing rights and invalid requests last until somebody changes the configuration. */
const lasting = { firstMs: 10, maxMs: 10_000 }
/** Up to this many conflicts in a row happen by chance. If there are more, quick retries make the fight worse. */
const CONFLICTS_AT_ONCE = 3

/**
 * How long a loop waits after a failed write before it reconciles again. Each loop that writes has its own instance.
 */
export class WriteRetry {
  readonly #passing: Backoff
  readonly #lasting: Backoff
  readonly #refusals: 'passing' | 'lasting'
  #conflicts = 0

  /** @param refusals - after a refusal that may end by itself (404, 422), `passing` waits briefly, `lasting` longer. */
  constructor(random: Random, refusals: 'passing' | 'lasting' = 'passing') {
    this.#refusals = refusals
    this.#passing = exponentialBackoff(passing, random)
    this.#lasting = exponentialBackoff(lasting, random)
  }

  /**
   * Milliseconds to wait after `error`; each call counts as one more failure. Except after the first
   * {@link CONFLICTS_AT_ONCE} conflicts in a row, the wait is at least the Retry-After of the API server, of which at
   * most one second counts.
   */
  next(error: unknown): number {
    const nature = error instanceof RemoteError ? error.nature : undefined
    if (nature === 'conflict' && ++this.#conflicts <= CONFLICTS_AT_ONCE) return 0
    const isLasting = nature === 'lasting' || (nature === 'passing' && this.#refusals === 'lasting')
    const delayMs = isLasting ? this.#lasting.next() : this.#passing.next()
    const askedMs = isKubeError(error) ? (error.retryAfterMs ?? 0) : 0
    return Math.max(delayMs, Math.min(askedMs, passing.maxMs))
  }

  /** Call this after a success: the next waits are short again. */
  reset(): void {
    this.#passing.reset()
    this.#lasting.reset()
    this.#conflicts = 0
  }
}
