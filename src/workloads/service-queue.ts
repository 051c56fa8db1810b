import { isKubeError } from '../kube/errors.ts'
import type { Clock } from '../runtime/clock.ts'
import { type RetryRate, WorkQueue, type WorkQueueObserver } from '../runtime/work-queue.ts'
import type { Logger } from '../telemetry/logger.ts'

export interface ServiceQueueOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly observer?: WorkQueueObserver | undefined
  readonly retry?: RetryRate | undefined
  readonly workers: number
}

/** The copy that a sync rests on has not caught up with what this process wrote: nothing is wrong, and nothing can be done yet. */
export class StaleCacheError extends Error {
  override name = 'StaleCacheError'
}

/** From so many failures in a row on kube-controller-manager gives a Service up; here it is said, and tried on. */
const maxRetries = 15
/** So long a sync that found a stale copy waits at most for the copy to catch up. */
const staleMs = 1_000
/** So far apart, at least, one Service that is no longer refused brings the others forward. */
const hastenDistanceMs = 10_000

/**
 * The Services that a controller has to look at, by `namespace/name`: never two syncs of one Service at a time, failed ones again and again with
 * back-off, and those that found a stale copy as soon as it has caught up.
 */
export class ServiceQueue {
  readonly #options: ServiceQueueOptions
  readonly #queue: WorkQueue
  readonly #stale = new Set<string>()
  /** Of the Services under sync, whether the copy has changed meanwhile. */
  readonly #changed = new Map<string, boolean>()
  /** Services whose last sync failed because of the server. */
  readonly #failed = new Set<string>()
  #hastenedMs = Number.NEGATIVE_INFINITY

  constructor(options: ServiceQueueOptions) {
    this.#options = options
    this.#queue = new WorkQueue(options)
  }

  /** Asks for a sync of a Service after a delay; at once by default. */
  add(key: string, delayMs = 0): void {
    if (delayMs > 0) this.#queue.addAfter(key, delayMs)
    else this.#queue.add(key)
  }

  /** The copy of an object of the Service has changed: a sync that found it stale is due, and so is one under way that is about to find it so. */
  caughtUp(key: string): void {
    if (this.#stale.delete(key)) this.#queue.hasten(key)
    else if (this.#changed.has(key)) this.#changed.set(key, true)
  }

  /** Makes all due that wait because they failed. */
  hasten(): void {
    this.#hastenedMs = this.#options.clock.monotonicMs()
    this.#queue.hastenFailed()
  }

  /** Syncs Services until the signal is aborted; resolves when what was under way has ended. */
  run(signal: AbortSignal, sync: (key: string, signal: AbortSignal) => Promise<void>): Promise<void> {
    return this.#queue.run({
      workers: this.#options.workers,
      signal,
      reconcile: (key, signal) => this.#reconcile(key, () => sync(key, signal)),
      failed: (key, error) => this.#tellFailure(key, error),
    })
  }

  async #reconcile(key: string, sync: () => Promise<void>): Promise<void> {
    this.#stale.delete(key)
    this.#changed.set(key, false)
    try {
      await sync()
      if (this.#failed.delete(key)) this.#recovered()
    } catch (error) {
      if (!(error instanceof StaleCacheError)) throw error
      // No failure: it takes nothing of what failures may retry in a second.
      this.#stale.add(key)
      this.#queue.addAfter(key, staleMs)
      if (this.#changed.get(key) === true) this.caughtUp(key)
    } finally {
      this.#changed.delete(key)
    }
  }

  /** What was refused passes: that may be so for the others, too. */
  #recovered(): void {
    if (this.#failed.size > 0 && this.#options.clock.monotonicMs() - this.#hastenedMs >= hastenDistanceMs) this.hasten()
  }

  #tellFailure(key: string, error: unknown): void {
    const { logger } = this.#options
    if (isKubeError(error)) this.#failed.add(key)
    const retries = this.#queue.numRequeues(key)
    const fields = { service: key, retries, error }
    if (retries === maxRetries) logger.error(fields, 'a Service cannot be synced; trying on')
    // An outage is said once, by the availability of the server.
    else if (isKubeError(error, 'Unreachable', 'Conflict') || retries > 0) logger.debug(fields, 'a sync failed')
    else logger.warn(fields, 'a sync failed; trying again')
  }
}
