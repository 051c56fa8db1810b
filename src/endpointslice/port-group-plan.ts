import type { EndpointSlice } from '../kube/resources.ts'
import { isSameEndpoint, isUnchanged } from './endpoint-identity.ts'
import type { Endpoint } from './pod-endpoint.ts'
import type { SettledSlices } from './settled-slices.ts'
import { type Labels, labelsDiffer } from './slice-labels.ts'

/** The slices of a Service that have the same ports, and the endpoints that shall have these ports. */
export interface PortGroup {
  readonly existing: readonly EndpointSlice[]
  /** By the names of their Pods, which are of the Service's namespace. */
  readonly desired: ReadonlyMap<string, Endpoint>
  readonly maxEndpointsPerSlice: number
  /** What the slices shall bear. */
  readonly labels: Labels
  /** Which of the slices need no look. All it says is taken for true. */
  readonly settled?: SettledSlices | undefined
  /** Makes a new slice of the group. */
  readonly make: (endpoints: readonly Endpoint[]) => EndpointSlice
}

export interface PortGroupPlan {
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly remove: readonly EndpointSlice[]
  /** How many endpoints no slice had. */
  readonly added: number
  /** How many endpoints slices had that shall not be. */
  readonly removed: number
}

/** A slice that is to be written, as it grows. */
interface Draft {
  readonly slice: EndpointSlice
  readonly endpoints: Endpoint[]
  readonly labels: Labels | undefined
}

/**
 * Decides what must change so that the slices of a group hold exactly the desired endpoints, each once, with few writes rather than well packed
 * (upstream's `reconcileByPortMapping`):
 *
 * 1. what shall not be goes, what has changed is replaced; a slice that becomes empty by that is deleted;
 * 2. slices that have to be written anyway are filled with what is missing, the fullest first;
 * 3. what is still missing fills new slices; a rest goes into that one of the other slices that it fills best, or into a new one.
 */
export function planPortGroup(group: PortGroup): PortGroupPlan {
  const { existing, desired, maxEndpointsPerSlice: max, labels, settled } = group
  const placed = new Set<string>()
  const drafts: Draft[] = []
  const unchanged: EndpointSlice[] = []
  const remove: EndpointSlice[] = []
  const found: (readonly [slice: EndpointSlice, pods: readonly string[]])[] = []
  let removed = 0

  settled?.retain(existing)
  for (const slice of existing) {
    if (settled?.has(slice)) {
      unchanged.push(slice)
      continue
    }
    const present = slice.endpoints ?? []
    const kept: Endpoint[] = []
    const pods: string[] = []
    let changed = false
    for (const endpoint of present) {
      const name = endpoint.targetRef?.name ?? ''
      const wanted = desired.get(name)
      if (wanted === undefined || !isSameEndpoint(wanted, endpoint)) continue
      // The same endpoint further on, or in another slice, is one too many.
      if (placed.has(name) || settled?.holds(name)) continue
      placed.add(name)
      kept.push(wanted)
      pods.push(name)
      changed ||= !isUnchanged(wanted, endpoint)
    }
    removed += present.length - kept.length
    if (changed || kept.length !== present.length) {
      if (kept.length === 0) remove.push(slice)
      else drafts.push({ slice, endpoints: kept, labels })
    } else if (labelsDiffer(slice, labels)) drafts.push({ slice, endpoints: [...present], labels })
    else {
      unchanged.push(slice)
      found.push([slice, pods])
    }
  }

  const added = desired.size - placed.size - (settled?.endpoints ?? 0)
  const rest: Endpoint[] = []
  if (added > 0) {
    for (const [name, endpoint] of desired) if (!placed.has(name) && !settled?.holds(name)) rest.push(endpoint)
  }
  if (settled !== undefined) for (const [slice, pods] of found) settled.settle(slice, pods)
  const take = (count: number): Endpoint[] => rest.splice(Math.max(0, rest.length - count), count)

  if (rest.length > 0) {
    for (const { endpoints } of drafts.toSorted((a, b) => b.endpoints.length - a.endpoints.length)) {
      endpoints.push(...take(Math.max(0, max - endpoints.length)))
    }
  }

  const create: EndpointSlice[] = []
  while (rest.length > 0) {
    const fitting = rest.length < max ? sliceToFill(unchanged, rest.length, max) : undefined
    if (fitting === undefined) create.push(group.make(take(max)))
    else drafts.push({ slice: fitting, endpoints: [...(fitting.endpoints ?? []), ...take(max)], labels: undefined })
  }
  return { create, update: drafts.map(written), remove, added, removed }
}

/** The slice that will be the closest to full with so many endpoints more; undefined where they do not fit into any. */
export function sliceToFill(
  slices: readonly EndpointSlice[],
  endpoints: number,
  max: number,
): EndpointSlice | undefined {
  let closest: EndpointSlice | undefined
  let least = max
  for (const slice of slices) {
    const room = max - endpoints - (slice.endpoints?.length ?? 0)
    if (room < 0 || room >= least) continue
    least = room
    closest = slice
  }
  return closest
}

/** The slice as it shall be: what else it has stays. */
function written({ slice, endpoints, labels }: Draft): EndpointSlice {
  return labels === undefined
    ? { ...slice, endpoints }
    : { ...slice, metadata: { ...slice.metadata, labels }, endpoints }
}
