import type { Address } from './address.ts'
import { addressAt, type Cidr, usableSize } from './cidr.ts'
import { type PortRange, portRangeContains } from './port-range.ts'

/** A range that kube-apiserver keeps a bitmap of: its items are numbered from 0. */
export interface AllocationRange<Item> {
  /** As kube-apiserver stores it beside the bitmap: `10.96.0.0/12`, `30000-32767`. */
  readonly text: string
  /** How many items can be given out. */
  readonly size: number
  /** The number of an item; undefined when it cannot be given out from this range. */
  offsetOf(item: Item): number | undefined
  /** The item with a number below `size`, as text. */
  textAt(offset: number): string
}

/** More than this kube-apiserver does not give out of an IPv6 range while it keeps a bitmap. */
const largestIPv6 = 65_536n
/** The largest range that kube-apiserver accepts while it keeps a bitmap: `validateMaxCIDRRange` in cmd/kube-apiserver/app/options. */
const mostBits = 20n

/**
 * The ClusterIPs of a range: not its network address nor, with IPv4, its broadcast address, and of IPv6 the first 2^16 only
 * (`New` in pkg/registry/core/service/ipallocator/bitmap.go).
 * @throws RangeError for an IPv4 range of more than 2^20 addresses, of which kube-apiserver keeps no bitmap either.
 */
export function addressAllocationRange(cidr: Cidr): AllocationRange<Address> {
  if (cidr.family === 4 && cidr.size > 1n << mostBits) {
    throw new RangeError(`${cidr.text} is too large for a bitmap: at most /12 of IPv4`)
  }
  const usable = usableSize(cidr)
  const capped = cidr.family === 6 && cidr.size > largestIPv6 ? largestIPv6 - 1n : usable
  const size = Number(capped)
  const base = cidr.network.value + 1n
  return {
    text: cidr.text,
    size,
    offsetOf({ family, value }) {
      const offset = value - base
      return family === cidr.family && offset >= 0n && offset < capped ? Number(offset) : undefined
    },
    textAt: (offset) => addressAt(cidr, BigInt(offset) + 1n).text,
  }
}

/** The NodePorts of a range, all of them. */
export function portAllocationRange(range: PortRange): AllocationRange<number> {
  return {
    text: range.text,
    size: range.size,
    offsetOf: (port) => (Number.isInteger(port) && portRangeContains(range, port) ? port - range.first : undefined),
    textAt: (offset) => String(range.first + offset),
  }
}
