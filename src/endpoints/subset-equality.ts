import type { Endpoints } from '../kube/resources.ts'

export type EndpointSubset = NonNullable<Endpoints['subsets']>[number]
export type EndpointPort = NonNullable<EndpointSubset['ports']>[number]
export type EndpointAddress = NonNullable<EndpointSubset['addresses']>[number]

type TargetRef = NonNullable<EndpointAddress['targetRef']>
/** A list as servers write it: absent, null and empty are the same. */
export type List<T> = readonly T[] | null | undefined

/**
 * Whether two lists of subsets say the same in the same order (upstream's `endpointSubsetsEqualIgnoreResourceVersion`): absent and empty lists and
 * texts are equal, but an absent `nodeName` or `appProtocol` is not an empty one; the resourceVersion of a Pod does not count.
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

function samePort(a: EndpointPort, b: EndpointPort): boolean {
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

function sameTargets(a: TargetRef | null | undefined, b: TargetRef | null | undefined): boolean {
  if (a === null || a === undefined || b === null || b === undefined) return (a ?? undefined) === (b ?? undefined)
  return (
    sameText(a.uid, b.uid) &&
    sameText(a.name, b.name) &&
    sameText(a.namespace, b.namespace) &&
    sameText(a.kind, b.kind) &&
    sameText(a.apiVersion, b.apiVersion) &&
    sameText(a.fieldPath, b.fieldPath)
  )
}

function sameText(a: string | null | undefined, b: string | null | undefined): boolean {
  return a === b || (a ?? '') === (b ?? '')
}

function sameOptional(a: string | null | undefined, b: string | null | undefined): boolean {
  return a === b || (a ?? undefined) === (b ?? undefined)
}

function sameLists<T>(a: List<T>, b: List<T>, same: (a: T, b: T) => boolean): boolean {
  const length = a?.length ?? 0
  if (length !== (b?.length ?? 0)) return false
  for (let index = 0; index < length; index++) if (!same(a?.[index] as T, b?.[index] as T)) return false
  return true
}
