import type { Endpoints } from '../kube/resources.ts'
import { compareTexts } from '../runtime/compare-texts.ts'
import { getOrMake } from '../runtime/memo.ts'
import { inHashOrder } from './hash-order.ts'

export type EndpointSubset = NonNullable<Endpoints['subsets']>[number]
export type SubsetPort = NonNullable<EndpointSubset['ports']>[number]
export type EndpointAddress = NonNullable<EndpointSubset['addresses']>[number]

/** Orders by the text of the IP, then by the uid of the Pod (upstream's `LessEndpointAddress`). */
export function compareEndpointAddresses(a: EndpointAddress, b: EndpointAddress): number {
  return compareTexts(a.ip, b.ip) || compareTexts(a.targetRef?.uid ?? '', b.targetRef?.uid ?? '')
}

/**
 * The ports in the order in which kube-controller-manager writes them: by the hash of their Go form.
 *
 * Upstream accepts any stored order. This order reproduces the hash for two reasons: truncation depends on the order of
 * subsets, and a switch to or from kube-controller-manager must rewrite nothing.
 */
export function subsetPortsInOrder(ports: readonly SubsetPort[]): readonly SubsetPort[] {
  return inHashOrder(ports, (port) => `(v1.EndpointPort)${portText(port)}`)
}

/** A port as Go's spew prints it, without its type. */
export function portText({ name, port, protocol, appProtocol }: SubsetPort): string {
  return (
    `{Name:(string)${name ?? ''} Port:(int32)${port ?? 0} Protocol:(v1.Protocol)${protocol ?? ''} ` +
    `AppProtocol:(*string)${appProtocol ?? '<nil>'}}`
  )
}

/** A subset of these addresses and ports, which must be in order. Empty lists are left out. */
export function subsetOf(
  addresses: readonly EndpointAddress[],
  notReadyAddresses: readonly EndpointAddress[],
  ports: readonly SubsetPort[],
): EndpointSubset {
  return {
    ...(addresses.length === 0 ? {} : { addresses: addresses as EndpointAddress[] }),
    ...(notReadyAddresses.length === 0 ? {} : { notReadyAddresses: notReadyAddresses as EndpointAddress[] }),
    ...(ports.length === 0 ? {} : { ports: ports as SubsetPort[] }),
  }
}

/** The addresses that offer a port, and whether each is ready. */
type Offers = Map<EndpointAddress, boolean>

interface Offered {
  readonly port: SubsetPort | undefined
  readonly offers: Offers
}

/**
 * Pairs each port with each of its addresses, then groups the ports that have the same addresses in the same state
 * (upstream's `RepackSubsets`, but the resulting subsets are in the order of their first ports). An address is
 * identified by its IP and the uid of its Pod; of several entries the first is taken. An address that is both ready and
 * not ready for a port counts as not ready.
 * @throws Error for more than {@link MOST_OFFERS} pairs of an address and a port that several subsets list.
 */
export function packedSubsets(subsets: readonly EndpointSubset[]): readonly EndpointSubset[] {
  const only = subsets.length === 1 ? subsets[0] : undefined
  return only !== undefined && isPacked(only) ? [withPortsInOrder(only)] : grouped(offersByPort(subsets))
}

/**
 * Endpoints of 150 kB can have a million pairs to repack, which would block the renewals of the lease for seconds.
 * Subsets without a common port have no more pairs than addresses, because their ports share one object `offers`.
 */
export const MOST_OFFERS = 10_000

/** Ports that are in the same subsets share one object `offers`. Throws beyond {@link MOST_OFFERS}. */
function offersByPort(subsets: readonly EndpointSubset[]): readonly Offered[] {
  const byPort = new Map<string, { readonly port: SubsetPort | undefined; readonly places: Set<number> }>()
  for (const [index, { ports }] of subsets.entries()) {
    const listed: readonly (SubsetPort | undefined)[] = ports?.length ? ports : [undefined]
    for (const [place, port] of listed.entries()) {
      // In Go an appProtocol is a pointer, so upstream treats two ports with equal appProtocols as different.
      const key = port === undefined ? '' : portKey(port, `${index}/${place}`)
      getOrMake(byPort, key, () => ({ port, places: new Set() })).places.add(index)
    }
  }
  const known = new Map<string, EndpointAddress>()
  const firstOf = (address: EndpointAddress): EndpointAddress =>
    getOrMake(known, `${address.ip} ${address.targetRef?.uid ?? ''}`, () => address)
  const listed = subsets.map(({ addresses, notReadyAddresses }) => ({
    ready: (addresses ?? []).map(firstOf),
    notReady: (notReadyAddresses ?? []).map(firstOf),
  }))
  let count = 0
  const offersAt = (places: ReadonlySet<number>): Offers => {
    const offers: Offers = new Map()
    for (const place of places) {
      const { ready = [], notReady = [] } = listed[place] ?? {}
      if (places.size > 1) count += ready.length + notReady.length
      if (count > MOST_OFFERS) {
        throw new Error(
          `Endpoints with more than ${MOST_OFFERS} pairs of an address and a port that several subsets list`,
        )
      }
      for (const address of ready) if (offers.get(address) !== false) offers.set(address, true)
      for (const address of notReady) offers.set(address, false)
    }
    return offers
  }
  const shared = new Map<string, Offers>()
  return [...byPort.values()].map(({ port, places }) => {
    const offers = getOrMake(shared, [...places].join(), () => offersAt(places))
    return { port, offers }
  })
}

/** A key that is equal for equal ports without an appProtocol. `place` makes the key of any other port unique. */
function portKey({ name, port, protocol, appProtocol }: SubsetPort, place: string): string {
  const key = `${name ?? ''} ${port} ${protocol ?? ''}`
  return appProtocol === undefined || appProtocol === null ? key : `${key} ${appProtocol} ${place}`
}

function grouped(ports: readonly Offered[]): readonly EndpointSubset[] {
  const numbers = new Map<EndpointAddress, number>()
  const keys = new Map<Offers, string>()
  const keyOf = (offers: Offers): string =>
    [...offers]
      .map(([address, ready]) => `${getOrMake(numbers, address, () => numbers.size)}${ready ? '' : '!'}`)
      .sort()
      .join(' ')
  const groups = new Map<string, { readonly offers: Offers; readonly ports: SubsetPort[] }>()
  for (const { port, offers } of ports) {
    const key = getOrMake(keys, offers, () => keyOf(offers))
    const group = getOrMake(groups, key, () => ({ offers, ports: [] }))
    // Without a port, or with port 0, the addresses offer no port that can be listed.
    if (port !== undefined && port.port > 0) group.ports.push(port)
  }
  return [...groups.values()].map(({ offers, ports }) => {
    const sorted = [...offers].sort(([a], [b]) => compareEndpointAddresses(a, b))
    const listed = (wanted: boolean): readonly EndpointAddress[] =>
      sorted.filter(([, ready]) => ready === wanted).map(([address]) => address)
    return subsetOf(listed(true), listed(false), subsetPortsInOrder(ports))
  })
}

/**
 * Whether a subset needs no repacking, except that its ports may be out of order. This is so for most stored subsets.
 */
function isPacked({ addresses, notReadyAddresses, ports }: EndpointSubset): boolean {
  const ready = addresses ?? []
  const notReady = notReadyAddresses ?? []
  if (ready.length + notReady.length === 0) return false
  if (!ascending(ready) || !ascending(notReady) || overlap(ready, notReady)) return false
  return ports === undefined || ports === null || ports.length === 1 || areDistinct(ports)
}

function withPortsInOrder({ addresses, notReadyAddresses, ports }: EndpointSubset): EndpointSubset {
  const listed = (ports ?? []).filter(({ port }) => port > 0)
  return subsetOf(addresses ?? [], notReadyAddresses ?? [], subsetPortsInOrder(listed))
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

function areDistinct(ports: readonly SubsetPort[]): boolean {
  return new Set(ports.map((port) => portKey(port, ''))).size === ports.length
}
