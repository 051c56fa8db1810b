import { fnv128a } from '../endpointslice/fnv.ts'
import type { EndpointAddress, EndpointPort, EndpointSubset, List } from './subset-equality.ts'

/** The order in which addresses are listed: by the text of the IP, then by the uid of the Pod (upstream's `LessEndpointAddress`). */
export function compareEndpointAddresses(a: EndpointAddress, b: EndpointAddress): number {
  return compareTexts(a.ip, b.ip) || compareTexts(a.targetRef?.uid ?? '', b.targetRef?.uid ?? '')
}

/**
 * The ports in the order in which kube-controller-manager writes them: by the hash of what they look like in Go.
 *
 * The hash is reproduced, although upstream accepts any order of what is there: which addresses a list of several subsets loses when it is too long
 * depends on the order, and whoever takes over from a kube-controller-manager, or the other way round, finds nothing to rewrite.
 */
export function portsInOrder(ports: readonly EndpointPort[]): readonly EndpointPort[] {
  return inHashOrder(ports, (port) => `(v1.EndpointPort)${portText(port)}`)
}

/** The subsets in the order in which kube-controller-manager writes them. Their addresses and ports must be in order already. */
export function subsetsInOrder(subsets: readonly EndpointSubset[]): readonly EndpointSubset[] {
  return inHashOrder(subsets, subsetText)
}

function inHashOrder<T>(items: readonly T[], textOf: (item: T) => string): readonly T[] {
  if (items.length < 2) return items
  return items
    .map((item) => ({ item, hash: fnv128a(textOf(item)) }))
    .sort((a, b) => compareTexts(a.hash, b.hash))
    .map(({ item }) => item)
}

// What Go's spew prints of these types, which is what upstream hashes.

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

function portText({ name, port, protocol, appProtocol }: EndpointPort): string {
  return (
    `{Name:(string)${name ?? ''} Port:(int32)${port ?? 0} Protocol:(v1.Protocol)${protocol ?? ''} ` +
    `AppProtocol:(*string)${appProtocol ?? '<nil>'}}`
  )
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
