import { type EndpointSlice, isBeingDeleted, type Node, type Pod, type Service } from '../kube/resources.ts'
import { hasHostname, isPodReady, podAddresses, sameOptional, sameTargets } from '../workloads/pod-rules.ts'
import type { AddressType } from './slice.ts'

export type Endpoint = NonNullable<EndpointSlice['endpoints']>[number]

type EndpointConditions = NonNullable<Endpoint['conditions']>
type ObjectReference = NonNullable<Endpoint['targetRef']>

export const zoneLabel = 'topology.kubernetes.io/zone'

export function zoneOf(node: Node | undefined): string | undefined {
  return node?.metadata?.labels?.[zoneLabel] || undefined
}

/** The endpoint of a Pod. It has all of the Pod's addresses of the family, possibly none. Upstream: `podToEndpoint`. */
export function endpointOf(pod: Pod, node: Node | undefined, service: Service, addressType: AddressType): Endpoint {
  const publishNotReady = service.spec?.publishNotReadyAddresses === true
  const zone = zoneOf(node)
  const { namespace, name, uid } = pod.metadata ?? {}
  const { nodeName, hostname } = pod.spec ?? {}
  const serving = isPodReady(pod)
  const terminating = isBeingDeleted(pod)
  return {
    addresses: [...podAddresses(pod, addressType)].sort(),
    conditions: conditionsOf(publishNotReady || (serving && !terminating), serving, terminating),
    ...(hostname !== undefined && hasHostname(pod, service) ? { hostname } : {}),
    targetRef: { kind: 'Pod', namespace, name, uid } as ObjectReference,
    ...(nodeName ? { nodeName } : {}),
    ...(zone === undefined ? {} : { zone }),
  }
}

const yesOrNo = [false, true] as const
/** All combinations of conditions. Endpoints share these objects. */
const conditions: readonly EndpointConditions[] = yesOrNo.flatMap((ready) =>
  yesOrNo.flatMap((serving) => yesOrNo.map((terminating) => ({ ready, serving, terminating }))),
)

function conditionsOf(ready: boolean, serving: boolean, terminating: boolean): EndpointConditions {
  return conditions[Number(ready) * 4 + Number(serving) * 2 + Number(terminating)] as EndpointConditions
}

/**
 * Whether two endpoints have the same identity: addresses, hostname, and the name and namespace of the target
 * (upstream's `hashEndpoint`). Everything else may differ.
 */
export function isSameEndpoint(a: Endpoint, b: Endpoint): boolean {
  return (
    (a.targetRef?.name ?? '') === (b.targetRef?.name ?? '') &&
    (a.targetRef?.namespace ?? '') === (b.targetRef?.namespace ?? '') &&
    (a.hostname ?? '') === (b.hostname ?? '') &&
    sameAddresses(a.addresses, b.addresses)
  )
}

/**
 * Whether two endpoints of the same identity are equal, except for hints and the resourceVersion of the target
 * (upstream's `EndpointsEqualBeyondHash`).
 */
export function isUnchanged(a: Endpoint, b: Endpoint): boolean {
  return (
    sameOptional(a.nodeName, b.nodeName) &&
    sameOptional(a.zone, b.zone) &&
    sameOptional(a.conditions?.ready, b.conditions?.ready) &&
    sameOptional(a.conditions?.serving, b.conditions?.serving) &&
    sameOptional(a.conditions?.terminating, b.conditions?.terminating) &&
    sameTargets(a.targetRef, b.targetRef)
  )
}

function sameAddresses(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  const left = a ?? []
  const other = b ?? []
  if (left.length !== other.length) return false
  if (left.length === 1) return left[0] === other[0]
  const sorted = [...other].sort()
  return [...left].sort().every((address, index) => address === sorted[index])
}
