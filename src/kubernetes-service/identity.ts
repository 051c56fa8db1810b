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

export function addressesInSlice(slice: EndpointSlice | undefined): readonly string[] {
  return (slice?.endpoints ?? []).flatMap(({ addresses }) => addresses)
}

/** The one port of `default/kubernetes`, as Endpoints carry it. */
export function endpointPorts(securePort: number): readonly EndpointPort[] {
  return [{ name: 'https', port: securePort, protocol: 'TCP' }]
}

/** What a port says, whether of Endpoints, of a slice or of the Service. */
interface AnyPort {
  readonly name?: string | undefined
  readonly port?: number | undefined
  readonly protocol?: string | undefined
  readonly appProtocol?: string | undefined
  readonly targetPort?: unknown
  readonly nodePort?: number | undefined
}

/** What is kept here of ports, as texts: equal for those that mean the same, whatever is left to its default. */
export function portTexts(ports: readonly AnyPort[] | undefined): readonly string[] {
  return (ports ?? []).map(({ name, port, protocol, targetPort, nodePort }) =>
    JSON.stringify([name ?? '', port, protocol ?? 'TCP', String(targetPort ?? port), nodePort ?? 0]),
  )
}

/** Same ports in the same order, by everything that a port says. */
export function samePorts(found: readonly AnyPort[], wanted: readonly AnyPort[]): boolean {
  const said = (ports: readonly AnyPort[]) =>
    JSON.stringify([portTexts(ports), ports.map(({ appProtocol }) => appProtocol)])
  return said(found) === said(wanted)
}
