import type { Endpoints } from '../../kube/resources.ts'
import { familyOf } from '../../net/address.ts'
import { canonicalAddress } from '../../net/stored-address.ts'
import { getOrMake } from '../../runtime/memo.ts'
import { type EndpointAddress, packedSubsets, type SubsetPort } from '../../workloads/subsets.ts'
import type { Endpoint } from '../endpoint.ts'
import { type AddressType, type EndpointPort, portsInOrder, portsKey } from '../slice.ts'

/** The desired endpoints of the slices of one address type and one list of ports. */
export interface MirroredGroup {
  readonly addressType: AddressType
  readonly ports: readonly EndpointPort[]
  /** By {@link identityOf}. */
  readonly endpoints: ReadonlyMap<string, Endpoint>
}

interface MirroredEndpoints {
  /** By {@link groupKey}; including groups without endpoints. */
  readonly groups: ReadonlyMap<string, MirroredGroup>
  /** The number of malformed addresses, without those after the maximum was reached. */
  readonly invalid: number
  /** The number of addresses that are not mirrored: malformed ones, and those beyond the maximum. */
  readonly skipped: number
}

/** A key that is equal for slices with the same address type and ports. */
export function groupKey(addressType: string, ports: readonly EndpointPort[] | null | undefined): string {
  return `${addressType} ${portsKey(ports)}`
}

/** A key that is equal for endpoints of the same identity, like upstream's `hashEndpoint`. */
export function identityOf({ addresses, hostname, targetRef }: Endpoint): string {
  const all = addresses.length === 1 ? addresses[0] : [...addresses].sort().join()
  return `${all} ${hostname ?? ''} ${targetRef?.namespace ?? ''}/${targetRef?.name ?? ''}`
}

/**
 * Converts Endpoints to the endpoints of slices. Takes up to `maxEndpointsPerSubset` valid addresses of each packed
 * subset, ready ones first.
 */
export function mirroredEndpoints(endpoints: Endpoints, maxEndpointsPerSubset: number): MirroredEndpoints {
  const groups = new Map<string, MirroredGroup & { readonly endpoints: Map<string, Endpoint> }>()
  let invalid = 0
  let skipped = 0
  for (const { addresses = [], notReadyAddresses = [], ports: listed = [] } of packedSubsets(endpoints.subsets ?? [])) {
    // Ports that differ only for upstream, because they have an appProtocol, are listed once.
    const distinct = new Map(listed.map((port) => [textOf(port), slicePort(port)]))
    const ports = portsInOrder([...distinct.values()])
    const endpointsOf = (addressType: AddressType): Map<string, Endpoint> =>
      getOrMake(groups, groupKey(addressType, ports), () => ({ addressType, ports, endpoints: new Map() })).endpoints
    const byType = { IPv4: endpointsOf('IPv4'), IPv6: endpointsOf('IPv6') }
    let mirrored = 0
    const mirror = (addresses: readonly EndpointAddress[], ready: boolean): void => {
      for (const address of addresses) {
        if (mirrored >= maxEndpointsPerSubset) return
        const read = sliceEndpoint(address, ready)
        if (read === undefined) {
          invalid++
          continue
        }
        byType[read.addressType].set(identityOf(read.endpoint), read.endpoint)
        mirrored++
      }
    }
    mirror(addresses, true)
    mirror(notReadyAddresses, false)
    skipped += addresses.length + notReadyAddresses.length - mirrored
  }
  return { groups, invalid, skipped }
}

/** The endpoint of a slice for an address of Endpoints; undefined if the address is malformed. */
export function sliceEndpoint(
  address: EndpointAddress,
  ready: boolean,
): { readonly addressType: AddressType; readonly endpoint: Endpoint } | undefined {
  const ip = canonicalAddress(address.ip)
  if (ip === undefined) return undefined
  const { hostname, nodeName, targetRef } = address
  const endpoint = {
    addresses: [ip],
    conditions: { ready },
    ...(hostname ? { hostname } : {}),
    ...(targetRef ? { targetRef } : {}),
    ...(nodeName === undefined || nodeName === null ? {} : { nodeName }),
  }
  return { addressType: familyOf(ip), endpoint }
}

function slicePort({ name, port, protocol, appProtocol }: SubsetPort): EndpointPort {
  return {
    name: name ?? '',
    port,
    protocol: protocol ?? '',
    ...(appProtocol === undefined || appProtocol === null ? {} : { appProtocol }),
  }
}

function textOf({ name, port, protocol, appProtocol }: SubsetPort): string {
  return `${port}/${protocol ?? ''} ${name ?? ''} ${appProtocol ?? ''}`
}
