import type { EndpointSlice, Endpoints } from '../../../src/kube/resources.ts'
import type { EndpointPort, EndpointSubset, SliceEndpoint } from '../../../src/kubernetes-service/identity.ts'
import { type ListState, own, ownPort } from './list-state.ts'
import type { ModeName } from './modes.ts'

/** The state that a master of either kind finds. */
export interface Start extends ListState {
  /** Unique. */
  readonly name: string
  /** The addresses of other masters with live leases; none for reconcilers without leases. */
  readonly leases?: readonly string[]
}

// Addresses whose texts sort before and after the own one.
export const before = '192.0.2.3'
export const after = ['192.0.2.6', '192.0.2.7', '192.0.2.8'] as const
export const another = after[0]
export const v6 = '2001:db8::9'

export const port: EndpointPort = { name: 'https', port: ownPort, protocol: 'TCP' }
export const pod = { kind: 'Pod', namespace: 'kube-system', name: 'kube-apiserver-1' }
const skipMirror = { 'endpointslice.kubernetes.io/skip-mirror': 'true' }
const serviceName = { 'kubernetes.io/service-name': 'kubernetes' }

/** Endpoints `kubernetes` with these subsets. */
export function endpoints(subsets: readonly EndpointSubset[] | undefined, metadata: object = {}): Endpoints {
  const content = { metadata: { name: 'kubernetes', namespace: 'default', labels: skipMirror, ...metadata } }
  return (subsets === undefined ? content : { ...content, subsets }) as Endpoints
}

export function subset(ips: readonly string[], more: object = {}): EndpointSubset {
  return { addresses: ips.map((ip) => ({ ip })), ports: [port], ...more } as EndpointSubset
}

/** A subset with more fields for its address. */
export function detailed(ip: string): EndpointSubset {
  return { addresses: [{ ip, hostname: 'a', nodeName: 'node-1', targetRef: pod }], ports: [port] } as EndpointSubset
}

/** EndpointSlice `kubernetes` with these addresses, ready. */
export function slice(ips: readonly string[], more: object = {}, metadata: object = {}): EndpointSlice {
  return {
    metadata: { name: 'kubernetes', namespace: 'default', labels: serviceName, ...metadata },
    addressType: 'IPv4',
    endpoints: ips.map((ip) => ready(ip)),
    ports: [port],
    ...more,
  } as EndpointSlice
}

export function ready(ip: string, more: object = {}): SliceEndpoint {
  return { addresses: [ip], conditions: { ready: true }, ...more } as SliceEndpoint
}

/** Endpoints and a slice that list the same addresses. */
export function listing(...ips: readonly string[]): ListState {
  return { endpoints: endpoints([subset(ips)]), slices: [slice(ips)] }
}

/** These Endpoints beside the slice that lists the own address. */
function beside(found: Endpoints): ListState {
  return { endpoints: found, slices: [slice([own])] }
}

/** Endpoints that list the own address beside these slices. */
export function behind(...slices: readonly EndpointSlice[]): ListState {
  return { endpoints: endpoints([subset([own])]), slices }
}

export const wrongPort = { ...port, port: 9443 }
export const udp = { ...port, protocol: 'UDP' }
export const otherName = { ...port, name: 'http' }
export const withAppProtocol = { ...port, appProtocol: 'https' }
export const extraPort = { name: 'metrics', port: 9090, protocol: 'TCP' }

/**
 * The starts that a master with this reconciler may find. A reconciler without leases finds no lease of another master.
 */
export function startsOf(mode: ModeName): readonly Start[] {
  return mode === 'lease' ? starts : starts.filter(({ leases }) => leases === undefined)
}

export const starts: readonly Start[] = [
  { name: 'nothing', slices: [] },
  { name: 'all objects are correct', ...listing(own) },
  { name: 'Endpoints only', endpoints: endpoints([subset([own])]), slices: [] },
  { name: 'slice only', slices: [slice([own])] },
  { name: 'no subset', ...beside(endpoints(undefined)) },
  { name: 'no subset, and an empty slice', endpoints: endpoints([]), slices: [slice([], { ports: [] })] },

  { name: 'another address instead of its own', ...listing(another) },
  { name: 'a dead address beside its own', ...listing(own, another) },
  { name: 'a dead address before its own', ...listing(before, own) },
  { name: 'too many addresses, its own among them', ...listing(before, own, ...after) },
  { name: 'too many addresses without its own', ...listing(before, ...after) },
  { name: 'its own address twice', ...beside(endpoints([subset([own, own])])) },
  { name: 'an IPv6 address beside its own', ...beside(endpoints([subset([own, v6])])) },
  {
    name: 'an IPv6 address instead of its own',
    endpoints: endpoints([subset([v6])]),
    slices: [slice([v6], { addressType: 'IPv6' })],
  },
  {
    name: 'hostname, node and target of its own address',
    ...beside(endpoints([detailed(own)])),
  },
  {
    name: 'hostname, node and target of a dead address',
    ...beside(endpoints([detailed(another)])),
  },

  { name: 'another value of the label', ...beside(endpoints([subset([own])], { labels: labelled('false') })) },
  { name: 'no label', ...beside(endpoints([subset([own])], { labels: {} })) },
  { name: 'no label, and a dead address', ...beside(endpoints([subset([own, another])], { labels: {} })) },
  { name: 'a foreign label', ...beside(endpoints([subset([own])], { labels: { ...skipMirror, team: 'a' } })) },
  { name: 'a foreign annotation', ...beside(endpoints([subset([own])], { annotations: { note: 'a' } })) },

  { name: 'another port', ...beside(endpoints([subset([own], { ports: [wrongPort] })])) },
  { name: 'another port, and a dead address', ...beside(endpoints([subset([own, another], { ports: [wrongPort] })])) },
  { name: 'another protocol', ...beside(endpoints([subset([own], { ports: [udp] })])) },
  { name: 'another port name', ...beside(endpoints([subset([own], { ports: [otherName] })])) },
  { name: 'an additional port', ...beside(endpoints([subset([own], { ports: [port, extraPort] })])) },
  { name: 'no port', ...beside(endpoints([subset([own], { ports: undefined })])) },
  {
    name: 'an application protocol of the port',
    ...beside(endpoints([subset([own], { ports: [withAppProtocol] })])),
  },

  { name: 'two subsets', ...beside(endpoints([subset([own]), subset([another], { ports: [wrongPort] })])) },
  { name: 'two subsets without its own address', ...beside(endpoints([subset([before]), subset([another])])) },
  {
    name: 'a foreign address that is not ready',
    ...beside(endpoints([subset([own], { notReadyAddresses: [{ ip: another }] })])),
  },
  {
    name: 'its own address not ready',
    ...beside(endpoints([{ notReadyAddresses: [{ ip: own }], ports: [port] }])),
  },
  {
    name: 'its own address not ready, and another one ready',
    ...beside(endpoints([subset([another], { notReadyAddresses: [{ ip: own }] })])),
  },

  { name: 'the slice without its label', ...behind(slice([own], {}, { labels: {} })) },
  {
    name: 'the slice with a foreign label',
    ...behind(slice([own], {}, { labels: { ...serviceName, 'endpointslice.kubernetes.io/managed-by': 'a' } })),
  },
  { name: 'the slice with a foreign annotation', ...behind(slice([own], {}, { annotations: { note: 'a' } })) },
  {
    name: 'the slice with a foreign annotation, and a dead address',
    ...behind(slice([own, another], {}, { annotations: { note: 'a' } })),
  },
  {
    name: 'the slice with an owner, and a dead address',
    ...behind(slice([own, another], {}, { ownerReferences: [owner()] })),
  },
  { name: 'the slice with a dead address', ...behind(slice([own, another])) },
  { name: 'the slice without addresses', ...behind(slice([])) },
  { name: 'the slice with another port', ...behind(slice([own], { ports: [wrongPort] })) },
  { name: 'the slice with another protocol', ...behind(slice([own], { ports: [udp] })) },
  { name: 'the slice without ports', ...behind(slice([own], { ports: [] })) },
  {
    name: 'the slice not ready',
    ...behind(slice([own], { endpoints: [{ addresses: [own], conditions: { ready: false } }] })),
  },
  {
    name: 'the slice with a zone and a node',
    ...behind(slice([own], { endpoints: [ready(own, { zone: 'a', nodeName: 'node-1' })] })),
  },
  { name: 'the slice of another address family', ...behind(slice([v6], { addressType: 'IPv6' })) },
  {
    name: 'the slice of type FQDN',
    ...behind(slice([], { addressType: 'FQDN', endpoints: [ready('kubernetes.example.com')] })),
  },
  {
    name: 'another slice of the Service',
    ...behind(slice([own]), slice([another], {}, { name: 'kubernetes-x7k2p' })),
  },

  { name: 'another master lives, and is not listed', leases: [another], ...listing(own) },
  { name: 'another master lives, and is listed', leases: [another], ...listing(own, another) },
  { name: 'another master lives, and is listed first', leases: [another], ...listing(another, own) },
  { name: 'another master lives, and no objects exist', leases: [another], slices: [] },
  { name: 'another master lives beside a dead one', leases: [another], ...listing(before, own, another) },
  {
    name: 'another master lives, and the port is another',
    leases: [another],
    endpoints: endpoints([subset([own, another], { ports: [wrongPort] })]),
    slices: [slice([own, another], { ports: [wrongPort] })],
  },
  {
    name: 'another master lives, the port is another, and it is not listed',
    leases: [another],
    ...beside(endpoints([subset([own], { ports: [wrongPort] })])),
  },
  { name: 'three other masters live', leases: [before, ...after.slice(1)], ...listing(own) },
  { name: 'another master with an address of another family lives', leases: [v6], ...listing(own) },
]

function labelled(value: string): object {
  return { 'endpointslice.kubernetes.io/skip-mirror': value }
}

export function owner(): object {
  return { apiVersion: 'v1', kind: 'Service', name: 'kubernetes', uid: '00000000-0000-4000-8000-000000000000' }
}
