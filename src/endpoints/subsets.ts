import { fnv128a } from '../endpointslice/slice.ts'
import type { Endpoints, Service } from '../kube/resources.ts'

export type EndpointSubset = NonNullable<Endpoints['subsets']>[number]
export type EndpointPort = NonNullable<EndpointSubset['ports']>[number]
export type EndpointAddress = NonNullable<EndpointSubset['addresses']>[number]

type TargetRef = NonNullable<EndpointAddress['targetRef']>
/** A list from a server: absent, null and empty are equal. */
type List<T> = readonly T[] | null | undefined

/**
 * Whether two lists of subsets are equal in the same order (upstream's `endpointSubsetsEqualIgnoreResourceVersion`):
 * absent and empty lists and texts are equal, but an absent `nodeName` or `appProtocol` is not an empty one; the
 * resourceVersion of a Pod does not count.
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

/** Orders by the text of the IP, then by the uid of the Pod (upstream's `LessEndpointAddress`). */
export function compareEndpointAddresses(a: EndpointAddress, b: EndpointAddress): number {
  return compareTexts(a.ip, b.ip) || compareTexts(a.targetRef?.uid ?? '', b.targetRef?.uid ?? '')
}

/**
 * The ports in the order in which kube-controller-manager writes them: by the hash of their Go form.
 *
 * Upstream accepts any stored order. We reproduce the hash for two reasons: truncation depends on the order of subsets,
 * and a switch to or from kube-controller-manager must rewrite nothing.
 */
export function portsInOrder(ports: readonly EndpointPort[]): readonly EndpointPort[] {
  return inHashOrder(ports, (port) => `(v1.EndpointPort)${portText(port)}`)
}

/** As {@link portsInOrder}, for subsets. Their addresses and ports must be in order already. */
export function subsetsInOrder(subsets: readonly EndpointSubset[]): readonly EndpointSubset[] {
  return inHashOrder(subsets, subsetText)
}

function inHashOrder<T>(items: readonly T[], textOf: (item: T) => string): readonly T[] {
  if (items.length < 2) return items
  return items
    .map((item) => ({ item, hash: fnv128a(textOf(item)) }))
    .sort((a, b) => compareTexts(a.hash, b.hash))
    .map(({ item }) => item)
}

// The functions below print these types as Go's spew does, because upstream hashes that text.

function subsetText({ addresses, notReadyAddresses, ports }: EndpointSubset): string {
  return (
    `(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)${listText(addresses, addressText)} ` +
    `NotReadyAddresses:([]v1.EndpointAddress)${listText(notReadyAddresses, addressText)} ` +
    `Ports:([]v1.EndpointPort)${listText(ports, portText)}}`
  )
}

function listText<T>(items: List<T>, textOf: (item: T) => string): string {
  return items === null || items === undefined || items.length === 0 ? '<nil>' : `[${items.map(textOf).join(' ')}]`
}

function addressText({ ip, hostname, nodeName, targetRef }: EndpointAddress): string {
  return (
    `{IP:(string)${ip} Hostname:(string)${hostname ?? ''} NodeName:(*string)${nodeName ?? '<nil>'} ` +
    `TargetRef:(*v1.ObjectReference)${targetRef === undefined || targetRef === null ? '<nil>' : targetText(targetRef)}}`
  )
}

function targetText(target: NonNullable<EndpointAddress['targetRef']>): string {
  const {
    kind = '',
    namespace = '',
    name = '',
    uid = '',
    apiVersion = '',
    resourceVersion = '',
    fieldPath = '',
  } = target
  return (
    `{Kind:(string)${kind} Namespace:(string)${namespace} Name:(string)${name} UID:(types.UID)${uid} ` +
    `APIVersion:(string)${apiVersion} ResourceVersion:(string)${resourceVersion} FieldPath:(string)${fieldPath}}`
  )
}

function portText({ name, port, protocol, appProtocol }: EndpointPort): string {
  return (
    `{Name:(string)${name ?? ''} Port:(int32)${port ?? 0} Protocol:(v1.Protocol)${protocol ?? ''} ` +
    `AppProtocol:(*string)${appProtocol ?? '<nil>'}}`
  )
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

type Addresses = readonly (EndpointAddress | undefined)[]

const lastOrders = new WeakMap<Service, readonly number[]>()

/**
 * The indexes of the addresses in listing order. Indexes of undefined addresses may be anywhere.
 *
 * If the addresses are still sorted in the last order for the Service, returns that order. Usually they are, because
 * one Pod changes at a time. This saves the sorting of thousands of addresses, which is most of the work of a sync.
 */
export function listedOrder(service: Service, addresses: Addresses): readonly number[] {
  const last = lastOrders.get(service)
  if (last !== undefined && holds(last, addresses)) return last
  const present: number[] = []
  const absent: number[] = []
  for (let place = 0; place < addresses.length; place++) (addresses[place] === undefined ? absent : present).push(place)
  present.sort((a, b) => compareEndpointAddresses(addresses[a] as EndpointAddress, addresses[b] as EndpointAddress))
  const order = [...present, ...absent]
  lastOrders.set(service, order)
  return order
}

function holds(order: readonly number[], addresses: Addresses): boolean {
  if (order.length !== addresses.length) return false
  let before: EndpointAddress | undefined
  for (const place of order) {
    const address = addresses[place]
    if (address === undefined) continue
    if (before !== undefined && compareEndpointAddresses(before, address) > 0) return false
    before = address
  }
  return true
}

/** The addresses that offer a port, and whether they are ready for it. */
type Offers = Map<EndpointAddress, boolean>

/**
 * Brings subsets into their canonical form: each port is paired with each of its addresses, then the ports that have
 * the same addresses in the same state are grouped, all in order (upstream's `RepackSubsets`). An address is identified
 * by its IP and the uid of its Pod. An address that is both ready and not ready for a port counts as not ready.
 * Idempotent, except for ports with an `appProtocol`, and for ports with the number 0, which servers refuse.
 */
export function repackSubsets(subsets: List<EndpointSubset>): readonly EndpointSubset[] {
  const only = subsets?.length === 1 ? subsets[0] : undefined
  if (only !== undefined && isPacked(only)) return [withPortsInOrder(only)]
  return subsetsInOrder(pack(offersByPort(subsets ?? [])))
}

/** A subset of these addresses and ports, which must be in order. */
export function subsetOf(
  addresses: readonly EndpointAddress[],
  notReadyAddresses: readonly EndpointAddress[],
  ports: readonly EndpointPort[],
): EndpointSubset {
  return {
    ...(addresses.length === 0 ? {} : { addresses: addresses as EndpointAddress[] }),
    ...(notReadyAddresses.length === 0 ? {} : { notReadyAddresses: notReadyAddresses as EndpointAddress[] }),
    ...(ports.length === 0 ? {} : { ports: ports as EndpointPort[] }),
  }
}

/** Whether a subset needs no repacking, except an ordering of its ports. This is so for most stored subsets. */
function isPacked({ addresses, notReadyAddresses, ports }: EndpointSubset): boolean {
  const ready = addresses ?? []
  const notReady = notReadyAddresses ?? []
  if (ready.length + notReady.length === 0) return false
  if (!ascending(ready) || !ascending(notReady) || overlap(ready, notReady)) return false
  return ports === undefined || ports === null || ports.length === 1 || areDistinct(ports)
}

function withPortsInOrder({ addresses, notReadyAddresses, ports }: EndpointSubset): EndpointSubset {
  const listed = (ports ?? []).filter(({ port }) => port > 0)
  return subsetOf(addresses ?? [], notReadyAddresses ?? [], portsInOrder(listed))
}

function ascending(addresses: readonly EndpointAddress[]): boolean {
  for (let index = 1; index < addresses.length; index++) {
    const [before, after] = [addresses[index - 1] as EndpointAddress, addresses[index] as EndpointAddress]
    if (compareEndpointAddresses(before, after) >= 0) return false
  }
  return true
}

/** Whether two ascending lists have an address in common. */
function overlap(a: readonly EndpointAddress[], b: readonly EndpointAddress[]): boolean {
  let i = 0
  let j = 0
  while (i < a.length && j < b.length) {
    const order = compareEndpointAddresses(a[i] as EndpointAddress, b[j] as EndpointAddress)
    if (order === 0) return true
    if (order < 0) i++
    else j++
  }
  return false
}

function areDistinct(ports: readonly EndpointPort[]): boolean {
  return new Set(ports.map((port) => portKey(port, ''))).size === ports.length
}

interface Offered {
  readonly port: EndpointPort | undefined
  readonly offers: Offers
}

function offersByPort(subsets: readonly EndpointSubset[]): readonly Offered[] {
  const known = new Map<string, EndpointAddress>()
  const byPort = new Map<string, Offered>()
  for (const [index, { addresses, notReadyAddresses, ports }] of subsets.entries()) {
    if ((addresses?.length ?? 0) + (notReadyAddresses?.length ?? 0) === 0) continue
    const listed: readonly (EndpointPort | undefined)[] = (ports?.length ?? 0) === 0 ? [undefined] : (ports ?? [])
    for (const [place, port] of listed.entries()) {
      // In Go an appProtocol is a pointer, so upstream treats two ports with equal appProtocols as different.
      const key = port === undefined ? '' : portKey(port, `${index}/${place}`)
      const { offers } = gotOrMade(byPort, key, () => ({ port, offers: new Map() }))
      for (const address of addresses ?? []) offer(offers, address, true)
      for (const address of notReadyAddresses ?? []) offer(offers, address, false)
    }
  }
  return [...byPort.values()]

  function offer(offers: Offers, address: EndpointAddress, ready: boolean): void {
    const first = gotOrMade(known, `${address.ip} ${address.targetRef?.uid ?? ''}`, () => address)
    if (offers.get(first) !== false) offers.set(first, ready)
  }
}

/** Equal for equal ports; `place` distinguishes those with an appProtocol. */
function portKey({ name, port, protocol, appProtocol }: EndpointPort, place: string): string {
  const key = `${name ?? ''} ${port} ${protocol ?? ''}`
  return appProtocol === undefined || appProtocol === null ? key : `${key} ${appProtocol} ${place}`
}

function pack(ports: readonly Offered[]): readonly EndpointSubset[] {
  const numbers = new Map<EndpointAddress, number>()
  const groups = new Map<string, { readonly offers: Offers; readonly ports: EndpointPort[] }>()
  for (const { port, offers } of ports) {
    const key = [...offers]
      .map(([address, ready]) => `${gotOrMade(numbers, address, () => numbers.size)}${ready ? '' : '!'}`)
      .sort()
      .join(' ')
    const group = gotOrMade(groups, key, () => ({ offers, ports: [] }))
    // Without a port, or with port 0, the addresses offer no port that can be listed.
    if (port !== undefined && port.port > 0) group.ports.push(port)
  }
  return [...groups.values()].map(({ offers, ports }) => {
    const sorted = [...offers].sort(([a], [b]) => compareEndpointAddresses(a, b))
    const listed = (wanted: boolean): readonly EndpointAddress[] =>
      sorted.filter(([, ready]) => ready === wanted).map(([address]) => address)
    return subsetOf(listed(true), listed(false), portsInOrder(ports))
  })
}

function gotOrMade<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = map.get(key)
  if (value === undefined) {
    value = make()
    map.set(key, value)
  }
  return value
}
