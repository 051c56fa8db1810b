import type { KubeObject, Service } from '../../kube/resources.ts'
import { type Address, AddressError, familyOf, parseAddress } from '../../net/address.ts'
import {
  type AllocationRange,
  addressAllocationRange,
  type Cidr,
  parseCidr,
  portAllocationRange,
} from '../../net/cidr.ts'
import { type PortRange, parsePortRange } from '../../net/host-port.ts'
import { type AddressGroups, canonicalAddress, ipv4Value, readAddress } from '../../net/stored-address.ts'
import type { RangeName } from '../registries/range-registry.ts'
import type { Finding, RepairKind } from '../reporter.ts'
import { clusterIpsOf, nodePortsOf } from '../service-claims.ts'

/** A range whose bitmap a repair manages. Its items are texts, as {@link AllocationRange.textAt} returns them. */
export interface BitmapRange extends AllocationRange<string> {
  readonly name: RangeName
  /** The flag that sets the server's range to `text`: `--service-node-port-range=30000-31000`. */
  flagFor(text: string): string
}

/**
 * Which numbers Services hold, and the findings about them. In all methods `range` is an index in `ranges`, and
 * `offset` is a number in that range.
 */
export interface RangeClaims {
  readonly kind: RepairKind
  readonly ranges: readonly BitmapRange[]
  /** The range of a stored text; undefined if the text is malformed, or if the range is too large for a bitmap. */
  parse(text: string): Pick<BitmapRange, 'size' | 'textAt'> | undefined
  /**
   * Calls `hold` with each number that the Service holds, as often as it holds the number. Calls `fault` with a finding
   * for each ClusterIP or NodePort that is malformed or outside all ranges. Ignores ClusterIPs of a family whose range
   * is too large for a bitmap.
   */
  visit(service: Service, hold: (range: number, offset: number) => void, fault?: (finding: Finding) => void): void
  /**
   * The finding that a Service holds an unallocated number. `repairing`: whether the number is about to be allocated.
   */
  notAllocated(service: Service, range: number, offset: number, repairing: boolean): Finding
  /** The finding that a Service holds a number twice, or holds a number that an older Service also holds. */
  duplicate(service: Service, range: number, offset: number): Finding
  /** The finding that no Service holds an allocated number. `repairing`: whether the number is about to be freed. */
  leaked(range: number, offset: number, repairing: boolean): Finding
}

/** A Service as the object of a finding, with the apiVersion and kind that items of a list lack. */
export function regardingService({ metadata }: Service): KubeObject {
  return { apiVersion: 'v1', kind: 'Service', metadata }
}

/**
 * The claims of Services on ClusterIPs. A range that is too large for a bitmap is not in `ranges`, because no server
 * has a bitmap for it. Upstream: pkg/registry/core/service/ipallocator/controller/repair.go, whose findings for a full
 * range and for unknown errors cannot occur here.
 * @throws RangeError for two ranges of one family.
 */
export function clusterIpClaims(cidrs: readonly Cidr[]): RangeClaims {
  if (new Set(cidrs.map(({ family }) => family)).size !== cidrs.length) {
    throw new RangeError('two ranges of the same IP family are not supported')
  }
  const ranges = cidrs.flatMap((cidr, index) => {
    const range = allocationRangeOf(cidr)
    return range === undefined
      ? []
      : [{ cidr, range: bitmapRange(range, cidrs, index), locate: locatorOf(cidr, range.size) }]
  })
  const groups = new Uint16Array(8)
  return {
    kind: 'cluster-ip',
    ranges: ranges.map(({ range }) => range),
    parse: (text) => ifValid(() => allocationRangeOf(parseCidr(text))),
    visit(service, hold, fault) {
      for (const text of clusterIpsOf(service)) {
        const family = readAddress(text, groups)
        const range = ranges.findIndex(({ cidr }) => cidr.family === family)
        const offset = ranges[range]?.locate(groups)
        if (offset !== undefined) hold(range, offset)
        else if (fault !== undefined) {
          const cidr = cidrs.find((known) => known.family === family)
          if (cidr === undefined || range >= 0) fault(faultOf(service, text, cidr))
        }
      }
    },
    ...findingsWith(clusterIpReasons, (range, offset) => {
      const item = (ranges[range] as (typeof ranges)[number]).range.textAt(offset)
      return { item, label: `Cluster IP [${familyOf(item)}]:${item}` }
    }),
  }
}

type NumberFinding = 'notAllocated' | 'duplicate' | 'leaked'

const clusterIpReasons = {
  notAllocated: 'ClusterIPNotAllocated',
  duplicate: 'ClusterIPAlreadyAllocated',
  leaked: 'ClusterIPLeaked',
} as const
const portReasons = {
  notAllocated: 'PortNotAllocated',
  duplicate: 'PortAlreadyAllocated',
  leaked: 'PortLeaked',
} as const

/**
 * Makes the findings about one number, with upstream's notes. `named` returns the item of a number, and its label in
 * notes.
 */
function findingsWith(
  reasons: Readonly<Record<NumberFinding, Finding['reason']>>,
  named: (range: number, offset: number) => { readonly item: string; readonly label: string },
): Pick<RangeClaims, NumberFinding> {
  return {
    notAllocated(service, range, offset, repairing) {
      const { item, label } = named(range, offset)
      const note = `${label} is not allocated${repairing ? '; repairing' : ''}`
      return { type: 'repair', reason: reasons.notAllocated, note, item, regarding: regardingService(service) }
    },
    duplicate(service, range, offset) {
      const { item, label } = named(range, offset)
      const note = `${label} was assigned to multiple services; please recreate service`
      return { type: 'duplicate', reason: reasons.duplicate, note, item, regarding: regardingService(service) }
    },
    leaked(range, offset, repairing) {
      const { item, label } = named(range, offset)
      const note = `${label} appears to have leaked${repairing ? ': cleaning up' : ''}`
      return { type: 'leak', reason: reasons.leaked, note, item, regarding: undefined }
    },
  }
}

function ifValid<Range>(parse: () => Range): Range | undefined {
  try {
    return parse()
  } catch (error) {
    if (error instanceof AddressError) return undefined
    throw error
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

function bitmapRange(range: AllocationRange<Address>, cidrs: readonly Cidr[], index: number): BitmapRange {
  return {
    ...range,
    name: index === 0 ? 'serviceips' : 'secondaryserviceips',
    offsetOf: (item) => range.offsetOf(parseAddress(item)),
    flagFor: (text) =>
      `--service-cluster-ip-range=${cidrs.map((cidr, place) => (place === index ? text : cidr.text)).join(',')}`,
  }
}

/**
 * Like {@link BitmapRange.offsetOf}, for an address of the family of `cidr`, and without BigInt, because a repair reads
 * hundreds of thousands of addresses.
 */
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
  // In an IPv6 range, every address that has a number begins with the first seven groups of the network address.
  const base = (network[7] as number) + 1
  return (groups) => {
    for (let i = 0; i < 7; i++) if (groups[i] !== network[i]) return undefined
    const offset = (groups[7] as number) - base
    return offset >= 0 && offset < size ? offset : undefined
  }
}

function faultOf(service: Service, text: string, cidr: Cidr | undefined): Finding {
  const regarding = regardingService(service)
  const item = canonicalAddress(text)
  if (item === undefined) {
    const note = `Cluster IP ${text} is not a valid IP; please recreate service`
    return { type: 'invalid', reason: 'ClusterIPNotValid', note, item: text, regarding }
  }
  const name = familyOf(item)
  if (cidr === undefined) {
    const note = `Cluster IP ${item}(${name}) is of ip family that is no longer configured on cluster; please recreate service`
    return { type: 'invalid', reason: 'ClusterIPNotValid', note, item, regarding }
  }
  const note = `Cluster IP [${name}]:${item} is not within the service CIDR ${cidr.text}; please recreate service`
  return { type: 'outOfRange', reason: 'ClusterIPOutOfRange', note, item, regarding }
}

/**
 * The claims of Services on NodePorts. Upstream: pkg/registry/core/service/portallocator/controller/repair.go, without
 * its findings for a full range and for unknown errors.
 */
export function nodePortClaims(range: PortRange): RangeClaims {
  const ports = portAllocationRange(range)
  return {
    kind: 'node-port',
    ranges: [
      {
        ...ports,
        name: 'servicenodeports',
        offsetOf: (item) => ports.offsetOf(Number(item)),
        flagFor: (text) => `--service-node-port-range=${text}`,
      },
    ],
    parse: (text) => ifValid(() => portAllocationRange(parsePortRange(text))),
    visit(service, hold, fault) {
      for (const port of nodePortsOf(service)) {
        const offset = ports.offsetOf(port)
        if (offset !== undefined) hold(0, offset)
        else {
          fault?.({
            type: 'outOfRange',
            reason: 'PortOutOfRange',
            note: `Port ${port} is not within the port range ${ports.text}; please recreate service`,
            regarding: regardingService(service),
            item: String(port),
          })
        }
      }
    },
    ...findingsWith(portReasons, (_range, offset) => {
      const item = ports.textAt(offset)
      return { item, label: `Port ${item}` }
    }),
  }
}
