import { ifFound } from '../kube/errors.ts'
import type { Change, Followed } from '../kube/informer.ts'
import { type Endpoints, endpoints, type Service, services } from '../kube/resources.ts'
import { keyOfObject, objectOf, refOfKey } from '../kube/store.ts'
import { selectsPods, TriggerTimes } from '../workloads/pod-rules.ts'
import {
  ServiceQueue,
  StaleCacheError,
  type WorkloadContext,
  type WorkloadController,
  WritePacing,
  type WritePause,
} from '../workloads/service-queue.ts'
import { trimEndpoints, trimService } from '../workloads/trimmed.ts'
import { countAddresses, isMadeFromPods, planEndpoints } from './endpoints-plan.ts'
import { EndpointsTracker, EndpointsWriter } from './endpoints-writer.ts'

/** The annotation of Endpoints that are the lock of a leader election. Such Endpoints may have no Service. */
const leaderElection = 'control-plane.alpha.kubernetes.io/leader'

export interface EndpointsControllerOptions extends WorkloadContext {
  /**
   * The pause between two writes for a Service, by the number of addresses that the earlier one wrote. @default none
   */
  readonly writePause?: WritePause | undefined
  /**
   * Whether another controller manages the Endpoints with this key (`namespace/name`). This controller then neither
   * writes nor deletes them. `current`: the Endpoints as last received. @default never
   */
  readonly isExcluded?: ((key: string, current: Endpoints | undefined) => boolean) | undefined
}

/**
 * Manages the Endpoints of Services with a selector, as kube-controller-manager's endpoints-controller does
 * (pkg/controller/endpoint), and deletes the Endpoints of deleted Services.
 *
 * Plans from the copies of the informers. The resourceVersion guards each update; the uid and, if known, the
 * resourceVersion guard each deletion. After a write, the next sync of the Service waits until the copy has caught up.
 * If the controller did not see the deletion of a Service, it asks the API server whether the Service exists before it
 * deletes the Endpoints.
 */
export class EndpointsController implements WorkloadController {
  readonly #options: EndpointsControllerOptions
  readonly #services: Followed<Service>
  readonly #endpoints: Followed<Endpoints>
  readonly #queue: ServiceQueue
  readonly #triggerTimes = new TriggerTimes()
  readonly #tracker = new EndpointsTracker()
  readonly #pacing: WritePacing
  readonly #writer: EndpointsWriter
  /** Services that were deleted since their last sync. New Services of the same names may already exist. */
  readonly #deleted = new Set<string>()

  constructor(options: EndpointsControllerOptions) {
    const { informers, members, batchPeriodMs } = options
    this.#options = options
    this.#services = informers.get(services, { transform: trimService })
    this.#endpoints = informers.get(endpoints, { transform: trimEndpoints })
    this.#queue = new ServiceQueue(options)
    this.#pacing = new WritePacing(options.writePause ?? (() => 0))
    this.#writer = new EndpointsWriter({ ...options, tracker: this.#tracker, copy: this.#endpoints.store })
    this.#services.subscribe((change) => this.#serviceChanged(change))
    members.subscribe((key) => this.#queue.add(key, batchPeriodMs))
    this.#endpoints.subscribe((change) => this.#endpointsChanged(change))
    this.#endpoints.subscribeToLists((beganMs) => {
      for (const key of this.#tracker.listed(beganMs, (key) => this.#endpoints.store.at(key))) this.#queue.add(key)
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#options.informers.whenSynced(signal)
    this.#addLeftovers()
    await this.#queue.run(signal, (key, signal) => this.#sync(key, signal))
  }

  expedite(): void {
    this.#queue.expedite()
  }

  #serviceChanged(change: Change<Service>): void {
    const key = keyOfObject(objectOf(change))
    if (change.type === 'deleted') this.#deleted.add(key)
    this.#queue.add(key)
  }

  #endpointsChanged(change: Change<Endpoints>): void {
    const object = objectOf(change)
    const key = keyOfObject(object)
    this.#tracker.observed(key)
    this.#queue.caughtUp(key)
    // If the answer to the creation of these Endpoints was lost, the sync after the Service's deletion did not know
    // them.
    const isLate = change.type === 'added' && this.#services.store.at(key) === undefined && isMadeFromPods(object)
    if (change.type === 'deleted' || isLate) this.#queue.add(key)
  }

  /**
   * Queues Endpoints without a Service, which may have been deleted while no controller ran. Omits the locks of leader
   * elections.
   */
  #addLeftovers(): void {
    for (const object of this.#endpoints.store.list()) {
      const key = keyOfObject(object)
      if (this.#services.store.at(key) !== undefined) continue
      if (object.metadata?.annotations?.[leaderElection] === undefined) this.#queue.add(key)
    }
  }

  async #sync(key: string, signal: AbortSignal): Promise<void> {
    const { members, clock, isExcluded } = this.#options
    const ref = refOfKey(key)
    const current = this.#endpoints.store.get(ref)
    if (isExcluded?.(key, current) === true) return
    const service = this.#services.store.get(ref)
    if (service === undefined) {
      const isKnownGone =
        current === undefined || this.#deleted.has(key) || this.#tracker.isDeleted(key, current, clock.monotonicMs())
      if (!isKnownGone && !(await this.#isGone(key, signal))) return
      await this.#deleteLeftover(key, this.#endpoints.store.get(ref), signal)
      this.#deleted.delete(key)
      return
    }
    if (!selectsPods(service)) {
      // The Service has replaced a deleted one. These Endpoints would list the Pods of the deleted Service for ever.
      const isLeftover = current !== undefined && this.#deleted.has(key) && isMadeFromPods(current)
      if (isLeftover) await this.#deleteLeftover(key, current, signal)
      this.#deleted.delete(key)
      return
    }
    this.#deleted.delete(key)
    const nowMs = clock.monotonicMs()
    const delayMs = this.#pacing.delayMs(key, nowMs)
    if (delayMs > 0) {
      this.#queue.add(key, delayMs)
      return
    }
    if (this.#tracker.isStale(key, current, nowMs)) {
      this.#endpoints.restartIfDead(this.#tracker.answeredMs(key))
      throw new StaleCacheError(`the cached copy of Endpoints ${key} is stale`)
    }
    const pods = members.podsOf(service)
    // The trigger time is computed even if nothing is written, because a change counts for one sync only.
    const triggerTime = this.#triggerTimes.compute(service, pods)
    const action = planEndpoints({ service, pods, current, triggerTime })
    if (action.type === 'none') return
    await this.#writer.write(action, current, signal)
    // A failed write, which throws, needs no pause: its retry has a back-off.
    this.#pacing.written(key, nowMs, countAddresses(action.endpoints.subsets ?? []))
  }

  /**
   * Whether a Service that the copy lacks is gone from the server too. If the Service exists, its event queues the key.
   */
  async #isGone(key: string, signal: AbortSignal): Promise<boolean> {
    const ref = refOfKey(key)
    const live = await ifFound(this.#options.api.get(services, ref, { signal }))
    return live === undefined && this.#services.store.get(ref) === undefined
  }

  async #deleteLeftover(key: string, current: Endpoints | undefined, signal: AbortSignal): Promise<void> {
    this.#triggerTimes.delete(key)
    this.#pacing.delete(key)
    if (this.#tracker.isDeleted(key, current, this.#options.clock.monotonicMs()))
      throw new StaleCacheError(`Endpoints ${key} are deleted, but the cached copy still has them`)
    const action = planEndpoints({ service: undefined, pods: [], current: current ?? this.#tracker.unseen(key) })
    if (action.type === 'none') this.#tracker.delete(key)
    else await this.#writer.write(action, current, signal)
  }
}
