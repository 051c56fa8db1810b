import type { EndpointSlice, Endpoints } from '../kube/resources.ts'
import { type EndpointAddress, KUBERNETES_SERVICE, SERVICE_NAME_LABEL, type SliceEndpoint } from './identity.ts'

/** What must be done to EndpointSlice `default/kubernetes`. `reasons` name what was found wrong, in stable words. */
export type EndpointSliceAction =
  | { readonly type: 'none' }
  | { readonly type: 'create'; readonly slice: EndpointSlice; readonly reasons: readonly string[] }
  | { readonly type: 'update'; readonly slice: EndpointSlice; readonly reasons: readonly string[] }
  /** An address type cannot be changed: the slice is deleted and made anew. */
  | {
      readonly type: 'replace'
      readonly current: EndpointSlice
      readonly slice: EndpointSlice
      readonly reasons: readonly string[]
    }

/**
 * Decides what must change so that EndpointSlice `default/kubernetes` says what Endpoints of that name say.
 *
 * Pure. Upstream: `EndpointsAdapter` in pkg/controlplane/reconcilers/endpointsadapter.go; beyond it, an update keeps annotations
 * and other metadata that it does not own, and the object's resourceVersion guards it.
 */
export function planEndpointSlice(endpoints: Endpoints, current: EndpointSlice | undefined): EndpointSliceAction {
  return planSlice(sliceOf(endpoints), current)
}

/** Decides what must change so that a slice is as it is wanted, metadata that nobody asked for aside. Pure. */
export function planSlice(wanted: EndpointSlice, current: EndpointSlice | undefined): EndpointSliceAction {
  if (current === undefined) return { type: 'create', slice: wanted, reasons: ['missing'] }
  if (current.addressType !== wanted.addressType) {
    return { type: 'replace', current, slice: wanted, reasons: ['address-type'] }
  }

  const reasons: string[] = []
  if (!sameLabels(current.metadata?.labels ?? {}, wanted.metadata?.labels ?? {})) reasons.push('labels')
  if (!sameEndpoints(current.endpoints ?? [], wanted.endpoints ?? [])) reasons.push('endpoints')
  if (!samePorts(current.ports ?? [], wanted.ports ?? [])) reasons.push('ports')
  if (reasons.length === 0) return { type: 'none' }
  const metadata = { ...current.metadata, labels: wanted.metadata?.labels }
  const { endpoints: sliceEndpoints, ports } = wanted
  return { type: 'update', slice: { ...current, metadata, endpoints: sliceEndpoints, ports } as EndpointSlice, reasons }
}

/** The slice that says what these Endpoints say: the first subset, in the family of its addresses, IPv4 when they are mixed. */
export function sliceOf(endpoints: Endpoints): EndpointSlice {
  const subset = endpoints.subsets?.[0]
  const ready = subset?.addresses ?? []
  const notReady = subset?.notReadyAddresses ?? []
  const all = [...ready, ...notReady]
  const addressType = all.length > 0 && all.every(isIpv6) ? 'IPv6' : 'IPv4'
  const ofType = (address: EndpointAddress): boolean => isIpv6(address) === (addressType === 'IPv6')
  const name = endpoints.metadata?.name ?? KUBERNETES_SERVICE.name
  const namespace = endpoints.metadata?.namespace ?? KUBERNETES_SERVICE.namespace
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace, labels: { [SERVICE_NAME_LABEL]: name } },
    addressType,
    endpoints: [
      ...ready.filter(ofType).map((address) => toSliceEndpoint(address, true)),
      ...notReady.filter(ofType).map((address) => toSliceEndpoint(address, false)),
    ],
    ports: slicePortsOf(endpoints),
  } as EndpointSlice
}

/** The ports of the first subset, as a slice carries them. */
export function slicePortsOf(endpoints: Endpoints): NonNullable<EndpointSlice['ports']> {
  return (endpoints.subsets?.[0]?.ports ?? []).map(({ name, port, protocol }) => ({
    name: name ?? '',
    port,
    protocol: protocol ?? 'TCP',
  }))
}

function toSliceEndpoint(address: EndpointAddress, ready: boolean): SliceEndpoint {
  const endpoint: Record<string, unknown> = { addresses: [address.ip], conditions: { ready } }
  if (address.targetRef !== undefined) endpoint.targetRef = address.targetRef
  if (address.nodeName !== undefined) endpoint.nodeName = address.nodeName
  return endpoint as unknown as SliceEndpoint
}

function isIpv6(address: EndpointAddress): boolean {
  return address.ip.includes(':')
}

function sameLabels(found: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(wanted)
  return Object.keys(found).length === keys.length && keys.every((key) => found[key] === wanted[key])
}

function sameEndpoints(found: readonly SliceEndpoint[], wanted: readonly SliceEndpoint[]): boolean {
  return found.length === wanted.length && found.every((endpoint, index) => sameValue(endpoint, wanted[index]))
}

function samePorts(found: NonNullable<EndpointSlice['ports']>, wanted: NonNullable<EndpointSlice['ports']>): boolean {
  return found.length === wanted.length && found.every((port, index) => sameValue(port, wanted[index]))
}

/** Mostly even their fields are in the same order. */
function sameValue(found: unknown, wanted: unknown): boolean {
  return JSON.stringify(found) === JSON.stringify(wanted) || canonical(found) === canonical(wanted)
}

/** JSON with sorted keys: equal texts mean equal values, whatever order a server stores fields in. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner
    const record = inner as Record<string, unknown>
    return Object.fromEntries(
      Object.keys(record)
        .sort()
        .map((key) => [key, record[key]]),
    )
  })
}
