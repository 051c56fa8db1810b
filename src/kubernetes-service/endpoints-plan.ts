import type { EndpointSlice, Endpoints } from '../kube/resources.ts'
import { familyOf } from '../net/address.ts'
import { equalJson } from '../runtime/equal-json.ts'
import type { ObjectAction, RemovableAction } from './guarded-writes/object-writer.ts'
import {
  addressesIn,
  type EndpointAddress,
  type EndpointPort,
  type EndpointSubset,
  KUBERNETES_SERVICE,
  SERVICE_NAME_LABEL,
  SKIP_MIRROR_LABEL,
  type SliceEndpoint,
  samePorts,
} from './identity.ts'

export type EndpointsAction =
  | ObjectAction<Endpoints>
  /** There is no address to list. A fault of the store is more likely than the death of all masters. */
  | { readonly type: 'refuse' }

export interface EndpointsObservation {
  /** The addresses to list, sorted, without duplicates. */
  readonly addresses: readonly string[]
  readonly current: Endpoints | undefined
  readonly ports: readonly EndpointPort[]
  /** False if masters may want different ports. Ports then stay, unless the object or its subset is created again. */
  readonly reconcilePorts: boolean
  /** Whether the list may become empty. Missing Endpoints are then not created. */
  readonly mayBecomeEmpty: boolean
}

/**
 * Decides what must change so that Endpoints `default/kubernetes` list exactly `addresses`.
 *
 * Pure. Foreign metadata is preserved. So are the per-address fields of remaining addresses, if there is exactly one
 * subset. Results equal those of upstream's lease reconciler (pkg/controlplane/reconcilers/lease.go), except that
 * notReadyAddresses, which upstream leaves in place, are removed.
 */
export function planEndpoints(observed: EndpointsObservation): EndpointsAction {
  const { addresses, current, ports, mayBecomeEmpty } = observed
  if (current === undefined) {
    if (mayBecomeEmpty) return { type: 'none' }
    if (addresses.length === 0) return { type: 'refuse' }
    return { type: 'create', object: newEndpoints(addresses, ports), reasons: ['missing'] }
  }
  if (addresses.length === 0 && !mayBecomeEmpty) return { type: 'refuse' }

  const reasons: string[] = []
  const labelled = current.metadata?.labels?.[SKIP_MIRROR_LABEL] === 'true'
  if (!labelled) reasons.push('skip-mirror-label')
  const subsets = planSubsets(observed, current.subsets ?? [], reasons)
  if (reasons.length === 0) return { type: 'none' }
  const metadata = {
    ...current.metadata,
    labels: { ...current.metadata?.labels, [SKIP_MIRROR_LABEL]: 'true' },
  }
  return { type: 'update', object: { ...current, metadata, subsets } as Endpoints, reasons }
}

function planSubsets(
  { addresses, ports, reconcilePorts }: EndpointsObservation,
  current: readonly EndpointSubset[],
  reasons: string[],
): readonly EndpointSubset[] {
  const [subset] = current
  if (current.length !== 1 || subset === undefined) {
    if (current.length === 0 && addresses.length === 0) return current
    reasons.push('subsets')
    return subsetsOf({ ports }, addresses)
  }
  let next = subset
  if ((subset.notReadyAddresses?.length ?? 0) > 0) {
    reasons.push('not-ready-addresses')
    const { notReadyAddresses: _removed, ...rest } = next
    next = rest
  }
  if (reconcilePorts && !samePorts(subset.ports ?? [], ports)) {
    reasons.push('ports')
    next = { ...next, ports }
  }
  const found = addressesIn({ subsets: [subset] }).toSorted()
  if (!equalJson(found, addresses.toSorted())) {
    reasons.push('addresses')
    return subsetsOf(next, addresses)
  }
  return [next]
}

function subsetsOf(base: EndpointSubset, addresses: readonly string[]): readonly EndpointSubset[] {
  if (addresses.length === 0) return []
  const known = new Map((base.addresses ?? []).map((address) => [address.ip, address]))
  return [{ ...base, addresses: addresses.map((ip) => known.get(ip) ?? { ip }) }]
}

export function newEndpoints(addresses: readonly string[], ports: readonly EndpointPort[]): Endpoints {
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...KUBERNETES_SERVICE, labels: { [SKIP_MIRROR_LABEL]: 'true' } },
    subsets: [{ addresses: addresses.map((ip) => ({ ip })), ports }],
  }
}

const LABELS = { [SERVICE_NAME_LABEL]: KUBERNETES_SERVICE.name }

/**
 * Decides what must change so that EndpointSlice `default/kubernetes` lists what the Endpoints of that name list. Pure.
 * Unlike upstream (`EndpointsAdapter` in pkg/controlplane/reconcilers/endpointsadapter.go), an update preserves foreign
 * metadata except labels, and is guarded by the object's resourceVersion.
 */
export function planEndpointSlice(
  endpoints: Endpoints,
  current: EndpointSlice | undefined,
): RemovableAction<EndpointSlice> {
  return planSlice(sliceOf(endpoints), current)
}

/**
 * Decides what must change so that the second slice is as desired, or is removed if none is wanted. Pure. An existing
 * slice is removed only if it is evidently ours: it has only our label and no owner.
 */
export function planSecondSlice(
  wanted: EndpointSlice | undefined,
  current: EndpointSlice | undefined,
): RemovableAction<EndpointSlice> {
  if (wanted !== undefined) return planSlice(wanted, current)
  if (current === undefined) return { type: 'none' }
  const { labels, ownerReferences } = current.metadata ?? {}
  const isOurs = equalJson(labels, LABELS) && (ownerReferences ?? []).length === 0
  return isOurs ? { type: 'remove', reasons: ['single-stack'] } : { type: 'none' }
}

function planSlice(wanted: EndpointSlice, current: EndpointSlice | undefined): RemovableAction<EndpointSlice> {
  if (current === undefined) return { type: 'create', object: wanted, reasons: ['missing'] }
  if (current.addressType !== wanted.addressType) {
    return { type: 'replace', object: wanted, reasons: ['address-type'] }
  }
  const { endpoints, ports } = wanted
  const reasons: string[] = []
  if (!equalJson(current.metadata?.labels, LABELS)) reasons.push('labels')
  if (!equalJson(current.endpoints ?? [], endpoints)) reasons.push('endpoints')
  if (!equalJson(current.ports ?? [], ports)) reasons.push('ports')
  if (reasons.length === 0) return { type: 'none' }
  const metadata = { ...current.metadata, labels: LABELS }
  return { type: 'update', object: { ...current, metadata, endpoints, ports } as EndpointSlice, reasons }
}

/** The slice for the first subset of these Endpoints: its ports, and its IPv4 addresses unless all are IPv6. */
export function sliceOf(endpoints: Endpoints): EndpointSlice {
  const subset = endpoints.subsets?.[0]
  const listed = [
    ...(subset?.addresses ?? []).map((address) => ({ address, ready: true })),
    ...(subset?.notReadyAddresses ?? []).map((address) => ({ address, ready: false })),
  ]
  const family = listed.length > 0 && listed.every(({ address }) => familyOf(address.ip) === 'IPv6') ? 'IPv6' : 'IPv4'
  const ofFamily = listed.filter(({ address }) => familyOf(address.ip) === family)
  const sliceEndpoints = ofFamily.map(({ address, ready }) => toSliceEndpoint(address, ready))
  return newSlice(KUBERNETES_SERVICE.name, family, sliceEndpoints, endpoints)
}

/** The name of the second slice if it lists addresses of this family: `kubernetes-ipv4` or `kubernetes-ipv6`. */
export function secondSliceName(family: 'IPv4' | 'IPv6'): string {
  return `${KUBERNETES_SERVICE.name}-${family.toLowerCase()}`
}

/**
 * The slice that lists the second addresses of the listed masters, with the ports of these Endpoints. Undefined without
 * such addresses, or if the Endpoints have no subset. `addresses`: all of one family, sorted, without duplicates.
 */
export function secondSliceOf(
  endpoints: Endpoints | undefined,
  addresses: readonly string[] = [],
): EndpointSlice | undefined {
  const [first] = addresses
  if (first === undefined || endpoints?.subsets?.[0] === undefined) return undefined
  const family = familyOf(first)
  const listed = addresses.map((ip) => toSliceEndpoint({ ip }, true))
  return newSlice(secondSliceName(family), family, listed, endpoints)
}

function newSlice(
  name: string,
  addressType: 'IPv4' | 'IPv6',
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
    addressType,
    endpoints: listed,
    ports,
  }
}

function toSliceEndpoint({ ip, targetRef, nodeName }: EndpointAddress, ready: boolean): SliceEndpoint {
  return {
    addresses: [ip],
    conditions: { ready },
    ...(targetRef !== undefined && { targetRef }),
    ...(nodeName !== undefined && { nodeName }),
  }
}
