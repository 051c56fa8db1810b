import { isDeepStrictEqual } from 'node:util'
import type { RemovableAction } from '../kube/object-writer.ts'
import type { EndpointSlice, Endpoints } from '../kube/resources.ts'
import { type EndpointAddress, KUBERNETES_SERVICE, SERVICE_NAME_LABEL, type SliceEndpoint } from './identity.ts'

const LABELS = { [SERVICE_NAME_LABEL]: KUBERNETES_SERVICE.name }

/**
 * Decides what must change so that EndpointSlice `default/kubernetes` says what Endpoints of that name say.
 *
 * Pure. Upstream: `EndpointsAdapter` in pkg/controlplane/reconcilers/endpointsadapter.go; beyond it, an update keeps annotations
 * and other metadata that it does not own, and the object's resourceVersion guards it.
 */
export function planEndpointSlice(
  endpoints: Endpoints,
  current: EndpointSlice | undefined,
): RemovableAction<EndpointSlice> {
  return planSlice(sliceOf(endpoints), current)
}

/**
 * Decides what must change so that a second slice is as wanted, or is gone when none is wanted.
 *
 * Pure. While it is wanted its name is ours, and damage is mended as in the first slice. When it is not, only what is evidently ours
 * is removed: nothing but our label, and no owner. Somebody else's slice of that name stays.
 */
export function planSecondSlice(
  wanted: EndpointSlice | undefined,
  current: EndpointSlice | undefined,
): RemovableAction<EndpointSlice> {
  if (wanted !== undefined) return planSlice(wanted, current)
  const { labels, ownerReferences } = current?.metadata ?? {}
  const isOurs = sameValue(labels, LABELS) && (ownerReferences ?? []).length === 0
  return isOurs ? { type: 'remove', reasons: ['single-stack'] } : { type: 'none' }
}

/** Decides what must change so that a slice is as it is wanted, metadata that nobody asked for aside. */
function planSlice(wanted: EndpointSlice, current: EndpointSlice | undefined): RemovableAction<EndpointSlice> {
  if (current === undefined) return { type: 'create', object: wanted, reasons: ['missing'] }
  if (current.addressType !== wanted.addressType) {
    return { type: 'replace', object: wanted, reasons: ['address-type'] }
  }
  const { endpoints, ports } = wanted
  const reasons: string[] = []
  if (!sameValue(current.metadata?.labels, LABELS)) reasons.push('labels')
  if (!sameValue(current.endpoints ?? [], endpoints)) reasons.push('endpoints')
  if (!sameValue(current.ports ?? [], ports)) reasons.push('ports')
  if (reasons.length === 0) return { type: 'none' }
  const metadata = { ...current.metadata, labels: LABELS }
  return { type: 'update', object: { ...current, metadata, endpoints, ports } as EndpointSlice, reasons }
}

/** The slice that says what these Endpoints say: the first subset, in the family of its addresses, IPv4 when they are mixed. */
export function sliceOf(endpoints: Endpoints): EndpointSlice {
  const subset = endpoints.subsets?.[0]
  const listed = [
    ...(subset?.addresses ?? []).map((address) => ({ address, ready: true })),
    ...(subset?.notReadyAddresses ?? []).map((address) => ({ address, ready: false })),
  ]
  const family = listed.length > 0 && listed.every(({ address }) => familyOf(address.ip) === 6) ? 6 : 4
  const ofFamily = listed.filter(({ address }) => familyOf(address.ip) === family)
  return newSlice(KUBERNETES_SERVICE.name, family, ofFamily.map(toSliceEndpoint), endpoints)
}

/** The slice of the second family is called after it: `kubernetes-ipv6` beside IPv4 in Endpoints, `kubernetes-ipv4` beside IPv6. */
export function secondSliceName(family: 4 | 6): string {
  return `${KUBERNETES_SERVICE.name}-ipv${family}`
}

/**
 * The slice that lists the second addresses of the masters whose first ones are in these Endpoints, with the ports of those.
 * Undefined without such addresses, or without Endpoints that list anybody.
 *
 * @param addresses - all of one family, sorted, without doubles.
 */
export function secondSliceOf(
  endpoints: Endpoints | undefined,
  addresses: readonly string[] = [],
): EndpointSlice | undefined {
  const [first] = addresses
  if (first === undefined || endpoints?.subsets?.[0] === undefined) return undefined
  const family = familyOf(first)
  const listed = addresses.map((ip) => toSliceEndpoint({ address: { ip }, ready: true }))
  return newSlice(secondSliceName(family), family, listed, endpoints)
}

/** With the ports of the first subset. */
function newSlice(
  name: string,
  family: 4 | 6,
  listed: readonly SliceEndpoint[],
  { subsets }: Endpoints,
): EndpointSlice {
  const ports = (subsets?.[0]?.ports ?? []).map(({ name: portName, port, protocol }) => ({
    name: portName ?? '',
    port,
    protocol: protocol ?? 'TCP',
  }))
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...KUBERNETES_SERVICE, name, labels: LABELS },
    addressType: `IPv${family}`,
    endpoints: listed,
    ports,
  }
}

function toSliceEndpoint({
  address: { ip, targetRef, nodeName },
  ready,
}: {
  readonly address: EndpointAddress
  readonly ready: boolean
}): SliceEndpoint {
  return {
    addresses: [ip],
    conditions: { ready },
    ...(targetRef === undefined ? {} : { targetRef }),
    ...(nodeName === undefined ? {} : { nodeName }),
  }
}

function familyOf(ip: string): 4 | 6 {
  return ip.includes(':') ? 6 : 4
}

/** Equal as JSON, in whatever order a server stores fields; mostly even that is the same. */
function sameValue(found: unknown, wanted: unknown): boolean {
  const text = JSON.stringify(wanted)
  return JSON.stringify(found) === text || isDeepStrictEqual(found, JSON.parse(text))
}
