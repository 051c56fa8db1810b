import type { Cancel } from '../runtime/clock.ts'
import { RemoteError } from '../runtime/errors.ts'
import type { Counter, Metrics } from '../telemetry/metrics.ts'
import { noOutages } from '../telemetry/outages.ts'
import type { ObjectRef } from './api.ts'
import type { AvailabilityReporter } from './availability.ts'
import { ifFound } from './errors.ts'
import { Informer, type InformerContext } from './informer.ts'
import { isNewer, type KubeObject, type Resource } from './resources.ts'
import { keyOf } from './store.ts'

/** A watch event that is more than this many milliseconds late counts as lost. */
const LATE_MS = 2_000

interface FollowedObjectOptions<T extends KubeObject> extends InformerContext {
  readonly metrics: Metrics
  readonly availability: AvailabilityReporter
  readonly resource: Resource<T>
  readonly ref: ObjectRef
  /** Called when {@link FollowedObject.current} may have changed. */
  readonly onChange: () => void
}

/**
 * One object, which a watch follows and the owner also reads live from time to time, by {@link readLive}.
 *
 * A watch may lose an event and still deliver later ones, even bookmarks. A live read finds such a loss. Its result
 * then counts until the next watch event; if no event comes within two seconds, the watch is restarted, but not twice
 * at the same resourceVersion.
 */
export class FollowedObject<T extends KubeObject> {
  readonly #options: FollowedObjectOptions<T>
  readonly #key: string
  readonly #informer: Informer<T>
  readonly #missed: Counter<'resource'>
  /** The result of a live read that the watch has not delivered. The next watch event clears this. */
  #read: { readonly live: T | undefined } | undefined
  #events = 0
  /**
   * The value of {@link #events} when a live read was older than {@link current}; undefined if the last read was not.
   */
  #outdated: number | undefined
  /** The resourceVersion of the watched object when the watch was restarted; undefined since the next event. */
  #restarted: { readonly cachedVersion: string | undefined } | undefined
  /** Cancels the restart of the watch; undefined while none is due. */
  #late: Cancel | undefined

  constructor(options: FollowedObjectOptions<T>) {
    const { ref, onChange, metrics } = options
    this.#options = options
    this.#key = keyOf(ref)
    // The selection by name needs no rights to the whole namespace.
    const query = { namespace: ref.namespace, fieldSelector: `metadata.name=${ref.name}` }
    this.#informer = new Informer<T>({ ...options, query })
    this.#informer.subscribe(() => {
      this.#events++
      this.#read = undefined
      this.#restarted = undefined
      onChange()
    })
    this.#missed = metrics.counter({
      name: 'apiserver_bootstrap_watch_missed_total',
      help: 'Restarts of watches of managed objects, because a live read found a change that the watch did not deliver within two seconds, or found an older state twice.',
      labels: ['resource'],
    })
  }

  /** The object as last received; undefined if it does not exist or nothing was received yet. */
  get current(): T | undefined {
    return this.#read === undefined ? this.#cached : this.#read.live
  }

  get hasSynced(): boolean {
    return this.#informer.hasSynced
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#informer.run(signal)
  }

  /** Resolves when {@link current} is known. Rejects with the signal's reason. */
  whenSynced(signal: AbortSignal): Promise<void> {
    return this.#informer.whenSynced(signal)
  }

  /** Reads the object live. If the request fails, {@link current} does not change. Rejects with the signal's reason. */
  async readLive(signal: AbortSignal): Promise<void> {
    const { api, availability, resource, ref, onChange } = this.#options
    const source = `live ${resource.plural}`
    const events = this.#events
    let live: T | undefined
    try {
      live = await ifFound(api.get(resource, ref, { signal }))
    } catch (error) {
      if (!(error instanceof RemoteError)) throw error
      // An outage is not reported here, because the watch reports it, and notices the end sooner.
      if (error.nature !== 'away') availability.failed(source, error)
      return
    }
    availability.succeeded(source)
    // The watch may meanwhile have delivered a newer state than the answer.
    if (this.#events !== events) return
    // One old answer may come from a server that lags. A second one without an event in between may mean that the store
    // was restored from a backup: the watch then stays silent until the store has reached the revision at which the
    // watch began. The caches of an API server that was not restarted are as old as the watch.
    if (isNewer(this.current, live) && this.#outdated !== events) {
      this.#outdated = events
      return
    }
    this.#outdated = undefined
    const isKnown = isSame(this.current, live)
    this.#read = isSame(this.#cached, live) ? undefined : { live }
    if (!isKnown) onChange()
    // One timer for all reads, because reads in short intervals must not delay the restart.
    if (this.#read !== undefined) this.#late ??= this.#restartIfLate(signal)
  }

  /**
   * Restarts the watch after {@link LATE_MS}, unless the watch delivers something before, or the signal is aborted.
   * Returns a function that cancels this.
   */
  #restartIfLate(signal: AbortSignal): Cancel {
    const events = this.#events
    const end = (): void => {
      cancel()
      signal.removeEventListener('abort', end)
      this.#late = undefined
    }
    const cancel = this.#options.clock.schedule(LATE_MS, () => {
      end()
      if (this.#read !== undefined && this.#events === events) this.#startAnew(this.#read.live)
    })
    signal.addEventListener('abort', end, { once: true })
    return end
  }

  #startAnew(live: T | undefined): void {
    const { logger, availability, resource, ref } = this.#options
    const [cachedVersion, storedVersion] = [this.#cached, live].map((object) => object?.metadata?.resourceVersion)
    // The last restart did not help: the server's own caches differ from its store. Live reads continue.
    if (this.#restarted !== undefined && this.#restarted.cachedVersion === cachedVersion) return
    this.#restarted = { cachedVersion }
    this.#missed.add({ resource: resource.plural })
    const fields = { resource: resource.plural, name: ref.name, cachedVersion, storedVersion }
    const message = 'a watch differs from the stored object; restarting the watch'
    const { outages = noOutages } = availability
    outages.consequence(logger, fields, message)
    this.#informer.restart()
  }

  get #cached(): T | undefined {
    return this.#informer.store.at(this.#key)
  }
}

function isSame(a: KubeObject | undefined, b: KubeObject | undefined): boolean {
  return a?.metadata?.uid === b?.metadata?.uid && a?.metadata?.resourceVersion === b?.metadata?.resourceVersion
}
