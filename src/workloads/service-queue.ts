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
    this.#queue.hastenFailed()
  }

  /** Syncs Services until the signal is aborted; resolves when what was under way has ended. */
  run(signal: AbortSignal, sync: (key: string, signal: AbortSignal) => Promise<void>): Promise<void> {
    const { logger, workers } = this.#options
    return this.#queue.run({
      workers,
      signal,
      reconcile: async (key, signal) => {
        this.#stale.delete(key)
        this.#changed.set(key, false)
        await sync(key, signal)
        this.#changed.delete(key)
      },
      failed: (key, error) => {
        const changed = this.#changed.get(key) === true
        this.#changed.delete(key)
        if (error instanceof StaleCacheError) {
          this.#stale.add(key)
          // Once the retry waits that the queue is about to add.
          if (changed) void Promise.resolve().then(() => this.caughtUp(key))
          return
        }
        const retries = this.#queue.numRequeues(key)
        const fields = { service: key, retries, error }
        if (retries === maxRetries) logger.error(fields, 'a Service cannot be synced; trying on')
        // An outage is said once, by the availability of the server.
        else if (isKubeError(error, 'Unreachable', 'Conflict') || retries > 0) logger.debug(fields, 'a sync failed')
        else logger.warn(fields, 'a sync failed; trying again')
      },
    })
  }
}
