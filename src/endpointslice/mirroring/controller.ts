import { eventOf, referenceIn } from '../../kube/event-object.ts'
import type { Change, Followed } from '../../kube/informer.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints as endpointsResource,
  type Service,
  services,
} from '../../kube/resources.ts'
import { after, before, keyOfObject, objectOf, refOfKey } from '../../kube/store.ts'
import {
  ServiceQueue,
  StaleCacheError,
  UNSEEN_MS,
  type WorkloadContext,
  type WorkloadController,
} from '../../workloads/service-queue.ts'
import { trimEndpointSlice, trimEndpoints, trimService } from '../../workloads/trimmed.ts'
import type { SliceAction } from '../slice-actions.ts'
import { ServiceSlices } from '../slice-index.ts'
import { SliceChanges, SliceTracker } from '../slice-tracker.ts'
import { SliceWriteError, SliceWriter } from '../slice-writer.ts'
import { hasSelector, type MirrorEvent, mayBeMirrored, mirroringManager, planMirror } from './mirror-plan.ts'
import type { MirroringMetrics } from './mirroring-metrics.ts'

/** As upstream, `batchPeriodMs` applies only to changes of slices. Changes of Endpoints are mirrored at once. */
export interface EndpointSliceMirroringOptions extends WorkloadContext {
  readonly maxEndpointsPerSubset: number
  /** The metrics of the process. The constructor resets the gauges; counters and histograms continue. */
  readonly metrics: MirroringMetrics
  /**
   * Whether another controller manages the Service with this key (`namespace/name`). The Endpoints of such a Service
   * are not mirrored, and its mirrored slices are deleted. `endpoints`: the Endpoints as last received. @default never
   */
  readonly isExcluded?: ((serviceKey: string, endpoints: Endpoints | undefined) => boolean) | undefined
}

/** The back-off of Endpoints that cannot be mirrored, as upstream. Times are in milliseconds. */
const retry = { firstMs: 1_000, maxMs: 100_000, qps: 10, burst: 100 }

/**
 * Mirrors the Endpoints of Services without a selector to EndpointSlices, for one term of leadership. It never runs two
 * syncs of one Service at a time. Upstream: pkg/controller/endpointslicemirroring.
 */
export class EndpointSliceMirroringController implements WorkloadController {
  readonly #options: EndpointSliceMirroringOptions
  readonly #services: Followed<Service>
  readonly #endpoints: Followed<Endpoints>
  readonly #slices: ServiceSlices
  readonly #queue: ServiceQueue
  readonly #writer: SliceWriter
  readonly #changes: SliceChanges
  readonly #tracker: SliceTracker
  /** Services whose last sync found that the copy of their slices is old. */
  readonly #stale = new Set<string>()

  constructor(options: EndpointSliceMirroringOptions) {
    this.#options = options
    const { api, informers, metrics, batchPeriodMs } = options
    metrics.reset()
    this.#tracker = new SliceTracker(() => options.clock.monotonicMs())
    this.#services = informers.get(services, { transform: trimService })
    this.#endpoints = informers.get(endpointsResource, { transform: trimEndpoints })
    const slices = informers.get(endpointSlices, { transform: trimEndpointSlice })
    this.#slices = new ServiceSlices({ informer: slices, managedBy: mirroringManager })
    this.#queue = new ServiceQueue({ ...options, retry })
    this.#writer = new SliceWriter({
      api,
      tracker: this.#tracker,
      written: (operation) => metrics.written(operation),
      onSliceGone: (key) => this.#queue.add(key, UNSEEN_MS),
    })
    this.#changes = new SliceChanges({
      tracker: this.#tracker,
      manages: (slice) => this.#slices.manages(slice),
      queue: (key) => this.#queue.add(key, batchPeriodMs),
    })
    this.#services.subscribe((change) => {
      if (isOfInterest(change)) this.#queue.add(keyOfObject(objectOf(change)))
    })
    this.#endpoints.subscribe((change) => this.#endpointsChanged(change))
    slices.subscribe((change) => this.#sliceChanged(change))
    slices.subscribeToLists((beganMs) => {
      for (const key of this.#tracker.listed(beganMs, (key) => this.#slices.present(key))) this.#queue.add(key)
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#options.informers.whenSynced(signal)
    await this.#queue.run(signal, (key, signal) => this.#sync(key, signal))
  }

  expedite(): void {
    this.#queue.expedite()
  }

  #endpointsChanged(change: Change<Endpoints>): void {
    if (!mayBeMirrored(before(change)) && !mayBeMirrored(after(change))) return
    const key = keyOfObject(objectOf(change))
    // Most Endpoints belong to Services with a selector. Such Endpoints are not mirrored, so their changes need no
    // sync.
    const service = this.#services.store.get(refOfKey(key))
    const idle = service !== undefined && hasSelector(service) && this.#slices.of(key).length === 0
    if (!idle || this.#options.metrics.knows(key)) this.#queue.add(key)
  }

  #sliceChanged(change: Change<EndpointSlice>): void {
    for (const key of this.#changes.take(change)) {
      if (!this.#stale.has(key) || this.#tracker.isStale(key, this.#slices.present(key))) continue
      this.#stale.delete(key)
      this.#queue.caughtUp(key)
    }
  }

  async #sync(key: string, signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#options
    const startMs = clock.monotonicMs()
    this.#stale.delete(key)
    this.#changes.begin(key)
    try {
      await this.#mirror(key, signal)
    } catch (error) {
      if (error instanceof StaleCacheError) this.#stale.add(key)
      throw error
    } finally {
      this.#changes.end(key)
      metrics.synced((clock.monotonicMs() - startMs) / 1_000)
    }
  }

  async #mirror(key: string, signal: AbortSignal): Promise<void> {
    const { metrics, maxEndpointsPerSubset } = this.#options
    const ref = refOfKey(key)
    const present = this.#endpoints.store.get(ref)
    const endpoints = this.#options.isExcluded?.(key, present) ? undefined : present
    const slices = this.#slices.present(key)
    const plan = planMirror({ endpoints, service: this.#services.store.get(ref), slices, maxEndpointsPerSubset })
    if (plan.type === 'withdrawn') {
      this.#tracker.deleteService(key)
      metrics.forget(key)
      await this.#deleteAll(key, plan.actions, signal)
      return
    }
    this.#slices.requireCurrent(key, slices, this.#tracker)
    this.#recordEvents(endpoints, plan.events)
    metrics.planned(key, plan.tally, maxEndpointsPerSubset)
    for (const slice of plan.unchanged) if (!this.#tracker.has(slice)) this.#tracker.update(slice)
    await this.#write(key, plan.actions, slices, signal)
  }

  #recordEvents(endpoints: Endpoints | undefined, events: readonly MirrorEvent[]): void {
    const regarding = referenceIn(endpointsResource, endpoints)
    for (const { reason, note } of events) this.#options.events.record(eventOf(reason, { regarding, note }))
  }

  /** Deletes as many slices as possible. Rejects with the first failure after the last attempt. */
  async #deleteAll(key: string, actions: readonly SliceAction[], signal: AbortSignal): Promise<void> {
    const failures: unknown[] = []
    for (const action of actions) {
      try {
        await this.#write(key, [action], [], signal)
      } catch (error) {
        if (signal.aborted) throw error
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  async #write(
    key: string,
    actions: readonly SliceAction[],
    slices: readonly EndpointSlice[],
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await this.#writer.execute({ metadata: refOfKey(key) }, actions, slices, signal)
    } catch (error) {
      // An error of the API server is reported as it is, without the SliceWriteError around it.
      throw error instanceof SliceWriteError ? error.cause : error
    }
  }
}

/** Whether a change of a Service may begin or end the mirroring of its Endpoints. */
function isOfInterest(change: Change<Service>): boolean {
  return lacksSelector(before(change)) !== lacksSelector(after(change))
}

function lacksSelector(service: Service | undefined): boolean {
  return service !== undefined && !hasSelector(service)
}
