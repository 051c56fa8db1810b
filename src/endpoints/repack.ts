import type { EndpointAddress, EndpointPort, EndpointSubset, List } from './subset-equality.ts'
import { compareEndpointAddresses, portsInOrder, subsetsInOrder } from './subset-order.ts'

/** The addresses that offer a port, and whether they do so ready. */
type Offers = Map<EndpointAddress, boolean>

/**
 * Brings subsets into the one form that means the same: each port with each of its addresses, then the ports that have the same addresses in the same
 * state together, all in order (upstream's `RepackSubsets`). An address is known by its IP and the uid of its Pod; one that is both ready and not
 * ready for a port is not ready. Idempotent where no port is 0, which servers refuse, and none has an `appProtocol`.
 */
export function repackSubsets(subsets: List<EndpointSubset>): readonly EndpointSubset[] {
  const only = subsets?.length === 1 ? subsets[0] : undefined
  if (only !== undefined && isPacked(only)) return [withPortsInOrder(only)]
  return subsetsInOrder(pack(offersByPort(subsets ?? [])))
}

/** A subset of these addresses and ports, which are in order. */
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

/** Whether there is nothing to do but to order the ports: the usual state of what is there, which is not worth taking apart. */
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

/** A port, or none, and who offers it. */
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
      // In Go an appProtocol is a pointer: of two ports with equal ones upstream says that they differ.
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

/** Equal for ports that are the same; `place` tells those apart that have an appProtocol. */
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
    // A port without a number stands for addresses that offer none.
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
