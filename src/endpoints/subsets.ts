import type { Service } from '../kube/resources.ts'
import { inHashOrder } from '../workloads/hash-order.ts'
import { sameOptional, sameTargets } from '../workloads/pod-rules.ts'
import {
  compareEndpointAddresses,
  type EndpointAddress,
  type EndpointSubset,
  packedSubsets,
  portText,
  type SubsetPort,
} from '../workloads/subsets.ts'

/** A list from a server: absent, null and empty are equal. */
type List<T> = readonly T[] | null | undefined

/**
 * Whether two lists of subsets are equal in the same order (upstream's `endpointSubsetsEqualIgnoreResourceVersion`):
 * absent and empty lists and texts are equal, but an absent `nodeName` or `appProtocol` is not an empty one; the
 * resourceVersion of a Pod does not count.
 */
export function sameSubsets(a: List<EndpointSubset>, b: List<EndpointSubset>): boolean {
  return sameLists(a, b, sameSubset)
}

function sameSubset(a: EndpointSubset, b: EndpointSubset): boolean {
  return (
    sameLists(a.ports, b.ports, samePort) &&
    sameLists(a.addresses, b.addresses, sameAddress) &&
    sameLists(a.notReadyAddresses, b.notReadyAddresses, sameAddress)
  )
}

function samePort(a: SubsetPort, b: SubsetPort): boolean {
  return (
    (a.port ?? 0) === (b.port ?? 0) &&
    sameText(a.name, b.name) &&
    sameText(a.protocol, b.protocol) &&
    sameOptional(a.appProtocol, b.appProtocol)
  )
}

function sameAddress(a: EndpointAddress, b: EndpointAddress): boolean {
  return (
    sameText(a.ip, b.ip) &&
    sameText(a.hostname, b.hostname) &&
    sameOptional(a.nodeName, b.nodeName) &&
    sameTargets(a.targetRef, b.targetRef)
  )
}

function sameText(a: string | null | undefined, b: string | null | undefined): boolean {
  return a === b || (a ?? '') === (b ?? '')
}

function sameLists<T>(a: List<T>, b: List<T>, same: (a: T, b: T) => boolean): boolean {
  const length = a?.length ?? 0
  if (length !== (b?.length ?? 0)) return false
  for (let index = 0; index < length; index++) if (!same(a?.[index] as T, b?.[index] as T)) return false
  return true
}

/** Sorts subsets, as `subsetPortsInOrder` sorts ports. Their addresses and ports must be in order already. */
export function subsetsInOrder(subsets: readonly EndpointSubset[]): readonly EndpointSubset[] {
  return inHashOrder(subsets, subsetText)
}

// The functions from `subsetText` to `targetText` print subsets as Go's spew does, because upstream hashes that text.

function subsetText({ addresses, notReadyAddresses, ports }: EndpointSubset): string {
  return (
    `(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)${listText(addresses, addressText)} ` +
    `NotReadyAddresses:([]v1.EndpointAddress)${listText(notReadyAddresses, addressText)} ` +
    `Ports:([]v1.EndpointPort)${listText(ports, portText)}}`
  )
}

function listText<T>(items: List<T>, textOf: (item: T) => string): string {
  return items === null || items === undefined || items.length === 0 ? '<nil>' : `[${items.map(textOf).join(' ')}]`
}

function addressText({ ip, hostname, nodeName, targetRef }: EndpointAddress): string {
  return (
    `{IP:(string)${ip} Hostname:(string)${hostname ?? ''} NodeName:(*string)${nodeName ?? '<nil>'} ` +
    `TargetRef:(*v1.ObjectReference)${targetRef === undefined || targetRef === null ? '<nil>' : targetText(targetRef)}}`
  )
}

function targetText(target: NonNullable<EndpointAddress['targetRef']>): string {
  const {
    kind = '',
    namespace = '',
    name = '',
    uid = '',
    apiVersion = '',
    resourceVersion = '',
    fieldPath = '',
  } = target
  return (
    `{Kind:(string)${kind} Namespace:(string)${namespace} Name:(string)${name} UID:(types.UID)${uid} ` +
    `APIVersion:(string)${apiVersion} ResourceVersion:(string)${resourceVersion} FieldPath:(string)${fieldPath}}`
  )
}

type Addresses = readonly (EndpointAddress | undefined)[]

const lastOrders = new WeakMap<Service, readonly number[]>()

/**
 * The indexes of the addresses, in the order of {@link compareEndpointAddresses}. Indexes of undefined addresses may be
 * anywhere.
 *
 * If the order that the last call for the same Service object returned still sorts the addresses, it is returned again.
 * Usually they are, because one Pod changes at a time. This saves the sorting of thousands of addresses, which is most
 * of the work of a sync.
 */
export function listedOrder(service: Service, addresses: Addresses): readonly number[] {
  const last = lastOrders.get(service)
  if (last !== undefined && holds(last, addresses)) return last
  const present: number[] = []
  const absent: number[] = []
  for (let place = 0; place < addresses.length; place++) (addresses[place] === undefined ? absent : present).push(place)
  present.sort((a, b) => compareEndpointAddresses(addresses[a] as EndpointAddress, addresses[b] as EndpointAddress))
  const order = [...present, ...absent]
  lastOrders.set(service, order)
  return order
}

function holds(order: readonly number[], addresses: Addresses): boolean {
  if (order.length !== addresses.length) return false
  let before: EndpointAddress | undefined
  for (const place of order) {
    const address = addresses[place]
    if (address === undefined) continue
    if (before !== undefined && compareEndpointAddresses(before, address) > 0) return false
    before = address
  }
  return true
}

/**
 * Brings subsets into their canonical form: packed, in order, and without subsets that have no addresses. Idempotent,
 * with two exceptions: ports with an `appProtocol`, which upstream compares by pointer, and ports with the number 0,
 * which no server accepts.
 */
export function repackSubsets(subsets: List<EndpointSubset>): readonly EndpointSubset[] {
  const addressed = (subsets ?? []).filter(
    ({ addresses, notReadyAddresses }) => addresses?.length || notReadyAddresses?.length,
  )
  return subsetsInOrder(packedSubsets(addressed))
}
