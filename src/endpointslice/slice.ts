import type { EndpointSlice, Pod, Service } from '../kube/resources.ts'
import { tryParseAddress } from '../net/address.ts'
import { getOrMake } from '../runtime/memo.ts'
import { inHashOrder } from '../workloads/hash-order.ts'
import { findPorts, hasClusterIp, portMappings, type ServicePort } from '../workloads/pod-rules.ts'

export type AddressType = 'IPv4' | 'IPv6'

/**
 * The desired slices of one address type of a Service, before hints are decided, without slices to delete. The objects
 * are immutable: to change the hints of an endpoint, create a new endpoint and a new slice.
 */
export interface SliceInfo {
  /** `namespace/name` of the Service. */
  readonly serviceKey: string
  readonly addressType: AddressType
  /** New slices, which have no name yet. */
  readonly toCreate: readonly EndpointSlice[]
  /**
   * New versions of existing slices, with their names and resourceVersions. Endpoints copied from the existing slices
   * still have their hints; endpoints made from Pods have none.
   */
  readonly toUpdate: readonly EndpointSlice[]
  /** Slices as the informer has them, with their hints. */
  readonly unchanged: readonly EndpointSlice[]
}

/** The slices to write. Those of `create` have no name yet; those of `update` replace slices of the same names. */
export interface SliceWrites {
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly remove: readonly EndpointSlice[]
}

/** An Event about the hints of a Service. */
export interface HintsEvent {
  readonly reason: 'TopologyAwareHintsEnabled' | 'TopologyAwareHintsDisabled'
  readonly note: string
}

/**
 * The slices of a {@link SliceInfo} with the decided hints. `update` has all slices of `toUpdate`, and the slices of
 * `unchanged` whose hints change.
 */
export interface HintedSlices {
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly events: readonly HintsEvent[]
}

export type Labels = Readonly<Record<string, string>>

export const serviceNameLabel = 'kubernetes.io/service-name'

export const managedByLabel = 'endpointslice.kubernetes.io/managed-by'

/** The label, without a value, of slices whose Service has no ClusterIP. */
const headlessLabel = 'service.kubernetes.io/headless'

/** The key (`namespace/name`) of the Service that a slice names; undefined if it names none. */
export function serviceKeyOf(slice: EndpointSlice): string | undefined {
  const name = slice.metadata?.labels?.[serviceNameLabel]
  return name === undefined || name === '' ? undefined : `${slice.metadata?.namespace ?? ''}/${name}`
}

/**
 * The labels of a Service's slices: the Service's own, and the reserved ones, whose values this function determines.
 */
export function labelsOfSlices(service: Service, managedBy: string): Labels {
  const labels: Record<string, string> = {}
  for (const [key, value] of Object.entries(service.metadata?.labels ?? {})) if (!isReserved(key)) labels[key] = value
  if (!hasClusterIp(service)) labels[headlessLabel] = ''
  labels[serviceNameLabel] = service.metadata?.name ?? ''
  labels[managedByLabel] = managedBy
  return labels
}

/** Whether the labels of a slice differ from the desired ones. As upstream, reserved labels do not count. */
export function labelsDiffer(slice: EndpointSlice, wanted: Labels): boolean {
  const labels = slice.metadata?.labels ?? {}
  let own = 0
  for (const key in labels) {
    if (isReserved(key)) continue
    if (!Object.hasOwn(wanted, key) || labels[key] !== wanted[key]) return true
    own++
  }
  for (const key in wanted) if (!isReserved(key)) own--
  return own !== 0
}

function isReserved(key: string): boolean {
  return key === serviceNameLabel || key === managedByLabel || key === headlessLabel
}

/**
 * The address types of a Service's slices: its `ipFamilies`. A Service without `ipFamilies`, as on very old servers,
 * gets the family of its ClusterIP, or both families if it has no ClusterIP (upstream's `getAddressTypesForService`).
 */
export function addressTypesOf(service: Service): readonly AddressType[] {
  const { ipFamilies, clusterIP } = service.spec ?? {}
  const named = (ipFamilies ?? []).filter((family): family is AddressType => family === 'IPv4' || family === 'IPv6')
  if (named.length > 0) return [...new Set(named)]
  if (clusterIP === undefined || clusterIP === '' || clusterIP === 'None') return ['IPv4', 'IPv6']
  return [tryParseAddress(clusterIP)?.family === 6 ? 'IPv6' : 'IPv4']
}

/**
 * Returns a function that resolves a Service's ports for a Pod. Pods with equal port numbers get the same array, unless
 * the Pods have had thousands of other numbers in between.
 */
export function portsOfPods(service: Service): (pod: Pod) => readonly EndpointPort[] {
  const ports = service.spec?.ports ?? []
  const mappingOf = portMappings(ports)
  const known = new Map<string, readonly EndpointPort[]>()
  const made = new Map<string, EndpointPort>()
  const hashes = new Map<EndpointPort, string>()
  /** The ports with their numbers, in order. A port for which the Pod has no number is left out. */
  const make = (pod: Pod): readonly EndpointPort[] => {
    if (known.size * ports.length > MOST_CACHED) for (const cache of [known, made, hashes]) cache.clear()
    const found: EndpointPort[] = []
    for (const [index, number] of findPorts(pod, ports).entries()) {
      if (number === undefined) continue
      found.push(getOrMake(made, `${index} ${number}`, () => endpointPort(ports[index] as ServicePort, number)))
    }
    return portsInOrder(found, hashes)
  }
  return (pod) => getOrMake(known, mappingOf(pod), () => make(pod))
}

/** How many ports are cached. Over time the Pods of a Service can have ever new port numbers. */
const MOST_CACHED = 100_000

function endpointPort({ name = '', protocol = 'TCP', appProtocol }: ServicePort, port: number): EndpointPort {
  return { name, port, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) }
}

export type EndpointPort = NonNullable<EndpointSlice['ports']>[number]

const keys = new WeakMap<readonly EndpointPort[], string>()

/**
 * A key that is equal for lists of the same ports in any order. Upstream's `NewPortMapKey`, by which the endpoints of a
 * Service are grouped. The key is cached with the list, so the list must not change.
 */
export function portsKey(ports: readonly EndpointPort[] | null | undefined): string {
  if (ports === null || ports === undefined || ports.length === 0) return ''
  return getOrMake(keys, ports, () => ports.map(goText).sort().join('\n'))
}

/** The ports in the order in which kube-controller-manager writes them: by the hashes of their Go form. */
export function portsInOrder(
  ports: readonly EndpointPort[],
  hashes?: Map<EndpointPort, string>,
): readonly EndpointPort[] {
  return inHashOrder(ports, goText, hashes)
}

/** A port as Go's spew prints it. Upstream hashes this text. */
function goText({ name, protocol, port, appProtocol }: EndpointPort): string {
  return (
    `(v1.EndpointPort){Name:(*string)${name ?? '<nil>'} Protocol:(*v1.Protocol)${protocol ?? '<nil>'} ` +
    `Port:(*int32)${port ?? '<nil>'} AppProtocol:(*string)${appProtocol ?? '<nil>'}}`
  )
}
