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
 * After this many retries kube-controller-manager drops a Service. This queue logs an error, and continues to retry.
 */
const MAX_RETRIES = 15
/** A sync that found a stale cache is repeated after at most this time, in milliseconds. */
const STALE_RETRY_MS = 1_000
/**
 * After this time, in milliseconds, a copy that lacks a write of this process will never receive it, because a silent
 * watch is restarted after 90 s. Either the server answered wrongly, or it was restored from a backup.
 */
export const UNSEEN_MS = 100_000
/**
 * The longest own delay of a retry while the server is away or busy, in milliseconds. No event announces the end of a
 * time in which the server refuses only writes with 429.
 */
const LONGEST_AWAY_RETRY_MS = 15_000
/** After a recovery no other failed Service is tried for this long since the last such try failed, in milliseconds. */
const PROBE_PAUSE_MS = 10_000

/**
 * The queue of Services that a controller must sync, by `namespace/name`. Never runs two syncs of one Service at a
 * time. Retries failed syncs with back-off. Repeats a sync that found a stale cache as soon as the cache has caught up.
 */
export class ServiceQueue {
  readonly #options: ServiceQueueOptions
  readonly #queue: WorkQueue
  /** The Services whose last sync found the cache stale. */
  readonly #stale = new Set<string>()
  /** For each Service that is being synced: whether {@link caughtUp} was called since that sync began. */
  readonly #changed = new Map<string, boolean>()
  /** How often in a row the sync of each Service failed while the server was neither away nor busy. */
  readonly #failures = new Map<string, number>()
  /**
   * Services that have failed with an error of the API server since their last successful sync. First the one that was
   * last tried the longest time ago.
   */
  readonly #failed = new Set<string>()
  /** The Services whose failure was logged as a warning, until a sync succeeds. */
  readonly #warned = new Set<string>()
  /** A Service that has recovered, as long as no other was tried for this reason. */
  #recovered: string | undefined
  /** The failed Service that is tried because another has recovered. */
  #probed: string | undefined
  /** Set while no failed Service is tried for this reason. */
  #cancelPause: Cancel | undefined

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
   * Must be called when a cached object of the Service has changed. If the last sync found the cache stale, that sync
   * is repeated at once. If a sync is running and finds the cache stale later, that sync is repeated at once too.
   */
  caughtUp(key: string): void {
    if (this.#stale.delete(key)) this.#queue.expedite(key)
    else if (this.#changed.has(key)) this.#changed.set(key, true)
  }

  /** Retries all failed Services at once, because the API server is available again. */
  expedite(): void {
    this.#queue.expediteFailed()
  }

  /** Syncs Services until the signal is aborted; resolves when the running syncs have ended. */
  async run(signal: AbortSignal, sync: (key: string, signal: AbortSignal) => Promise<void>): Promise<void> {
    try {
      await this.#queue.run({
        workers: this.#options.workers,
        signal,
        reconcile: (key, signal) => this.#reconcile(key, () => sync(key, signal)),
        failed: (key, error) => this.#logFailure(key, error),
        longestDelayMs: (error) => (isAwayOrBusy(error) ? LONGEST_AWAY_RETRY_MS : Number.POSITIVE_INFINITY),
      })
    } finally {
      this.#cancelPause?.()
    }
  }

  async #reconcile(key: string, sync: () => Promise<void>): Promise<void> {
    this.#stale.delete(key)
    this.#changed.set(key, false)
    try {
      await sync()
      this.#failures.delete(key)
      this.#warned.delete(key)
      if (this.#failed.delete(key)) this.#recovered = key
    } catch (error) {
      if (!(error instanceof StaleCacheError)) {
        if (key === this.#probed) this.#pause()
        throw error
      }
      this.#stale.add(key)
      this.#queue.addAfter(key, STALE_RETRY_MS)
      if (this.#changed.get(key) === true) this.caughtUp(key)
    } finally {
      this.#changed.delete(key)
      if (key === this.#probed) this.#probed = undefined
      this.#probe()
    }
  }

  /**
   * If one Service is not refused any more, others may be accepted too: tries one, preferably of the same namespace. If
   * it succeeds, it too has recovered, and the next is tried. All at once could hold all workers, if they hang.
   */
  #probe(): void {
    if (this.#failed.size === 0) this.#recovered = undefined
    if (this.#recovered === undefined || this.#probed !== undefined || this.#cancelPause !== undefined) return
    this.#probed = this.#expediteOneLike(this.#recovered)
    if (this.#probed === undefined) this.#pause()
    else this.#recovered = undefined
  }

  #pause(): void {
    this.#cancelPause = this.#options.clock.schedule(PROBE_PAUSE_MS, () => {
      this.#cancelPause = undefined
      this.#probe()
    })
  }

  /** Returns the key; undefined if no failed Service waits for a retry. */
  #expediteOneLike(recovered: string): string | undefined {
    const namespace = recovered.slice(0, recovered.indexOf('/') + 1)
    for (const prefix of [namespace, '']) {
      for (const key of this.#failed) {
        if (key.startsWith(prefix) && !this.#stale.has(key) && this.#queue.expedite(key)) return key
      }
    }
    return undefined
  }

  #logFailure(key: string, error: unknown): void {
    const { logger } = this.#options
    if (this.#failed.delete(key) || isKubeError(error)) this.#failed.add(key)
    const retries = this.#queue.numRequeues(key)
    const fields = { service: key, retries, error }
    const isAway = isAwayOrBusy(error)
    const failures = isAway ? 0 : (this.#failures.get(key) ?? 0) + 1
    this.#failures.set(key, failures)
    if (failures === MAX_RETRIES + 1) logger.error(fields, 'a Service cannot be synced; retrying')
    // A conflict is normal, `Availability` logs an outage once, and retries would fill the log.
    else if (isAway || isKubeError(error, 'Conflict') || this.#warned.has(key)) logger.debug(fields, 'a sync failed')
    else {
      this.#warned.add(key)
      logger.warn(fields, 'a sync failed; trying again')
    }
  }
}

/**
 * The pause from the beginning of a write for a Service to the next write, in milliseconds. `size`: how many addresses
 * of Endpoints, or how many EndpointSlices, the first write wrote. Changes during the pause are written together after
 * it.
 */
export type WritePause = (size: number) => number

/**
 * Spaces out the writes for each Service, so that a Service with thousands of endpoints and constant changes does not
 * overload the API server and the kube-proxies that watch. Times are in milliseconds of one monotonic clock.
 */
export class WritePacing {
  readonly #pause: WritePause
  readonly #untilMs = new Map<string, number>()

  constructor(pause: WritePause) {
    this.#pause = pause
  }

  /** How long the next write for a Service must wait; 0 if it need not wait. */
  delayMs(key: string, nowMs: number): number {
    const untilMs = this.#untilMs.get(key)
    if (untilMs === undefined) return 0
    if (untilMs <= nowMs) this.#untilMs.delete(key)
    return Math.max(0, untilMs - nowMs)
  }

  /** Begins the pause for a write of this size, which began at `nowMs`. */
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
 * What a controller of Endpoints or EndpointSlices uses, for one term of leadership. The informers belong to the term,
 * and start after the controllers are created. Each resource is followed with the transform for it in `trimmed.ts`.
 */
export interface WorkloadContext {
  readonly api: KubeApi
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  readonly informers: Informers
  /** Which Pods each Service selects, shared by all controllers of the term. */
  readonly members: Pick<ServiceMembers, 'podsOf' | 'subscribe'>
  readonly observer: WorkQueueObserver
  readonly workers: number
  /**
   * The delay of a sync after a change, in milliseconds, so that changes are batched. For the controllers of Endpoints
   * and EndpointSlices: after a change of a Pod. For those of EndpointSlices and mirroring: after another client has
   * changed a slice.
   */
  readonly batchPeriodMs: number
}

/** A controller for one term of leadership. */
export interface WorkloadController {
  /** Works until the signal is aborted and the running syncs have ended. Call it once. */
  run(signal: AbortSignal): Promise<void>
  /** Retries failed keys at once, because the API server is available again. */
  expedite(): void
}
