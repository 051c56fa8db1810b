import type { Endpoints } from '../../kube/resources.ts'
import { type AddressGroups, readAddress, textFrom } from '../../net/stored-address.ts'
import type { Endpoint } from '../pod-endpoint.ts'
import type { AddressType } from '../slice-info.ts'
import { type EndpointPort, inHashOrder, portsKey } from '../slice-ports.ts'
import { type EndpointAddress, repackSubsets, type SubsetPort } from './repacked-subsets.ts'

/** What the slices of one address type and one list of ports shall hold. */
export interface MirroredGroup {
  readonly addressType: AddressType
  readonly ports: readonly EndpointPort[]
  /** By {@link identityOf}. */
  readonly endpoints: ReadonlyMap<string, Endpoint>
}

/** What Endpoints say, as slices say it. */
export interface MirroredEndpoints {
  /** By {@link groupKey}; also those that no address is for. */
  readonly groups: ReadonlyMap<string, MirroredGroup>
  /** Addresses that are none. */
  readonly invalid: number
  /** Addresses that are not mirrored: those that are none, and those beyond the maximum. */
  readonly skipped: number
}

/** Where an address is read into; used up before anything else runs. */
const groups: AddressGroups = new Uint16Array(8)

const addressTypes: readonly AddressType[] = ['IPv4', 'IPv6']

/** Equal for slices of one address type with the same ports. */
export function groupKey(addressType: string, ports: readonly EndpointPort[] | null | undefined): string {
  return `${addressType} ${portsKey(ports)}`
}

/** Equal for endpoints that are the same one, whatever has become of it: as upstream's `hashEndpoint`. */
export function identityOf({ addresses, hostname, targetRef }: Endpoint): string {
  const all = addresses.length === 1 ? addresses[0] : [...addresses].sort().join()
  return `${all} ${hostname ?? ''} ${targetRef?.namespace ?? ''}/${targetRef?.name ?? ''}`
}

/** Reads Endpoints: of each subset, after they have been repacked, the first `maxEndpointsPerSubset` addresses, those that are ready first. */
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

/** An address of Endpoints as an endpoint of a slice; undefined for what is no address. */
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
