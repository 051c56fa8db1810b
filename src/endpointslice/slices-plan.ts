import type { EndpointSlice, Node, Pod, Service } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import { addressTypesOf } from './address-types.ts'
import { DesiredEndpoints, type LeftOutPod } from './desired-endpoints.ts'
import { decideHints } from './hints-plan.ts'
import { isOwnedBy, newSlice } from './new-slice.ts'
import type { Endpoint } from './pod-endpoint.ts'
import { planPortGroup } from './port-group-plan.ts'
import type { SettledSlices } from './settled-slices.ts'
import { planWrites, type SliceAction } from './slice-actions.ts'
import type { AddressType, HintsEvent } from './slice-info.ts'
import { type Labels, labelsOfSlices } from './slice-labels.ts'
import { portsKey } from './slice-ports.ts'
import type { SlicesMemory } from './slices-memory.ts'
import type { TopologyCache } from './topology/topology-cache.ts'

/** Says of a slice that it is the endpointslice controller's. */
export const managedByController = 'endpointslice-controller.k8s.io'

export interface SlicesQuestion {
  readonly service: Service
  /** Those that the Service selects. */
  readonly pods: readonly Pod[]
  readonly nodeOf: (name: string) => Node | undefined
  /** The controller's slices that name the Service, but for those that are being deleted. */
  readonly slices: readonly EndpointSlice[]
  readonly maxEndpointsPerSlice: number
  /** For {@link lastChangeTriggerTime}; the annotation goes when there is none. */
  readonly triggerTime: string | undefined
  /** Decides and remembers the hints by zone; without it a Service that asks for them gets none. */
  readonly topology: TopologyCache | undefined
  /** Makes the plan for a Service of many Pods faster, and changes nothing else. Of this Service alone. */
  readonly memory?: { readonly memory: SlicesMemory; readonly nodesVersion: number } | undefined
}

/** How well the endpoints that have the same ports are packed. */
export interface Packing {
  readonly endpoints: number
  readonly slices: number
}

/** What is to be done about the slices of one address type. */
export interface AddressTypePlan {
  readonly addressType: AddressType
  /** In this order; one that fails ends them. */
  readonly actions: readonly SliceAction[]
  /** How many slices change, counting those that a Service that is being deleted does not get any more. */
  readonly changed: number
  readonly events: readonly HintsEvent[]
  /** For their sake the Service must be looked at again. */
  readonly leftOut: readonly LeftOutPod[]
  readonly added: number
  readonly removed: number
  readonly packings: readonly Packing[]
}

export interface SlicesPlan {
  readonly addressTypes: readonly AddressTypePlan[]
  /** Slices of address types that the Service does not have; their deletions do not wait for each other. */
  readonly unsupported: readonly EndpointSlice[]
}

/**
 * Decides what must change so that a Service's slices hold exactly the endpoints that its Pods are (upstream's `Reconcile`). Pure but for the hints that
 * `topology` remembers.
 */
export function planSlices(question: SlicesQuestion): SlicesPlan {
  const { service, slices, topology } = question
  const addressTypes = addressTypesOf(service)
  const labels = labelsOfSlices(service, managedByController)
  const unsupported = slices.filter((slice) => !(addressTypes as readonly string[]).includes(slice.addressType))
  for (const slice of unsupported) topology?.removeHints(keyOfObject(service), slice.addressType as AddressType)
  return {
    addressTypes: addressTypes.map((addressType) => {
      const own = slices.filter((slice) => slice.addressType === addressType)
      return planAddressType({ ...question, slices: own, addressType, labels })
    }),
    unsupported,
  }
}

function planAddressType(
  question: SlicesQuestion & { readonly addressType: AddressType; readonly labels: Labels },
): AddressTypePlan {
  const { service, slices, addressType, labels, maxEndpointsPerSlice } = question
  const owned = new Map<string, EndpointSlice[]>()
  const create: EndpointSlice[] = []
  const update: EndpointSlice[] = []
  const remove: EndpointSlice[] = []
  for (const slice of slices) {
    if (!isOwnedBy(slice, service)) {
      remove.push(slice)
      continue
    }
    const key = portsKey(slice.ports)
    const group = owned.get(key)
    if (group === undefined) owned.set(key, [slice])
    else group.push(slice)
  }

  const { desired: wanted, settled } = recall(question)
  const packings = new Map<string, Packing>()
  let added = 0
  let removed = 0
  for (const [key, { ports, endpoints: desired }] of wanted.groups) {
    const existing = owned.get(key) ?? []
    owned.delete(key)
    const make = (endpoints: readonly Endpoint[]): EndpointSlice =>
      newSlice(service, { addressType, labels, ports, endpoints })
    const plan = planPortGroup({ existing, desired, maxEndpointsPerSlice, labels, settled: settled?.(key), make })
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

  // A Service that has Pods or might have some always has a slice.
  if (remove.length === slices.length && create.length === 0) {
    const [only] = remove
    if (remove.length === 1 && only !== undefined && isOwnedBy(only, service) && isPlaceholder(only, labels))
      remove.pop()
    else create.push(newSlice(service, { addressType, labels, ports: [], endpoints: [] }))
    packings.set('', { endpoints: 0, slices: 1 })
  }

  const hinted = decideHints(question, { create, update, remove })
  const writes = planWrites({ ...question, create: hinted.create, update: hinted.update, remove })
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

function recall(question: SlicesQuestion & { readonly addressType: AddressType }): {
  readonly desired: DesiredEndpoints
  readonly settled?: (portsKey: string) => SettledSlices
} {
  if (question.memory !== undefined) {
    const { memory, nodesVersion } = question.memory
    const remembered = memory.recall({ ...question, nodesVersion })
    return { desired: remembered.desired, settled: (key) => remembered.settled(key) }
  }
  const desired = new DesiredEndpoints(question)
  for (const pod of question.pods) desired.add(pod)
  return { desired }
}

/** Whether a slice says all that a placeholder says. A label without a value, such as the headless one, does not count, as upstream. */
export function isPlaceholder(slice: EndpointSlice, labels: Labels): boolean {
  const present = slice.metadata?.labels ?? {}
  return (
    !slice.endpoints?.length && !slice.ports?.length && hasValuesOf(present, labels) && hasValuesOf(labels, present)
  )
}

function hasValuesOf(some: Labels, others: Labels): boolean {
  return Object.entries(others).every(([key, value]) => (some[key] ?? '') === value)
}
