import type { EndpointSlice, Endpoints, Service } from '../kube/resources.ts'
import { type Address, isLinkLocal, isLoopback, isMulticast, isUnspecified, tryParseAddress } from '../net/address.ts'
import { equalJson } from '../runtime/equal-json.ts'
import { memoize } from '../runtime/memo.ts'

/** The namespace and name of the Service, the Endpoints and the first EndpointSlice that this folder manages. */
export const KUBERNETES_SERVICE = { namespace: 'default', name: 'kubernetes' } as const

/** The EndpointSliceMirroring controller ignores Endpoints with this label. We write their slice ourselves. */
export const SKIP_MIRROR_LABEL = 'endpointslice.kubernetes.io/skip-mirror'
export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name'

export type EndpointSubset = NonNullable<Endpoints['subsets']>[number]
export type EndpointPort = NonNullable<EndpointSubset['ports']>[number]
export type EndpointAddress = NonNullable<EndpointSubset['addresses']>[number]
export type SliceEndpoint = NonNullable<EndpointSlice['endpoints']>[number]
export type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

/** The addresses that Endpoints list as ready, in order, including duplicates. */
export function addressesIn(endpoints: Endpoints | undefined): readonly string[] {
  return (endpoints?.subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
}

export function addressesInSlice(slice: EndpointSlice | undefined): readonly string[] {
  return (slice?.endpoints ?? []).flatMap(({ addresses }) => addresses ?? [])
}

export function endpointPorts(securePort: number): readonly EndpointPort[] {
  return [{ name: 'https', port: securePort, protocol: 'TCP' }]
}

/** A port of Endpoints, an EndpointSlice or a Service. */
type AnyPort = Partial<EndpointPort & Pick<ServicePort, 'targetPort' | 'nodePort'>>

/** The managed fields of ports, as texts: equal for ports that are equal after defaulting. */
export function portTexts(ports: readonly AnyPort[] | undefined): readonly string[] {
  return (ports ?? []).map(({ name, port, protocol, appProtocol, targetPort, nodePort }) =>
    JSON.stringify([name ?? '', port, protocol ?? 'TCP', appProtocol, String(targetPort ?? port), nodePort ?? 0]),
  )
}

/** Whether the ports are equal in the same order. */
export function samePorts(found: readonly AnyPort[], wanted: readonly AnyPort[]): boolean {
  return equalJson(portTexts(found), portTexts(wanted))
}

/**
 * Why an address cannot be listed in Endpoints, in a few words; undefined when it can. Upstream: endpoint address
 * validation in pkg/apis/core/validation, and the check of --advertise-address in Kubernetes 1.36.
 */
export function unlistableReason(address: Address): string | undefined {
  if (isUnspecified(address)) return 'is the unspecified address'
  if (isLoopback(address)) return 'is a loopback address'
  if (isLinkLocal(address)) return 'is a link-local address'
  if (isMulticast(address)) return 'is a multicast address'
  if (address.text === '255.255.255.255') return 'is the broadcast address'
  return undefined
}

/** Whether a text is an address in canonical form that can be listed. Cached, because the same few texts recur. */
export const isListable = memoize((text) => {
  const address = tryParseAddress(text)
  return address?.text === text && unlistableReason(address) === undefined
}, 64)
