import type { Service } from '../../kube/resources.ts'
import { type Address, AddressError, parseAddress } from '../../net/address.ts'
import { type AllocationRange, addressAllocationRange } from '../../net/allocation-range.ts'
import { type Cidr, parseCidr } from '../../net/cidr.ts'
import { type AddressGroups, addressFrom, ipv4Value, readAddress } from '../../net/stored-address.ts'
import type { Finding } from '../finding.ts'
import { type KeptRange, type RangeClaims, regardingService } from '../range-claims.ts'
import { clusterIpsOf } from '../service-claims.ts'

/**
 * What Services hold of the ClusterIPs of one family, or of two. A range that is too large for a bitmap has none on any server, and is left out.
 * Upstream: pkg/registry/core/service/ipallocator/controller/repair.go; its findings for a range that is full and for unknown errors
 * cannot come about there, nor here.
 * @throws RangeError for two ranges of one family.
 */
export function clusterIpClaims(cidrs: readonly Cidr[]): RangeClaims {
  if (new Set(cidrs.map(({ family }) => family)).size !== cidrs.length) {
    throw new RangeError('two ranges of one family have no bitmaps')
  }
  const kept = cidrs.flatMap((cidr, index) => {
    const range = allocationRangeOf(cidr)
    return range === undefined
      ? []
      : [{ cidr, range: keptRange(range, cidrs, index), locate: locatorOf(cidr, range.size) }]
  })
  const groups = new Uint16Array(8)
  const itemAt = (range: number, offset: number): { readonly item: string; readonly label: string } => {
    const { cidr, range: of } = kept[range] as (typeof kept)[number]
    const item = of.textAt(offset)
    return { item, label: `Cluster IP [${familyName(cidr.family)}]:${item}` }
  }
  return {
    kind: 'cluster-ip',
    ranges: kept.map(({ range }) => range),
    parse(text) {
      try {
        return allocationRangeOf(parseCidr(text))
      } catch (error) {
        if (error instanceof AddressError) return undefined
        throw error
      }
    },
    visit(service, hold, fault) {
      for (const text of clusterIpsOf(service)) {
        const family = readAddress(text, groups)
        const range = kept.findIndex(({ cidr }) => cidr.family === family)
        const offset = kept[range]?.locate(groups)
        if (offset !== undefined) hold(range, offset)
        else if (fault !== undefined) {
          const cidr = cidrs.find((known) => known.family === family)
          if (cidr === undefined || range >= 0) fault(faultOf(service, text, family, groups, cidr))
        }
      }
    },
    notAllocated(service, range, offset, repairing) {
      const { item, label } = itemAt(range, offset)
      const note = `${label} is not allocated${repairing ? '; repairing' : ''}`
      return { type: 'repair', reason: 'ClusterIPNotAllocated', note, item, regarding: regardingService(service) }
    },
    duplicate(service, range, offset) {
      const { item, label } = itemAt(range, offset)
      const note = `${label} was assigned to multiple services; please recreate service`
      return {
        type: 'duplicate',
        reason: 'ClusterIPAlreadyAllocated',
        note,
        item,
        regarding: regardingService(service),
      }
    },
    leaked(range, offset, repairing) {
      const { item, label } = itemAt(range, offset)
      const note = `${label} appears to have leaked${repairing ? ': cleaning up' : ''}`
      return { type: 'leak', reason: 'ClusterIPLeaked', note, item, regarding: undefined }
    },
  }
}

function allocationRangeOf(cidr: Cidr): AllocationRange<Address> | undefined {
  try {
    return addressAllocationRange(cidr)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function keptRange(range: AllocationRange<Address>, cidrs: readonly Cidr[], index: number): KeptRange {
  return {
    name: index === 0 ? 'serviceips' : 'secondaryserviceips',
    text: range.text,
    size: range.size,
    textAt: range.textAt,
    offsetOf: (item) => range.offsetOf(parseAddress(item)),
    flagFor: (text) =>
      `--service-cluster-ip-range=${cidrs.map((cidr, place) => (place === index ? text : cidr.text)).join(',')}`,
  }
}

/** Finds the number of an address, of the family of the range, as `offsetOf` does, without BigInt: there are many. */
function locatorOf(cidr: Cidr, size: number): (groups: AddressGroups) => number | undefined {
  const network = new Uint16Array(8)
  readAddress(cidr.network.text, network)
  if (cidr.family === 4) {
    const base = ipv4Value(network) + 1
    return (groups) => {
      const offset = ipv4Value(groups) - base
      return offset >= 0 && offset < size ? offset : undefined
    }
  }
  // No number of an IPv6 range needs more than the last group.
  const base = (network[7] as number) + 1
  return (groups) => {
    for (let i = 0; i < 7; i++) if (groups[i] !== network[i]) return undefined
    const offset = (groups[7] as number) - base
    return offset >= 0 && offset < size ? offset : undefined
  }
}

function faultOf(
  service: Service,
  text: string,
  family: 4 | 6 | undefined,
  groups: AddressGroups,
  cidr: Cidr | undefined,
): Finding {
  const regarding = regardingService(service)
  if (family === undefined) {
    const note = `Cluster IP ${text} is not a valid IP; please recreate service`
    return { type: 'invalid', reason: 'ClusterIPNotValid', note, item: text, regarding }
  }
  const item = addressFrom(family, groups).text
  const name = familyName(family)
  if (cidr === undefined) {
    const note = `Cluster IP ${item}(${name}) is of ip family that is no longer configured on cluster; please recreate service`
    return { type: 'invalid', reason: 'ClusterIPNotValid', note, item, regarding }
  }
  const note = `Cluster IP [${name}]:${item} is not within the service CIDR ${cidr.text}; please recreate service`
  return { type: 'outOfRange', reason: 'ClusterIPOutOfRange', note, item, regarding }
}

function familyName(family: 4 | 6): 'IPv4' | 'IPv6' {
  return `IPv${family}`
}
