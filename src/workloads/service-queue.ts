import type { KubeApi } from '../kube/api.ts'
import { isAwayOrBusy, isKubeError } from '../kube/errors.ts'
import type { EventSink } from '../kube/event-object.ts'
import type { Informers } from '../kube/informer.ts'
import type { Cancel, Clock } from '../runtime/clock.ts'
import { type RetryRate, WorkQueue, type WorkQueueObserver } from '../runtime/work-queue.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { ServiceMembers } from './service-members.ts'

interface ServiceQueueOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly observer?: WorkQueueObserver | undefined
  readonly retry?: RetryRate | undefined
  readonly workers: number
}

/** The cache does not have this process's own write yet. This is no failure: the sync is repeated soon. */
export class StaleCacheError extends Error {
  override name = 'StaleCacheError'
}

/**
 * After this many failures in a row, kube-controller-manager drops a Service. Here an error is logged, and the retries
 * continue.
 */
const MAX_RETRIES = 15
/** A sync that found a stale cache is repeated after at most this time, in milliseconds. */
const STALE_RETRY_MS = 1_000
/**
 * A copy receives a write of this process within this time, in milliseconds, or never: a silent watch is restarted
 * sooner. The server may have answered wrongly, or may have been restored from a backup.
 */
export const UNSEEN_MS = 100_000
/** The shortest time between two retries of all failed Services after one has recovered, in milliseconds. */
const MIN_EXPEDITE_INTERVAL_MS = 10_000

/**
 * The queue of Services that a controller must sync, by `namespace/name`. Never runs two syncs of one Service at a
 * time. Retries failed syncs with back-off, and those with a stale cache as soon as it has caught up.
 */
export class ServiceQueue {
  readonly #options: ServiceQueueOptions
  readonly #queue: WorkQueue
  readonly #stale = new Set<string>()
  /** For each Service that is being synced: whether a cached object of it has changed since that sync began. */
  readonly #changed = new Map<string, boolean>()
  /** How often in a row each Service was refused by a server that was neither away nor busy. */
  readonly #refusals = new Map<string, number>()
  /** Services whose last sync failed because of the server. */
  readonly #failed = new Set<string>()
  #expeditedMs = Number.NEGATIVE_INFINITY
  #cancelExpedite: Cancel | undefined

  constructor(options: ServiceQueueOptions) {
    this.#options = options
    this.#queue = new WorkQueue(options)
  }

  /** Requests a sync of a Service after a delay; at once by default. */
  add(key: string, delayMs = 0): void {
    if (delayMs > 0) this.#queue.addAfter(key, delayMs)
    else this.#queue.add(key)
  }

  /**
   * Must be called when a cached object of the Service has changed. If the last sync found the cache stale, it is
   * repeated at once. If a running sync finds the cache stale later, that sync is repeated at once too.
   */
  caughtUp(key: string): void {
    if (this.#stale.delete(key)) this.#queue.expedite(key)
    else if (this.#changed.has(key)) this.#changed.set(key, true)
  }

  /** Retries all failed Services at once, because the API server is available again. */
  expedite(): void {
    this.#expedite(true)
  }

  /** Syncs Services until the signal is aborted; resolves when the running syncs have ended. */
  async run(signal: AbortSignal, sync: (key: string, signal: AbortSignal) => Promise<void>): Promise<void> {
    try {
      await this.#queue.run({
        workers: this.#options.workers,
        signal,
        reconcile: (key, signal) => this.#reconcile(key, () => sync(key, signal)),
        failed: (key, error) => this.#logFailure(key, error),
      })
    } finally {
      this.#cancelExpedite?.()
    }
  }

  #expedite(anew: boolean): void {
    this.#cancelExpedite?.()
    this.#cancelExpedite = undefined
    this.#expeditedMs = this.#options.clock.monotonicMs()
    this.#queue.expediteFailed(anew)
  }

  async #reconcile(key: string, sync: () => Promise<void>): Promise<void> {
    this.#stale.delete(key)
    this.#changed.set(key, false)
    try {
      await sync()
      this.#refusals.delete(key)
      if (this.#failed.delete(key)) this.#recovered()
    } catch (error) {
      if (!(error instanceof StaleCacheError)) throw error
      this.#stale.add(key)
      this.#queue.addAfter(key, STALE_RETRY_MS)
      if (this.#changed.get(key) === true) this.caughtUp(key)
    } finally {
      this.#changed.delete(key)
    }
  }

  /** When one Service is no longer refused, others may be accepted too. */
  #recovered(): void {
    if (this.#failed.size === 0 || this.#cancelExpedite !== undefined) return
    const { clock } = this.#options
    const waitMs = this.#expeditedMs + MIN_EXPEDITE_INTERVAL_MS - clock.monotonicMs()
    if (waitMs <= 0) this.#expedite(false)
    else this.#cancelExpedite = clock.schedule(waitMs, () => this.#expedite(false))
  }

  #logFailure(key: string, error: unknown): void {
    const { logger } = this.#options
    if (isKubeError(error)) this.#failed.add(key)
    const retries = this.#queue.numRequeues(key)
    const fields = { service: key, retries, error }
    const isAway = isAwayOrBusy(error)
    const refusals = isAway ? 0 : (this.#refusals.get(key) ?? 0) + 1
    this.#refusals.set(key, refusals)
    if (refusals === MAX_RETRIES + 1) logger.error(fields, 'a Service cannot be synced; retrying')
    // Only at debug, because `Availability` logs an outage of the server once.
    else if (isAway || isKubeError(error, 'Conflict') || retries > 0) logger.debug(fields, 'a sync failed')
    else logger.warn(fields, 'a sync failed; trying again')
  }
}

/**
 * How long to pause after a write, in milliseconds. `size`: how many addresses of Endpoints, or how many
 * EndpointSlices, were written. Changes during the pause are written together after it.
 */
export type WritePause = (size: number) => number

/**
 * Spaces out the writes for each Service, so that one with thousands of endpoints and constant changes does not
 * overload the API server and the kube-proxies that watch. Times are of one monotonic clock.
 */
export class WritePacing {
  readonly #pause: WritePause
  readonly #untilMs = new Map<string, number>()

  constructor(pause: WritePause) {
    this.#pause = pause
  }

  /** How long the next write for a Service has to wait. */
  delayMs(key: string, nowMs: number): number {
    const untilMs = this.#untilMs.get(key)
    if (untilMs === undefined) return 0
    if (untilMs <= nowMs) this.#untilMs.delete(key)
    return Math.max(0, untilMs - nowMs)
  }

  /** Begins the pause after a write of this size. */
  written(key: string, nowMs: number, size: number): void {
    const pauseMs = this.#pause(size)
    if (pauseMs > 0) this.#untilMs.set(key, nowMs + pauseMs)
  }

  /** Forgets a deleted Service, so that a new one of the same name does not wait. */
  delete(key: string): void {
    this.#untilMs.delete(key)
  }
}

/**
 * The inputs of a controller of Endpoints or EndpointSlices, for one term of leadership. The informers belong to the
 * term, and start after the controllers are created. Each resource is followed with its transform of `trimmed.ts`.
 */
export interface WorkloadContext {
  readonly api: KubeApi
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  readonly informers: Informers
  /** Which Pods each Service selects, shared by all controllers of the term. */
  readonly members: Pick<ServiceMembers, 'podsOf' | 'subscribe'>
  /** Measures the queue of the controller. */
  readonly observer: WorkQueueObserver
  /** How many Services may be worked on at the same time. */
  readonly workers: number
  /**
   * The delay from a change of a Pod to the sync of its Services, in milliseconds. It lets changes be handled together.
   */
  readonly batchPeriodMs: number
}

/** A controller for one term of leadership. */
export interface WorkloadController {
  /** Works once the informers have synced, until the signal is aborted; then ends its running syncs. Call it once. */
  run(signal: AbortSignal): Promise<void>
  /** Retries failed keys at once, because the API server is available again. */
  expedite(): void
}
