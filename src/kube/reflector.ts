import { type Backoff, exponentialBackoff } from '../runtime/backoff.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { type Random, randomInteger } from '../runtime/random.ts'
import { SlicedWork } from '../runtime/steps.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Counter, Metrics } from '../telemetry/metrics.ts'
import { oneLine } from '../telemetry/secrets.ts'
import type { KubeApi, ListQuery, Status, WatchEvent, WatchQuery } from './api.ts'
import { nextPage } from './api-wrappers.ts'
import type { AvailabilityReporter } from './availability.ts'
import { codeOf, isKubeError, KubeError } from './errors.ts'
import type { ObjectMap } from './object-map.ts'
import {
  type Ending,
  nextPatienceMs,
  type Patience,
  PROVEN_AFTER_MS,
  pagePatience,
  planRetry,
  type ReflectorState,
  type RetryPlan,
  startState,
  versionOf,
  WatchGuard,
} from './reflector-plan.ts'
import { type KubeObject, qualifiedPlural, type Resource, withKind } from './resources.ts'
import type { ServedResources } from './served-resources.ts'
import { objectMap, refOfObject, type Transform } from './store.ts'

/** Selects objects of a resource. A field that is left out selects all. */
export type Selection = Pick<ListQuery, 'namespace' | 'labelSelector' | 'fieldSelector'>

/** Receives what a reflector reads, in order. An error that it throws ends the reflector. */
interface ReflectorSink<T extends KubeObject> {
  /**
   * Receives the complete current state, which the sink may retain. If the result is a promise, the reflector reports
   * nothing else until the promise has settled. `beganMs`: when the list was requested, in monotonic time.
   */
  replaced(objects: ObjectMap<T>, beganMs: number): void | Promise<void>
  changed(event: { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }): void
  /** The server answered a list with 404: for now it does not serve the resource. The reflector tries again. */
  absent(): void
}

interface ReflectorOptions<T extends KubeObject> {
  readonly api: KubeApi
  readonly resource: Resource<T>
  readonly query?: Selection | undefined
  readonly transform?: Transform<T> | undefined
  readonly sink: ReflectorSink<T>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  /** @default a resource that the server does not serve counts as refused, and is requested every few seconds */
  readonly served?: Pick<ServedResources, 'confirmUnserved' | 'untilUndenied' | 'seen'> | undefined
  readonly metrics?: Metrics | undefined
}

/**
 * An API server sends a bookmark about every minute, but kube-apiserver sends none while the resourceVersion is
 * unchanged. A watch that is silent for 90 s may have a dead connection. Reconnecting is cheaper than finding out.
 */
const watchPatience = { quietMs: 90_000 }
/** A watch that delivers nothing for this long after the server has answered a write has lost its connection. */
const LATE_MS = 5_000
/**
 * Limits the wait for the initial events, because a server that does not know streaming lists never marks their end.
 * `received`: how many objects so far. A million take longer than a minute, so the wait goes on while, on average, 500
 * arrive each second.
 */
function streamPatience(received: () => number): Patience {
  return { quietMs: 10_000, totalMs: () => Math.max(60_000, 2 * received()) }
}

/**
 * After an outage everything must be in sync within 2 s of the first write that the server accepts, so no such wait may
 * be longer than 1 s. One process with a few watches can afford that. A Retry-After with 429 makes a wait longer.
 */
const shortWaits = { firstMs: 200, maxMs: 800, jitter: 0.25 }
/** Refusals (403, 404) last until somebody changes the configuration, or until a starting server is ready. */
const longWaits = { firstMs: 200, maxMs: 8_000, jitter: 0.25 }
const LONGEST_RETRY_AFTER_MS = 10_000

/**
 * If a watch always fails right after its list, every retry is a list. From the second such failure in a row, a pause
 * after the last list delays the next one. The pause lasts this many times the duration of the last list: it is short
 * for a few objects, and spares a server with a million of them. The first failure causes no pause, because the list
 * may have taken long only because the server hung, as it does before a restart.
 */
const LIST_PAUSE = 4
const LONGEST_LIST_PAUSE_MS = 30_000

/**
 * Follows one collection: lists it, watches it, and recovers from every failure of a list or a watch.
 *
 * The list is a stream of watch events if the server supports that (KEP-3157), else it has pages. After most failures
 * the watch continues from the last received resourceVersion. A new list follows a possible gap (410, an ERROR event
 * other than 429, an unreadable event, several changes at one revision), a rejected request (400, 404, 405, 415, 422),
 * half an hour of silence, or 60 watches in a row with 5xx or a timeout. Modelled on client-go's
 * `tools/cache/reflector.go` and kube-rs' `watcher`.
 */
export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>
  readonly #transform: Transform<T>
  readonly #format: Pick<ListQuery, 'protobuf'>
  readonly #empty = (): ObjectMap<T> => objectMap(this.#transform.packing)
  readonly #source: string
  readonly #logger: Logger
  readonly #short: Backoff
  readonly #long: Backoff
  readonly #lists: Counter<'resource'> | undefined
  readonly #watches: Counter<'resource'> | undefined
  #state: ReflectorState<T>
  #streaming = true
  /** The continue tokens of the current list. */
  readonly #seen = new Set<string>()
  #guard: WatchGuard | undefined
  #pagePatienceMs = pagePatience.firstMs
  #listBeganMs = Number.NEGATIVE_INFINITY
  #listedMs = Number.NEGATIVE_INFINITY
  /** Whether the last failure that led to a new list came during the pause after the previous list. */
  #failedEarly = false

  constructor(options: ReflectorOptions<T>) {
    this.#options = options
    this.#transform = options.transform ?? ((object) => object)
    this.#state = startState(true, this.#empty)
    this.#format = this.#transform.protobuf === undefined ? {} : { protobuf: this.#transform.protobuf }
    this.#source = describeSelection(options.resource, options.query)
    this.#logger = options.logger.child({ resource: this.#source })
    this.#short = exponentialBackoff(shortWaits, options.random)
    this.#long = exponentialBackoff(longWaits, options.random)
    this.#lists = options.metrics?.counter({
      name: 'reflector_lists_total',
      help: 'Lists requested by reflectors; each page and each streaming list counts once.',
      labels: ['resource'],
    })
    this.#watches = options.metrics?.counter({
      name: 'reflector_watches_total',
      help: 'Watches started by reflectors, not counting streaming lists.',
      labels: ['resource'],
    })
  }

  /**
   * Whether the running watch is dead ({@link LATE_MS}). `answeredMs`: when the server answered a write, in monotonic
   * time. False during the pause after a list ({@link LIST_PAUSE}).
   */
  isDead(answeredMs: number): boolean {
    const guard = this.#guard
    if (guard === undefined || guard.signal.aborted) return false
    if (this.#state.phase !== 'watching' || this.#pauseLeftMs > 0) return false
    return this.#options.clock.monotonicMs() - Math.max(guard.lastReceivedMs, answeredMs) >= LATE_MS
  }

  /**
   * Resolves once `signal` is aborted and the running request has ended. Each call begins with a list. Rejects only
   * with an error of the sink, or with an error of `api` that is not a KubeError: both are programming errors.
   */
  async run(signal: AbortSignal): Promise<void> {
    this.#state = startState(this.#streaming, this.#empty)
    try {
      while (!signal.aborted) {
        const ending = this.#state.phase === 'paging' ? await this.#listPage(signal) : await this.#watch(signal)
        if (ending !== undefined && !signal.aborted) await this.#retry(ending, signal)
      }
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error
    } finally {
      this.#options.availability.forget(this.#source)
    }
  }

  /** Reduces an object, of which only the metadata was checked. Throws a BadResponse if the transform fails. */
  #reduced(object: T): T {
    try {
      return this.#transform(object)
    } catch (cause) {
      throw new KubeError('BadResponse', `${this.#source}: fields of an object have the wrong type`, { cause })
    }
  }

  /** Reads one page. Returns undefined if the page arrived; the state is then that of the next request. */
  async #listPage(signal: AbortSignal): Promise<Ending | undefined> {
    const { api, resource, query, clock } = this.#options
    if (this.#state.phase !== 'paging') return undefined
    const { objects, limit, continue: token } = this.#state
    if (token === undefined) {
      this.#seen.clear()
      this.#listBeganMs = clock.monotonicMs()
    }
    this.#lists?.add({ resource: resource.plural })
    const quietMs = limit === undefined ? pagePatience.mostMs : this.#pagePatienceMs
    const guard = new WatchGuard({ clock, signal, patience: { quietMs }, onProven: () => {} })
    const page = await api
      .list(resource, { ...query, limit, continue: token, signal: guard.signal, ...this.#format })
      .then((page) => ({
        ...page,
        items: page.items.map((item) => this.#reduced(withKind(resource, item))),
        // This comes last: a page with an unreadable item is requested again, so its token must not count as seen.
        next: nextPage(this.#source, page, this.#seen),
      }))
      .catch((error) => (guard.ranOut ? undefined : onlyKubeError(error)))
      .finally(() => guard.end())
    this.#pagePatienceMs = nextPatienceMs(this.#pagePatienceMs, guard)
    // Silence shows that the server is away only if the page had the longest time. Otherwise the server may be slow.
    if (page === undefined) return { kind: 'silent', proven: quietMs < pagePatience.mostMs }
    if (page instanceof KubeError) return { kind: 'failed', proven: false, error: page, watchError: false }
    const { resourceVersion = page.metadata.resourceVersion } = this.#state
    for (const item of page.items) objects.set(refOfObject(item), item)
    if (page.next !== undefined) {
      this.#state = { phase: 'paging', objects, resourceVersion, continue: page.next, limit }
    } else {
      const listed = this.#listed(resourceVersion, objects)
      if (listed !== undefined) await listed
    }
    return undefined
  }

  /** Runs one watch request to its end, including its streaming list. */
  async #watch(signal: AbortSignal): Promise<Ending> {
    const { api, resource, query, clock, availability } = this.#options
    const guard = new WatchGuard({
      clock,
      signal,
      patience: watchPatience,
      onProven: () => {
        this.#short.reset()
        this.#long.reset()
        availability.succeeded(this.#source)
      },
    })
    this.#guard = guard
    const from = versionOf(this.#state)
    const streaming = this.#state.phase === 'streaming'
    if (streaming) this.#listBeganMs = clock.monotonicMs()
    // Reads the state each time, because this request outlives its list and must not keep the list in memory.
    const received = (): number => (this.#state.phase === 'streaming' ? this.#state.objects.size : 0)
    const onOpen = (): void => {
      if (guard.open() && streaming) guard.allow(streamPatience(received))
    }
    ;(streaming ? this.#lists : this.#watches)?.add({ resource: resource.plural })
    // A million objects can arrive without a moment in which timers run, among them those that renew leases.
    const listing = new SlicedWork(clock)
    let watchError: KubeError | undefined
    try {
      const request = { ...query, ...this.#watchQuery(), ...this.#format, onOpen, signal: guard.signal }
      for await (const event of api.watch(resource, request)) {
        onOpen()
        guard.received()
        if (event.type === 'ERROR') {
          watchError = errorEvent(this.#source, event.object)
          break
        }
        const before = this.#state.phase
        const taken = this.#take(event)
        if (taken !== undefined) {
          guard.allow(watchPatience)
          await taken
        }
        if (this.#state.phase !== 'watching') {
          const pause = listing.pause(guard.signal)
          if (pause !== undefined) await pause
          continue
        }
        if (before === 'streaming') guard.allow(watchPatience)
        guard.prove()
      }
    } catch (error) {
      const ended = guard.signal.aborted && (isKubeError(error) || error === guard.signal.reason)
      if (!ended) return { kind: 'failed', proven: guard.proven, error: onlyKubeError(error), watchError: false }
    } finally {
      this.#guard = undefined
      guard.end()
    }
    if (watchError !== undefined) return { kind: 'failed', proven: guard.proven, error: watchError, watchError: true }
    if (guard.ranOut) return { kind: 'silent', proven: guard.proven }
    const isBrief = guard.ageMs < PROVEN_AFTER_MS
    return { kind: 'closed', proven: guard.proven || !isBrief, brief: isBrief && versionOf(this.#state) === from }
  }

  #watchQuery(): WatchQuery {
    // Clients that started together must not reconnect together, hence the jitter (as in client-go).
    const timeoutSeconds = 300 + randomInteger(this.#options.random, 301)
    return this.#state.phase === 'watching'
      ? { resourceVersion: this.#state.resourceVersion, allowWatchBookmarks: true, timeoutSeconds }
      : { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: true, timeoutSeconds }
  }

  #take(event: Exclude<WatchEvent<T>, { readonly type: 'ERROR' }>): void | Promise<void> {
    const { sink } = this.#options
    const { type, object } = event
    const resourceVersion = object.metadata?.resourceVersion
    if (resourceVersion === undefined || resourceVersion === '') {
      throw new KubeError('BadResponse', `watch ${this.#source}: an event has no resourceVersion`)
    }
    if (this.#state.phase === 'streaming') {
      const { objects } = this.#state
      if (type === 'ADDED' || type === 'MODIFIED') {
        const reduced = this.#reduced(object)
        objects.set(refOfObject(reduced), reduced)
      } else if (type === 'DELETED') objects.delete(refOfObject(this.#reduced(object)))
      else if (object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true') {
        return this.#listed(resourceVersion, objects)
      }
    } else {
      // A bookmark means that all changes up to it have been delivered.
      const before = versionOf(this.#state)
      const shared = type !== 'BOOKMARK' && before === resourceVersion
      this.#state = { phase: 'watching', resourceVersion, silences: 0, shared }
      if (type !== 'BOOKMARK') sink.changed({ type, object: this.#reduced(object) })
    }
  }

  #listed(resourceVersion: string, objects: ObjectMap<T>): void | Promise<void> {
    this.#state = { phase: 'watching', resourceVersion, silences: 0 }
    this.#listedMs = this.#options.clock.monotonicMs()
    this.#options.served?.seen(this.#options.resource)
    return this.#options.sink.replaced(objects, this.#listBeganMs)
  }

  async #retry(ending: Ending, signal: AbortSignal): Promise<void> {
    const { clock, sink, availability, served, resource } = this.#options
    const phase = this.#state.phase
    const justListed = clock.monotonicMs() - this.#listedMs < PROVEN_AFTER_MS
    const plan = planRetry(this.#state, ending, { empty: this.#empty, streaming: this.#streaming, justListed })
    this.#state = plan.next
    if (plan.noStreaming) this.#streaming = false
    const error = ending.kind === 'failed' ? ending.error : undefined
    const listsAgain = phase === 'watching' && plan.next.phase !== 'watching'
    const delayMs = Math.max(this.#delayMs(plan.wait, error), listsAgain ? this.#listDelayMs() : 0)
    this.#logger.debug({ phase, next: plan.next.phase, ending: ending.kind, error, delayMs }, 'a request has ended')
    const isAbsent = error?.code === 'NotFound' && phase !== 'watching'
    if (isAbsent && (await served?.confirmUnserved(resource, signal))) {
      sink.absent()
      // The server is available, because discovery has answered.
      availability.succeeded(this.#source)
      await served?.untilUndenied(resource, signal)
      return
    }
    // A watch that worked and then broke does not yet prove an outage.
    if (plan.wait !== 'none' && !ending.proven && error?.code !== 'Expired') {
      availability.failed(this.#source, error ?? endedAtOnce(this.#source, phase))
    } else if (ending.kind === 'failed' && ending.proven) {
      availability.interrupted(this.#source)
    }
    if (isAbsent) sink.absent()
    if (delayMs > 0) await sleep(clock, delayMs, signal)
  }

  /** Negative once the pause after the last list is over. */
  get #pauseLeftMs(): number {
    const tookMs = this.#listedMs - this.#listBeganMs
    const pauseMs = Math.min(LIST_PAUSE * tookMs, LONGEST_LIST_PAUSE_MS)
    return this.#listedMs + pauseMs - this.#options.clock.monotonicMs()
  }

  /** How long the next list must wait, in milliseconds. Call it once for each failure that requires a list. */
  #listDelayMs(): number {
    const isRepeated = this.#failedEarly
    this.#failedEarly = this.#pauseLeftMs > 0
    return isRepeated ? this.#pauseLeftMs : 0
  }

  #delayMs(wait: RetryPlan<T>['wait'], error: KubeError | undefined): number {
    if (wait === 'none') return 0
    const delayMs = wait === 'short' ? this.#short.next() : this.#long.next()
    const askedMs = error?.code === 'TooManyRequests' ? (error.retryAfterMs ?? 0) : 0
    return Math.max(delayMs, Math.min(askedMs, LONGEST_RETRY_AFTER_MS))
  }
}

/** Names a selection: `services`, or `leases.coordination.k8s.io in kube-system with a=b`. */
export function describeSelection(resource: Resource<KubeObject>, query: Selection = {}): string {
  const { namespace, labelSelector, fieldSelector } = query
  const name = qualifiedPlural(resource)
  const selectors = [labelSelector, fieldSelector].filter((selector) => selector !== undefined && selector !== '')
  const where = namespace === undefined || namespace === '' ? '' : ` in ${namespace}`
  return selectors.length === 0 ? `${name}${where}` : `${name}${where} with ${selectors.join(' and ')}`
}

function errorEvent(source: string, status: Status): KubeError {
  const { reason = 'an ERROR event', code } = status
  const expired = reason === 'Expired' || reason === 'Gone'
  const httpStatus = typeof code === 'number' ? code : expired ? 410 : 500
  return new KubeError(codeOf(httpStatus, reason), `watch ${source}: ${oneLine(reason, 80)}`, { httpStatus, status })
}

function endedAtOnce(source: string, phase: 'streaming' | 'paging' | 'watching'): KubeError {
  return phase === 'paging'
    ? new KubeError('Timeout', `list ${source}: no answer in time`)
    : new KubeError('BadResponse', `watch ${source}: the server closed the watch immediately`)
}

/** Returns a KubeError. Throws any other error, which is a programming error. */
function onlyKubeError(error: unknown): KubeError {
  if (isKubeError(error)) return error
  throw error
}
