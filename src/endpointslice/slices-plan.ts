import type { EndpointSlice, Node, Pod, Service } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import { getOrMake } from '../runtime/memo.ts'
import { refuseManyPortPairs } from '../workloads/pod-rules.ts'
import { DesiredEndpoints, type LeftOutPod } from './desired-endpoints.ts'
import { type Endpoint, isSameEndpoint, isUnchanged } from './endpoint.ts'
import { InSyncSlices, type SlicesMemory } from './plan-cache.ts'
import {
  type AddressType,
  addressTypesOf,
  type HintsEvent,
  type Labels,
  labelsDiffer,
  labelsOfSlices,
  portsKey,
  type SliceWrites,
} from './slice.ts'
import { isOwnedBy, newSlice, planWrites, type SliceAction } from './slice-actions.ts'
import { decideHints } from './topology/hints-plan.ts'
import type { TopologyCache } from './topology/topology-cache.ts'

/** The value of the label `endpointslice.kubernetes.io/managed-by` of this controller's slices. */
export const managedByController = 'endpointslice-controller.k8s.io'

export interface SlicesInput {
  readonly service: Service
  readonly pods: readonly Pod[]
  readonly nodeOf: (name: string) => Node | undefined
  /** The controller's slices that name the Service, except those that are being deleted. */
  readonly slices: readonly EndpointSlice[]
  readonly maxEndpointsPerSlice: number
  /** The value for `lastChangeTriggerTime`. If undefined, the annotation is removed. */
  readonly triggerTime: string | undefined
  /** Decides and caches the hints by zone. If undefined, no Service gets hints by zone. */
  readonly topology: TopologyCache | undefined
  /**
   * A cache for this Service alone. It speeds up a plan for many Pods, and does not change which endpoints are listed.
   */
  readonly memory?: { readonly memory: SlicesMemory; readonly nodesVersion: number } | undefined
}

/** How many endpoints have the same ports, and in how many slices they are. */
export interface Packing {
  readonly endpoints: number
  readonly slices: number
}

export interface AddressTypePlan {
  readonly addressType: AddressType
  /** Creations, then updates, then deletions, to be carried out by `SliceWriter.execute`. */
  readonly actions: readonly SliceAction[]
  /**
   * The number of creations, updates and deletions, including creations that `actions` omits because the Service is
   * being deleted.
   */
  readonly changed: number
  readonly events: readonly HintsEvent[]
  /** Pods that have no endpoint because their Node is unknown. The Service must be synced again. */
  readonly leftOut: readonly LeftOutPod[]
  /** How many desired endpoints were in no slice. */
  readonly added: number
  /** How many endpoints were not desired, or were duplicates, in slices whose ports are still desired. */
  readonly removed: number
  readonly packings: readonly Packing[]
}

export interface SlicesPlan {
  readonly addressTypes: readonly AddressTypePlan[]
  /**
   * Slices to delete, because the Service does not have their address type. If one deletion fails, the others still
   * take place.
   */
  readonly unsupported: readonly EndpointSlice[]
}

/**
 * Decides what must change so that a Service's slices contain exactly the endpoints of its Pods (upstream's
 * `Reconcile`). Pure, except that it updates `topology` and `memory`.
 *
 * @throws Error if Pods have too many different numbers for too many ports
 */
export function planSlices(input: SlicesInput): SlicesPlan {
  const { service, pods, slices, topology } = input
  refuseManyPortPairs(service, pods)
  const addressTypes = addressTypesOf(service)
  const labels = labelsOfSlices(service, managedByController)
  const unsupported = slices.filter((slice) => !(addressTypes as readonly string[]).includes(slice.addressType))
  for (const slice of unsupported) topology?.removeHints(keyOfObject(service), slice.addressType as AddressType)
  return {
    addressTypes: addressTypes.map((addressType) => {
      const own = slices.filter((slice) => slice.addressType === addressType)
      return planAddressType({ ...input, slices: own, addressType, labels })
    }),
    unsupported,
  }
}

function planAddressType(
  input: SlicesInput & { readonly addressType: AddressType; readonly labels: Labels },
): AddressTypePlan {
  const { service, slices, addressType, labels, maxEndpointsPerSlice } = input
  const owned = new Map<string, EndpointSlice[]>()
  const create: EndpointSlice[] = []
  const update: EndpointSlice[] = []
  const remove: EndpointSlice[] = []
  for (const slice of slices) {
    if (!isOwnedBy(slice, service)) {
      remove.push(slice)
      continue
    }
    getOrMake(owned, portsKey(slice.ports), () => []).push(slice)
  }

  const { desired: wanted, settled: settledByPorts } = desiredEndpointsOf(input)
  const packings = new Map<string, Packing>()
  let added = 0
  let removed = 0
  for (const [key, { ports, endpoints: desired }] of wanted.groups) {
    const existing = owned.get(key) ?? []
    owned.delete(key)
    const make = (endpoints: readonly Endpoint[]): EndpointSlice =>
      newSlice(service, { addressType, labels, ports, endpoints })
    const settled = settledByPorts && getOrMake(settledByPorts, key, () => new InSyncSlices())
    const plan = planPortGroup({ existing, desired, maxEndpointsPerSlice, labels, settled, make })
    create.push(...plan.create)
    update.push(...plan.update)
    remove.push(...plan.remove)
    added += plan.added
    removed += plan.removed
    packings.set(key, {
      endpoints: desired.size,
      slices: existing.length + plan.create.length - plan.remove.length,
    })
  }
  for (const others of owned.values()) remove.push(...others)

  // A Service with a selector always has a slice of each address type; without endpoints, that slice is a placeholder.
  if (remove.length === slices.length && create.length === 0) {
    const [only] = remove
    if (remove.length === 1 && only !== undefined && isOwnedBy(only, service) && isPlaceholder(only, labels))
      remove.pop()
    else create.push(newSlice(service, { addressType, labels, ports: [], endpoints: [] }))
    packings.set('', { endpoints: 0, slices: 1 })
  }

  const hinted = decideHints(input, { create, update, remove })
  const writes = planWrites({ ...input, create: hinted.create, update: hinted.update, remove })
  return {
    addressType,
    ...writes,
    events: hinted.events,
    leftOut: [...wanted.leftOut],
    added,
    removed,
    packings: [...packings.values()],
  }
}

function desiredEndpointsOf(input: SlicesInput & { readonly addressType: AddressType }): {
  readonly desired: DesiredEndpoints
  readonly settled?: Map<string, InSyncSlices>
} {
  if (input.memory === undefined) return { desired: new DesiredEndpoints(input, input.pods) }
  const { memory, nodesVersion } = input.memory
  return memory.recall({ ...input, nodesVersion })
}

/**
 * Whether a slice has no endpoints, no ports and exactly these labels. As upstream, a label with an empty value, such
 * as that of headless Services, is equal to a missing one.
 */
export function isPlaceholder(slice: EndpointSlice, labels: Labels): boolean {
  const present = slice.metadata?.labels ?? {}
  return (
    !slice.endpoints?.length && !slice.ports?.length && hasValuesOf(present, labels) && hasValuesOf(labels, present)
  )
}

function hasValuesOf(some: Labels, others: Labels): boolean {
  return Object.entries(others).every(([key, value]) => (Object.hasOwn(some, key) ? some[key] : '') === value)
}

/** The slices of a Service with the same ports, and the desired endpoints with these ports. */
export interface PortGroup {
  readonly existing: readonly EndpointSlice[]
  /** The endpoints by the names of their Pods, which are all in the Service's namespace. */
  readonly desired: ReadonlyMap<string, Endpoint>
  readonly maxEndpointsPerSlice: number
  readonly labels: Labels
  /** The slices known to be in sync. The plan does not compare their endpoints again, and updates this cache. */
  readonly settled?: InSyncSlices | undefined
  readonly make: (endpoints: readonly Endpoint[]) => EndpointSlice
}

type PortGroupPlan = SliceWrites & Pick<AddressTypePlan, 'added' | 'removed'>

/** A slice to update. If `labels` is undefined, the slice retains its labels. */
interface Draft {
  readonly slice: EndpointSlice
  readonly endpoints: Endpoint[]
  readonly labels: Labels | undefined
}

/**
 * Decides what must change so that the slices of a group contain exactly the desired endpoints, each once, with few
 * writes rather than dense packing (upstream's `reconcileByPortMapping`):
 *
 * 1. undesired endpoints are removed, changed ones replaced; a slice that becomes empty is deleted;
 * 2. slices that must be written anyway are filled with missing endpoints, the fullest first;
 * 3. further missing endpoints fill new slices. The last of them, if too few to fill a slice, go into the fullest
 *    unchanged slice that has space for them all, or else into a new one.
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
    const stillWanted: Endpoint[] = []
    const pods: string[] = []
    let changed = false
    for (const endpoint of present) {
      const name = endpoint.targetRef?.name ?? ''
      const wanted = desired.get(name)
      if (wanted === undefined || !isSameEndpoint(wanted, endpoint)) continue
      // A second copy of the same endpoint is dropped.
      if (placed.has(name) || settled?.holds(name)) continue
      placed.add(name)
      stillWanted.push(wanted)
      pods.push(name)
      changed ||= !isUnchanged(wanted, endpoint)
    }
    removed += present.length - stillWanted.length
    if (changed || stillWanted.length !== present.length) {
      if (stillWanted.length === 0) remove.push(slice)
      else drafts.push({ slice, endpoints: stillWanted, labels })
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

/** The fullest slice that has space for `endpoints` more endpoints; undefined if no slice has. */
function sliceToFill(slices: readonly EndpointSlice[], endpoints: number, max: number): EndpointSlice | undefined {
  let closest: EndpointSlice | undefined
  let least = max
  for (const slice of slices) {
    const free = max - endpoints - (slice.endpoints?.length ?? 0)
    if (free < 0 || free >= least) continue
    least = free
    closest = slice
  }
  return closest
}

function written({ slice, endpoints, labels }: Draft): EndpointSlice {
  return labels === undefined
    ? { ...slice, endpoints }
    : { ...slice, metadata: { ...slice.metadata, labels }, endpoints }
}
