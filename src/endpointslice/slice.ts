import type { EndpointSlice, Pod, Service } from '../kube/resources.ts'
import { tryParseAddress } from '../net/address.ts'
import { findPort, hasClusterIp, type ServicePort } from '../workloads/pod-rules.ts'

export type AddressType = 'IPv4' | 'IPv6'

/**
 * The desired slices of one address type of a Service, before hints are decided. The objects are immutable: to change
 * the hints of an endpoint, create a new endpoint and a new slice. Slices to be deleted are not included.
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

/** An Event about the hints of a Service. */
export interface HintsEvent {
  readonly reason: 'TopologyAwareHintsEnabled' | 'TopologyAwareHintsDisabled'
  readonly note: string
}

/**
 * The slices of a {@link SliceInfo} with the decided hints. `update` has all of `toUpdate`, and those of `unchanged`
 * whose hints change.
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

/** The labels of a Service's slices: those of the Service, and the reserved ones, which this function sets itself. */
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
 * has the family of its ClusterIP, or without a ClusterIP both families (upstream's `getAddressTypesForService`).
 */
export function addressTypesOf(service: Service): readonly AddressType[] {
  const { ipFamilies, clusterIP } = service.spec ?? {}
  const named = (ipFamilies ?? []).filter((family): family is AddressType => family === 'IPv4' || family === 'IPv6')
  if (named.length > 0) return [...new Set(named)]
  if (clusterIP === undefined || clusterIP === '' || clusterIP === 'None') return ['IPv4', 'IPv6']
  return [tryParseAddress(clusterIP)?.family === 6 ? 'IPv6' : 'IPv4']
}

/** Returns a function that resolves a Service's ports for a Pod. Pods with equal port numbers get the same array. */
export function portsOfPods(service: Service): (pod: Pod) => readonly EndpointPort[] {
  const ports = service.spec?.ports ?? []
  if (ports.every(({ targetPort }) => typeof targetPort !== 'string')) {
    let common: readonly EndpointPort[] | undefined
    return (pod) => {
      common ??= numbered(ports.map((port) => [port, findPort(pod, port)]))
      return common
    }
  }
  const known = new Map<string, readonly EndpointPort[]>()
  return (pod) => {
    const numbers = ports.map((port) => findPort(pod, port))
    const key = numbers.join()
    let found = known.get(key)
    if (found === undefined) {
      found = numbered(ports.map((port, index) => [port, numbers[index]]))
      known.set(key, found)
    }
    return found
  }
}

/** The ports with their numbers. A port for which the Pod has no number is left out. */
function numbered(
  ports: readonly (readonly [port: ServicePort, number: number | undefined])[],
): readonly EndpointPort[] {
  const found = ports.flatMap(([{ name = '', protocol = 'TCP', appProtocol }, port]): EndpointPort[] =>
    port === undefined ? [] : [{ name, port, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) }],
  )
  return inHashOrder(found)
}

export type EndpointPort = NonNullable<EndpointSlice['ports']>[number]

const keys = new WeakMap<readonly EndpointPort[], string>()

/**
 * A key that is equal for lists of the same ports in any order. It groups the endpoints of a Service (upstream's
 * `NewPortMapKey`). The key is cached with the list, so the list must not change.
 */
export function portsKey(ports: readonly EndpointPort[] | null | undefined): string {
  if (ports === null || ports === undefined || ports.length === 0) return ''
  let key = keys.get(ports)
  if (key === undefined) {
    key = ports.map(goText).sort().join('\n')
    keys.set(ports, key)
  }
  return key
}

/** The ports in the order in which kube-controller-manager writes them: by the hashes of their Go form. */
export function inHashOrder(ports: readonly EndpointPort[]): readonly EndpointPort[] {
  if (ports.length < 2) return ports
  const hashed = ports.map((port) => ({ port, hash: fnv128a(goText(port)) }))
  const ordered = hashed.every(({ hash }, index) => index === 0 || (hashed[index - 1]?.hash ?? '') <= hash)
  if (ordered) return ports
  return hashed.sort((a, b) => (a.hash < b.hash ? -1 : a.hash > b.hash ? 1 : 0)).map(({ port }) => port)
}

/** A port as Go's spew prints it. Upstream hashes this text. */
function goText({ name, protocol, port, appProtocol }: EndpointPort): string {
  return (
    `(v1.EndpointPort){Name:(*string)${name ?? '<nil>'} Protocol:(*v1.Protocol)${protocol ?? '<nil>'} ` +
    `Port:(*int32)${port ?? '<nil>'} AppProtocol:(*string)${appProtocol ?? '<nil>'}}`
  )
}

const OFFSET = 0x6c62272e07bb014262b821756295c58dn
/** The low part of the prime, which is 2^88 + 0x13b. */
const FACTOR = 0x13b
/**
 * The hash is held in six limbs, the lowest first, so that no product exceeds 31 bits, and 2^88 is a shift by four
 * limbs.
 */
const LIMB_BITS = 22
const limbMask = 2 ** LIMB_BITS - 1
const topMask = 2 ** (128 - 5 * LIMB_BITS) - 1
const encoder = new TextEncoder()

/** FNV-1a of 128 bits over the UTF-8 of a text, in 32 hexadecimal digits: as Go's `fnv.New128a`. */
export function fnv128a(text: string): string {
  let [h0, h1, h2, h3, h4, h5] = [limb(0), limb(1), limb(2), limb(3), limb(4), limb(5)]
  const bytes = encoder.encode(text)
  // The loop uses an index, because an iterator takes twice the time.
  for (let index = 0; index < bytes.length; index++) {
    h0 ^= bytes[index] as number
    const low = h0
    const second = h1
    let product = h0 * FACTOR
    h0 = product & limbMask
    product = h1 * FACTOR + (product >>> LIMB_BITS)
    h1 = product & limbMask
    product = h2 * FACTOR + (product >>> LIMB_BITS)
    h2 = product & limbMask
    product = h3 * FACTOR + (product >>> LIMB_BITS)
    h3 = product & limbMask
    product = h4 * FACTOR + (product >>> LIMB_BITS) + low
    h4 = product & limbMask
    product = h5 * FACTOR + (product >>> LIMB_BITS) + second
    h5 = product & topMask
  }
  const hash = [h5, h4, h3, h2, h1, h0].reduce((value, part) => (value << BigInt(LIMB_BITS)) | BigInt(part), 0n)
  return hash.toString(16).padStart(32, '0')
}

function limb(index: number): number {
  return Number((OFFSET >> BigInt(index * LIMB_BITS)) & BigInt(limbMask))
}
