import type { EndpointSlice, Endpoints, Service } from '../kube/resources.ts'

/** Where the objects of this folder live: `default/kubernetes`, all three kinds. */
export const KUBERNETES_SERVICE = { namespace: 'default', name: 'kubernetes' } as const

/** Of Endpoints: the EndpointSliceMirroring controller must leave them alone, their slice is made here. */
export const SKIP_MIRROR_LABEL = 'endpointslice.kubernetes.io/skip-mirror'
/** Of EndpointSlices: the Service that they belong to. */
export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name'

export type EndpointSubset = NonNullable<Endpoints['subsets']>[number]
export type EndpointPort = NonNullable<EndpointSubset['ports']>[number]
export type EndpointAddress = NonNullable<EndpointSubset['addresses']>[number]
export type SliceEndpoint = NonNullable<EndpointSlice['endpoints']>[number]
export type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

/** The addresses that Endpoints list as ready, in order, doubles included. */
export function addressesIn(endpoints: Endpoints | undefined): readonly string[] {
  return (endpoints?.subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
}

/** The one port of `default/kubernetes`, as Endpoints carry it. */
export function endpointPorts(securePort: number): readonly EndpointPort[] {
  return [{ name: 'https', port: securePort, protocol: 'TCP' }]
}
