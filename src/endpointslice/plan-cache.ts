import type { EndpointSlice, Pod, Service } from '../kube/resources.ts'
import { DesiredEndpoints, type DesiredEndpointsOptions } from './desired-endpoints.ts'
import type { AddressType } from './slice.ts'

interface MemoryInput extends DesiredEndpointsOptions {
  readonly pods: readonly Pod[]
  /** Changes whenever a Node appears, disappears or moves to another zone. */
  readonly nodesVersion: number
}

interface Remembered {
  readonly service: Service
  readonly nodesVersion: number
  readonly desired: DesiredEndpoints
  /** The slices in sync, by the keys of their ports. */
  readonly settled: Map<string, InSyncSlices>
  pods: readonly Pod[]
}

/** The results of the last plan for a Service, so that the next plan checks only what has changed since. */
export class SlicesMemory {
  readonly #known = new Map<AddressType, Remembered>()

  /** The state of an address type for this input: the cached state, updated with the Pods, or a new state. */
  recall(input: MemoryInput): Remembered {
    const known = this.#known.get(input.addressType)
    if (known !== undefined && update(known, input)) return known
    const { service, nodesVersion, pods } = input
    const fresh = { service, nodesVersion, desired: new DesiredEndpoints(input, pods), settled: new Map(), pods }
    this.#known.set(input.addressType, fresh)
    return fresh
  }
}

/** Updates the cached state. Returns false if a new state must be computed, or is cheaper than the update. */
function update(known: Remembered, { service, nodesVersion, pods }: MemoryInput): boolean {
  const { desired, settled } = known
  if (known.service !== service || known.nodesVersion !== nodesVersion || desired.leftOut.length > 0) return false
  const changes = changedPods(known.pods, pods)
  if (changes === undefined) return false
  const disturb = (pod: Pod): void => {
    for (const slices of settled.values()) slices.disturb(pod.metadata?.name ?? '')
  }
  for (const pod of changes.removed) {
    desired.remove(pod)
    disturb(pod)
  }
  for (const pod of changes.added) desired.add(pod)
  for (const key of settled.keys()) if (!desired.groups.has(key)) settled.delete(key)
  known.pods = pods
  return true
}

/**
 * The Pods whose objects are in only one of the lists. The lists should have about the same order: a Pod that has moved
 * within its list may be in both results. Undefined if more than a quarter of the Pods in `before` are removed or
 * replaced.
 */
function changedPods(
  before: readonly Pod[],
  after: readonly Pod[],
): { readonly removed: readonly Pod[]; readonly added: readonly Pod[] } | undefined {
  const removed: Pod[] = []
  const added: Pod[] = []
  let next = 0
  for (const pod of before) {
    const other = after[next]
    if (other === pod) next++
    else {
      removed.push(pod)
      if (other !== undefined && other.metadata?.name === pod.metadata?.name) {
        added.push(other)
        next++
      }
      if (removed.length * 4 > before.length) return undefined
    }
  }
  for (; next < after.length; next++) added.push(after[next] as Pod)
  return { removed, added }
}

/**
 * The slices of a group that the last plan found in sync: each has the desired labels and only desired endpoints, none
 * of them twice. Such a slice needs no check until it is replaced by another object or one of its endpoints changes.
 */
export class InSyncSlices {
  /** The slice that holds the endpoint of each Pod, by the name of the Pod. */
  readonly #homes = new Map<string, EndpointSlice>()
  readonly #pods = new Map<EndpointSlice, readonly string[]>()

  /** How many endpoints these slices hold. */
  get endpoints(): number {
    return this.#homes.size
  }

  has(slice: EndpointSlice): boolean {
    return this.#pods.has(slice)
  }

  holds(pod: string): boolean {
    return this.#homes.has(pod)
  }

  /** Adds a slice that was found in sync, with the endpoints of these Pods. */
  settle(slice: EndpointSlice, pods: readonly string[]): void {
    this.#pods.set(slice, pods)
    for (const pod of pods) this.#homes.set(pod, slice)
  }

  /** Forgets the slice that holds the endpoint of a Pod, because the endpoint has changed or is gone. */
  disturb(pod: string): void {
    const home = this.#homes.get(pod)
    if (home !== undefined) this.#unsettle(home)
  }

  retain(slices: readonly EndpointSlice[]): void {
    const present = new Set(slices)
    for (const slice of this.#pods.keys()) if (!present.has(slice)) this.#unsettle(slice)
  }

  #unsettle(slice: EndpointSlice): void {
    for (const pod of this.#pods.get(slice) ?? []) this.#homes.delete(pod)
    this.#pods.delete(slice)
  }
}
