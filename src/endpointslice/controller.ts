import { isAwayOrBusy, KubeError } from '../kube/errors.ts'
import { eventOf, referenceIn } from '../kube/event-object.ts'
import type { Change, Followed } from '../kube/informer.ts'
import {
  type EndpointSlice,
  endpointSlices,
  type Node,
  nodes,
  pods,
  type Service,
  services,
} from '../kube/resources.ts'
import { keyOfObject, objectOf, refOfKey } from '../kube/store.ts'
import { getOrMake } from '../runtime/memo.ts'
import { together } from '../runtime/signals.ts'
import { selectsPods, TriggerTimes } from '../workloads/pod-rules.ts'
import {
  ServiceQueue,
  StaleCacheError,
  UNSEEN_MS,
  type WorkloadContext,
  type WorkloadController,
  WritePacing,
  type WritePause,
} from '../workloads/service-queue.ts'
import { trimEndpointSlice, trimNode, trimPod, trimService } from '../workloads/trimmed.ts'
import { leftOutError, SyncFailure } from './desired-endpoints.ts'
import { AwaitedNodes, NodeWatch } from './node-watch.ts'
import { OrphanedSlices } from './orphaned-slices.ts'
import { SlicesMemory } from './plan-cache.ts'
import { ServiceSlices } from './slice-index.ts'
import type { EndpointSliceMetrics } from './slice-metrics.ts'
import { SliceChanges, SliceTracker } from './slice-tracker.ts'
import { SliceWriteError, SliceWriter } from './slice-writer.ts'
import { type AddressTypePlan, managedByController, planSlices, type SlicesInput } from './slices-plan.ts'
import { asksForTopology, trafficDistributionOf } from './topology/hints-plan.ts'
import { TopologyCache } from './topology/topology-cache.ts'

export interface EndpointSliceControllerOptions extends WorkloadContext {
  readonly maxEndpointsPerSlice: number
  /** The metrics of the process. The constructor of the controller resets the gauges, but no counters or histograms. */
  readonly metrics: EndpointSliceMetrics
  /** The pause between two syncs of a Service, by the number of slices that the earlier sync wrote. @default none */
  readonly writePause?: WritePause | undefined
  /**
   * Whether another controller manages the Service with this key (`namespace/name`). This controller creates no slices
   * for such a Service, and deletes existing ones. @default never
   */
  readonly isExcluded?: ((serviceKey: string) => boolean) | undefined
}

/** The back-off of Services whose EndpointSlices cannot be written, as upstream. Times are in milliseconds. */
const retry = { firstMs: 1_000, maxMs: 1_000_000, qps: 10, burst: 100 }
/**
 * The minimum delay of a sync after another client has changed a slice, in milliseconds, so that changes are batched.
 */
const MIN_SLICE_DELAY_MS = 1_000
/** A Service with fewer Pods gets no plan cache, because its plan is cheap. */
const MEMORABLE_PODS = 250

/**
 * Reconciles EndpointSlices with the Pods of each Service that has a selector, for one term of leadership. It never
 * runs two syncs of one Service at a time. Upstream: pkg/controller/endpointslice.
 */
export class EndpointSliceController implements WorkloadController {
  readonly #options: EndpointSliceControllerOptions
  readonly #services: Followed<Service>
  readonly #nodes: Followed<Node>
  readonly #slices: ServiceSlices
  readonly #queue: ServiceQueue
  readonly #writer: SliceWriter
  readonly #orphans: OrphanedSlices
  readonly #changes: SliceChanges
  readonly #nodeWatch: NodeWatch
  readonly #tracker: SliceTracker
  readonly #pacing: WritePacing
  readonly #triggerTimes = new TriggerTimes()
  readonly #topology = new TopologyCache()
  readonly #awaited = new AwaitedNodes()
  /** The plan caches of Services with many Pods, by the key of the Service. */
  readonly #memories = new Map<string, SlicesMemory>()
  /** The {@link NodeWatch.version} at the last plan for each Service, by the key of the Service. */
  readonly #nodesVersions = new Map<string, number>()
  /** Services whose last sync found that the copy of their slices is old. */
  readonly #stale = new Set<string>()

  constructor(options: EndpointSliceControllerOptions) {
    this.#options = options
    const { api, informers, members, metrics, batchPeriodMs } = options
    metrics.reset()
    this.#tracker = new SliceTracker(() => options.clock.monotonicMs())
    this.#pacing = new WritePacing(options.writePause ?? (() => 0))
    this.#services = informers.get(services, { transform: trimService })
    this.#nodes = informers.get(nodes, { transform: trimNode })
    informers.get(pods, { transform: trimPod })
    const slices = informers.get(endpointSlices, { transform: trimEndpointSlice })
    this.#slices = new ServiceSlices({ informer: slices, managedBy: managedByController })
    this.#queue = new ServiceQueue({ ...options, retry })
    this.#writer = new SliceWriter({
      api,
      tracker: this.#tracker,
      written: (operation) => metrics.changed(operation),
      onSliceGone: (key) => this.#queue.add(key, UNSEEN_MS),
    })
    this.#orphans = new OrphanedSlices({ ...options, writer: this.#writer })
    this.#changes = new SliceChanges({
      tracker: this.#tracker,
      manages: (slice) => this.#slices.manages(slice),
      queue: (key) => this.#queue.add(key, Math.max(MIN_SLICE_DELAY_MS, batchPeriodMs)),
    })
    this.#nodeWatch = new NodeWatch({
      nodes: this.#nodes,
      slices: this.#slices,
      topology: this.#topology,
      awaited: this.#awaited,
      queue: (key) => this.#queue.add(key),
    })
    this.#services.subscribe((change) => this.#queue.add(keyOfObject(objectOf(change))))
    members.subscribe((key) => this.#queue.add(key, batchPeriodMs))
    slices.subscribe((change) => this.#sliceChanged(change))
    slices.subscribeToLists((beganMs) => {
      for (const key of this.#tracker.listed(beganMs, (key) => this.#slices.present(key))) this.#queue.add(key)
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#options.informers.whenSynced(signal)
    this.#nodeWatch.check()
    await together(signal, [
      (signal) => this.#nodeWatch.run(signal),
      (signal) => this.#queue.run(signal, (key, signal) => this.#sync(key, signal)),
    ])
  }

  expedite(): void {
    this.#queue.expedite()
  }

  #sliceChanged(change: Change<EndpointSlice>): void {
    for (const key of this.#changes.take(change)) {
      // If the last plan used older Nodes, NodeWatch may have checked the slices of this Service before this change
      // arrived.
      if ((this.#nodesVersions.get(key) ?? this.#nodeWatch.version) !== this.#nodeWatch.version) this.#queue.add(key)
      if (!this.#stale.has(key) || this.#tracker.isStale(key, this.#slices.present(key))) continue
      this.#stale.delete(key)
      this.#queue.caughtUp(key)
    }
  }

  async #sync(key: string, signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#options
    const delayMs = this.#pacing.delayMs(key, clock.monotonicMs())
    if (delayMs > 0) {
      this.#queue.add(key, delayMs)
      return
    }
    this.#stale.delete(key)
    this.#changes.begin(key)
    try {
      await this.#syncService(key, signal)
      metrics.synced('success')
    } catch (error) {
      if (signal.aborted) throw error
      const stale = error instanceof StaleCacheError
      if (stale) this.#stale.add(key)
      metrics.synced(stale ? 'stale' : 'error')
      // An error of the API server is reported as it is, without the SyncFailure around it.
      throw error instanceof SyncFailure && error.cause instanceof KubeError ? error.cause : error
    } finally {
      this.#changes.end(key)
    }
  }

  async #syncService(key: string, signal: AbortSignal): Promise<void> {
    const { clock, events, members, metrics, maxEndpointsPerSlice } = this.#options
    const service = this.#services.store.get(refOfKey(key))
    const slices = this.#slices.present(key)
    if (service === undefined || !selectsPods(service)) {
      if (service === undefined) this.#forget(key)
      else {
        this.#memories.delete(key)
        this.#awaited.set(key, new Set())
      }
      const waitMs = await this.#orphans.collect(key, { service, slices }, signal)
      if (waitMs !== undefined) this.#queue.add(key, waitMs)
      return
    }
    // The rest of this function deletes every slice of an earlier Service with this name, orphan or not.
    this.#orphans.forget(key)
    if (this.#options.isExcluded?.(key)) {
      const errors = await this.#deleteAll(service, slices, signal)
      if (errors.length > 0) throw new SyncFailure(errors)
      return
    }
    this.#slices.requireCurrent(key, slices, this.#tracker)
    const selected = members.podsOf(service)
    const plan = planSlices({
      service,
      pods: selected,
      nodeOf: (name) => this.#nodes.store.get({ name }),
      slices,
      maxEndpointsPerSlice,
      triggerTime: this.#triggerTimes.compute(service, selected),
      topology: this.#topology,
      memory: this.#memoryOf(key, selected.length),
    })
    this.#nodesVersions.set(key, this.#nodeWatch.version)
    const startMs = clock.monotonicMs()
    metrics.planned(key, plan.addressTypes, trafficDistributionOf(service))
    const leftOut = plan.addressTypes.flatMap(({ leftOut }) => leftOut)
    this.#awaited.set(key, new Set(leftOut.map(({ node }) => node)))
    const errors = leftOut.map((pod) => leftOutError(key, pod))
    for (const one of plan.addressTypes) errors.push(...(await this.#execute(service, one, slices, signal)))
    errors.push(...(await this.#deleteAll(service, plan.unsupported, signal)))
    // After a failed write no pause is needed, because the retry has its own back-off.
    if (errors.length === leftOut.length) {
      const writes = plan.addressTypes.reduce((sum, { actions }) => sum + actions.length, plan.unsupported.length)
      this.#pacing.written(key, startMs, writes)
    }
    if (errors.length === 0) return
    // An outage causes no Event: a server that is away or busy could not store it, and `Availability` logs the outage.
    const reported = errors.filter(({ cause }) => !isAwayOrBusy(cause))
    if (reported.length > 0) {
      const note = `Error updating Endpoint Slices for Service ${key}: ${new SyncFailure(reported).message}`
      events.record(eventOf('FailedToUpdateEndpointSlices', { regarding: referenceIn(services, service), note }))
    }
    throw new SyncFailure(errors)
  }

  /** Deletes as many slices as possible. Returns an error for each slice whose deletion failed. */
  async #deleteAll(service: Service, slices: readonly EndpointSlice[], signal: AbortSignal): Promise<readonly Error[]> {
    const errors: Error[] = []
    for (const slice of slices) {
      errors.push(...(await failuresOf(this.#writer.deleteUnwanted(service, slice, signal))))
    }
    return errors
  }

  async #execute(
    service: Service,
    plan: AddressTypePlan,
    slices: readonly EndpointSlice[],
    signal: AbortSignal,
  ): Promise<readonly Error[]> {
    const { events, metrics } = this.#options
    const failures = await failuresOf(
      this.#writer.execute(service, plan.actions, slices, signal).then((complete) => {
        if (!complete) return
        const topology = asksForTopology(service) ? 'Auto' : 'Disabled'
        metrics.finished(plan.changed, topology, trafficDistributionOf(service))
      }),
    )
    for (const { reason, note } of plan.events) {
      events.record(eventOf(reason, { regarding: referenceIn(services, service), note }))
    }
    return failures
  }

  #memoryOf(key: string, pods: number): SlicesInput['memory'] {
    if (pods < MEMORABLE_PODS) {
      this.#memories.delete(key)
      return undefined
    }
    const memory = getOrMake(this.#memories, key, () => new SlicesMemory())
    return { memory, nodesVersion: this.#nodeWatch.version }
  }

  #forget(key: string): void {
    this.#memories.delete(key)
    this.#nodesVersions.delete(key)
    this.#pacing.delete(key)
    this.#triggerTimes.delete(key)
    this.#options.metrics.deleteService(key)
    this.#tracker.deleteService(key)
    this.#awaited.set(key, new Set())
    for (const addressType of ['IPv4', 'IPv6'] as const) this.#topology.removeHints(key, addressType)
  }
}

/** The SliceWriteError of failed writes, as a list; an empty list if they succeed. Rejects with every other error. */
async function failuresOf(writes: Promise<unknown>): Promise<readonly Error[]> {
  try {
    await writes
    return []
  } catch (error) {
    if (error instanceof SliceWriteError) return [error]
    throw error
  }
}
