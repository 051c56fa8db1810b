import type { Endpoints } from '../../kube/resources.ts'
import { type AddressGroups, readAddress, textFrom } from '../../net/stored-address.ts'
import type { Endpoint } from '../endpoint.ts'
import { type AddressType, type EndpointPort, inHashOrder, portsKey } from '../slice.ts'

/** The desired endpoints of the slices of one address type and one list of ports. */
export interface MirroredGroup {
  readonly addressType: AddressType
  readonly ports: readonly EndpointPort[]
  /** By {@link identityOf}. */
  readonly endpoints: ReadonlyMap<string, Endpoint>
}

interface MirroredEndpoints {
  /** By {@link groupKey}; including groups without addresses. */
  readonly groups: ReadonlyMap<string, MirroredGroup>
  /** The number of malformed addresses. */
  readonly invalid: number
  /** The number of addresses that are not mirrored: malformed ones, and those beyond the maximum. */
  readonly skipped: number
}

/** A buffer for one address, used only within a call. */
const groups: AddressGroups = new Uint16Array(8)

const addressTypes: readonly AddressType[] = ['IPv4', 'IPv6']

/** A key that is equal for slices of one address type with the same ports. */
export function groupKey(addressType: string, ports: readonly EndpointPort[] | null | undefined): string {
  return `${addressType} ${portsKey(ports)}`
}

/** A key that is equal for endpoints of the same identity, like upstream's `hashEndpoint`. */
export function identityOf({ addresses, hostname, targetRef }: Endpoint): string {
  const all = addresses.length === 1 ? addresses[0] : [...addresses].sort().join()
  return `${all} ${hostname ?? ''} ${targetRef?.namespace ?? ''}/${targetRef?.name ?? ''}`
}

/** Converts Endpoints. Takes at most `maxEndpointsPerSubset` valid addresses of a repacked subset, ready ones first. */
export function mirroredEndpoints(endpoints: Endpoints, maxEndpointsPerSubset: number): MirroredEndpoints {
  const groups = new Map<string, MirroredGroup & { readonly endpoints: Map<string, Endpoint> }>()
  let invalid = 0
  let skipped = 0
  for (const subset of repackSubsets(endpoints.subsets ?? [])) {
    const ports = inHashOrder(subset.ports.map(slicePort))
    const byType = Object.fromEntries(
      addressTypes.map((addressType) => {
        const key = groupKey(addressType, ports)
        const group = groups.get(key) ?? { addressType, ports, endpoints: new Map<string, Endpoint>() }
        groups.set(key, group)
        return [addressType, group.endpoints]
      }),
    ) as Readonly<Record<AddressType, Map<string, Endpoint>>>
    let mirrored = 0
    const mirror = (addresses: readonly EndpointAddress[], ready: boolean): void => {
      for (const address of addresses) {
        if (mirrored >= maxEndpointsPerSubset) return
        const read = endpointOf(address, ready)
        if (read === undefined) {
          invalid++
          continue
        }
        byType[read.addressType].set(identityOf(read.endpoint), read.endpoint)
        mirrored++
      }
    }
    mirror(subset.ready, true)
    mirror(subset.notReady, false)
    skipped += subset.ready.length + subset.notReady.length - mirrored
  }
  return { groups, invalid, skipped }
}

/** The endpoint of a slice for an address of Endpoints; undefined if the address is malformed. */
export function endpointOf(
  address: EndpointAddress,
  ready: boolean,
): { readonly addressType: AddressType; readonly endpoint: Endpoint } | undefined {
  const family = readAddress(address.ip, groups)
  if (family === undefined) return undefined
  const { hostname, nodeName, targetRef } = address
  const endpoint = {
    addresses: [textFrom(family, groups, address.ip)],
    conditions: { ready },
    ...(hostname ? { hostname } : {}),
    ...(targetRef ? { targetRef } : {}),
    ...(nodeName === undefined || nodeName === null ? {} : { nodeName }),
  }
  return { addressType: family === 4 ? 'IPv4' : 'IPv6', endpoint }
}

function slicePort({ name, port, protocol, appProtocol }: SubsetPort): EndpointPort {
  return {
    name: name ?? '',
    port,
    protocol: protocol ?? '',
    ...(appProtocol === undefined || appProtocol === null ? {} : { appProtocol }),
  }
}

export type EndpointSubset = NonNullable<Endpoints['subsets']>[number]
export type EndpointAddress = NonNullable<EndpointSubset['addresses']>[number]
type SubsetPort = NonNullable<EndpointSubset['ports']>[number]

/** Addresses with the same ports, and those ports. */
interface RepackedSubset {
  readonly ports: readonly SubsetPort[]
  /** Sorted by address, then by the uid of the target. */
  readonly ready: readonly EndpointAddress[]
  readonly notReady: readonly EndpointAddress[]
}

/** Whether each address is ready, by the number that identifies the address. */
type Members = Map<number, boolean>

interface Group {
  readonly ports: Map<string, SubsetPort>
  readonly members: Members
}

/**
 * Repacks subsets so that each list of ports occurs once, and each address once per list. This is upstream's
 * `RepackSubsets` (pkg/api/v1/endpoints), except for the order of subsets and ports. An address that is listed both as
 * ready and as not ready for a port is not ready. Of several entries with one address and target, the first is taken.
 */
export function repackSubsets(subsets: readonly EndpointSubset[]): readonly RepackedSubset[] {
  const addresses: EndpointAddress[] = []
  const numbers = new Map<string, number>()
  const numberOf = (address: EndpointAddress): number => {
    const key = `${address.ip} ${address.targetRef?.uid ?? ''}`
    let number = numbers.get(key)
    if (number === undefined) {
      number = addresses.push(address) - 1
      numbers.set(key, number)
    }
    return number
  }

  const byPort = new Map<string, { readonly port: SubsetPort | undefined; readonly members: Members }>()
  subsets.forEach((subset, index) => {
    const own = membersOf(subset, numberOf)
    const ports = subset.ports?.length ? subset.ports : [undefined]
    ports.forEach((port, portIndex) => {
      // Upstream treats every occurrence of a port with an appProtocol as a different port.
      const key = (port?.appProtocol ?? undefined) === undefined ? textOf(port) : `${index} ${portIndex}`
      const known = byPort.get(key)
      if (known === undefined) byPort.set(key, { port, members: subsets.length === 1 ? own : new Map(own) })
      else for (const [number, ready] of own) known.members.set(number, ready && known.members.get(number) !== false)
    })
  })

  const groups = new Map<string | Members, Group>()
  for (const { port, members } of byPort.values()) {
    // All ports of a single subset have the same addresses.
    const key = subsets.length === 1 ? 'all' : identityOfMembers(members)
    let group = groups.get(key)
    if (group === undefined) {
      group = { ports: new Map(), members }
      groups.set(key, group)
    }
    if (port !== undefined && port.port > 0) group.ports.set(textOf(port), port)
  }
  return [...groups.values()].map(({ ports, members }) => ({
    ports: [...ports.values()],
    ready: inOrder(members, true, addresses),
    notReady: inOrder(members, false, addresses),
  }))
}

function membersOf(subset: EndpointSubset, numberOf: (address: EndpointAddress) => number): Members {
  const members: Members = new Map()
  for (const address of subset.addresses ?? []) members.set(numberOf(address), true)
  for (const address of subset.notReadyAddresses ?? []) members.set(numberOf(address), false)
  return members
}

function textOf(port: SubsetPort | undefined): string {
  if (port === undefined) return 'none'
  return `${port.port}/${port.protocol ?? ''} ${port.name ?? ''} ${port.appProtocol ?? ''}`
}

function identityOfMembers(members: Members): string {
  return [...members]
    .sort(([a], [b]) => a - b)
    .map(([number, ready]) => (ready ? `${number}` : `${number}-`))
    .join()
}

function inOrder(members: Members, ready: boolean, addresses: readonly EndpointAddress[]): readonly EndpointAddress[] {
  const chosen: EndpointAddress[] = []
  for (const [number, isReady] of members) {
    const address = addresses[number]
    if (isReady === ready && address !== undefined) chosen.push(address)
  }
  return chosen.sort(byAddressAndTarget)
}

function byAddressAndTarget(a: EndpointAddress, b: EndpointAddress): number {
  if (a.ip !== b.ip) return a.ip < b.ip ? -1 : 1
  // An address without a target comes before one whose target has no uid.
  const left = a.targetRef ? ` ${a.targetRef.uid ?? ''}` : ''
  const right = b.targetRef ? ` ${b.targetRef.uid ?? ''}` : ''
  return left < right ? -1 : left > right ? 1 : 0
}
