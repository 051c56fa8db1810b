import type { Followed } from '../kube/informer.ts'
import { type EndpointSlice, isBeingDeleted } from '../kube/resources.ts'
import { getOrMake } from '../runtime/memo.ts'
import { StaleCacheError } from '../workloads/service-queue.ts'
import { managedByLabel, serviceKeyOf } from './slice.ts'
import type { SliceTracker } from './slice-tracker.ts'

export interface ServiceSlicesOptions {
  readonly informer: Followed<EndpointSlice>
  /** The value of the label `endpointslice.kubernetes.io/managed-by` of the slices to index. */
  readonly managedBy: string
}

/**
 * The slices of one controller, by the Service that they name. Create it before the controller subscribes to the
 * informer, so that the controller's handlers and syncs see the same state here as in the informer's store.
 */
export class ServiceSlices {
  readonly #informer: Followed<EndpointSlice>
  readonly #managedBy: string
  /** By the key of the Service, then by the name of the slice. */
  readonly #slices = new Map<string, Map<string, EndpointSlice>>()

  constructor(options: ServiceSlicesOptions) {
    this.#informer = options.informer
    this.#managedBy = options.managedBy
    options.informer.subscribe((change) => {
      const before = change.type === 'added' ? undefined : this.#keyOf(change.old)
      const after = change.type === 'deleted' ? undefined : this.#keyOf(change.object)
      if (change.type !== 'added' && before !== undefined && before !== after) this.#remove(before, change.old)
      if (change.type !== 'deleted' && after !== undefined) this.#add(after, change.object)
    })
  }

  manages(slice: EndpointSlice): boolean {
    return slice.metadata?.labels?.[managedByLabel] === this.#managedBy
  }

  /** The slices of this controller that name the Service with this key. */
  of(serviceKey: string): readonly EndpointSlice[] {
    return [...(this.#slices.get(serviceKey)?.values() ?? [])]
  }

  /** The same as {@link of}, without the slices that are being deleted, which a finalizer may preserve for long. */
  present(serviceKey: string): readonly EndpointSlice[] {
    return this.of(serviceKey).filter((slice) => !isBeingDeleted(slice))
  }

  /** The keys of the Services that slices name, each with its slices by name. */
  entries(): Iterable<readonly [serviceKey: string, slices: ReadonlyMap<string, EndpointSlice>]> {
    return this.#slices
  }

  /**
   * Checks that `slices`, the copy of a Service's slices, has the recent writes of this process.
   * @throws StaleCacheError if a write is missing; before that, restarts the informer if the watch is dead.
   */
  requireCurrent(serviceKey: string, slices: readonly EndpointSlice[], tracker: SliceTracker): void {
    if (!tracker.isStale(serviceKey, slices)) return
    this.#informer.restartIfDead(tracker.answeredMs(serviceKey, slices))
    throw new StaleCacheError(`the cached copy of the EndpointSlices of ${serviceKey} is stale`)
  }

  #add(key: string, slice: EndpointSlice): void {
    getOrMake(this.#slices, key, () => new Map()).set(slice.metadata?.name ?? '', slice)
  }

  #remove(key: string, slice: EndpointSlice): void {
    const slices = this.#slices.get(key)
    slices?.delete(slice.metadata?.name ?? '')
    if (slices?.size === 0) this.#slices.delete(key)
  }

  #keyOf(slice: EndpointSlice): string | undefined {
    return this.manages(slice) ? serviceKeyOf(slice) : undefined
  }
}
