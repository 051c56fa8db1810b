import { type Address, AddressError, addressOf, bitsOf, parseAddress, tryParseAddress } from './address.ts'
import { type PortRange, portRangeContains } from './host-port.ts'

/** A range of addresses that share their first `prefix` bits. */
export interface Cidr {
  readonly family: 4 | 6
  /** The first address: its bits after the prefix are zero. */
  readonly network: Address
  readonly prefix: number
  /** The number of addresses, including the first and the last. */
  readonly size: bigint
  /** The one canonical form: `10.96.0.0/12`, `fd00::/108`. */
  readonly text: string
}

/**
 * Reads `ADDRESS/PREFIX`, with the address as strictly as {@link parseAddress}. Refuses set host bits, because
 * kube-apiserver's flag and its ServiceCIDR API treat them differently.
 * @throws AddressError
 */
export function parseCidr(text: string): Cidr {
  const quoted = JSON.stringify(text)
  const slash = text.indexOf('/')
  if (slash < 0) throw new AddressError(`${quoted} is not a CIDR: a prefix length such as /24 is missing`)
  const address = addressIn(text, text.slice(0, slash))
  const bits = bitsOf(address.family)
  const length = text.slice(slash + 1)
  if (!/^(0|[1-9]\d{0,2})$/.test(length) || Number(length) > bits) {
    throw new AddressError(
      `${quoted} is not a CIDR: the prefix length of an IPv${address.family} range is 0 to ${bits}`,
    )
  }
  const cidr = cidrOf(address, Number(length))
  if (cidr.network.value !== address.value) {
    throw new AddressError(`${quoted} has host bits set; the network is ${cidr.text}`)
  }
  return cidr
}

/** Reads a stored range like `netip.ParsePrefix` and `Masked`: clears host bits. Undefined if it is malformed. */
export function tryParseStoredCidr(text: string): Cidr | undefined {
  const [, start = '', length = ''] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? []
  const address = tryParseAddress(start)
  const prefix = Number(length)
  return address === undefined || prefix > bitsOf(address.family) ? undefined : cidrOf(address, prefix)
}

/** The range with this prefix length that contains `address`. `prefix`: at most 32 for IPv4, 128 for IPv6. */
export function cidrOf(address: Address, prefix: number): Cidr {
  const hostBits = BigInt(bitsOf(address.family) - prefix)
  const network = addressOf(address.family, (address.value >> hostBits) << hostBits)
  return { family: address.family, network, prefix, size: 1n << hostBits, text: `${network.text}/${prefix}` }
}

/** The address `index` places after the network address. @throws RangeError if it is outside of the range. */
export function addressAt(cidr: Cidr, index: bigint): Address {
  if (index < 0n || index >= cidr.size) throw new RangeError(`${cidr.text} has no address number ${index}`)
  return addressOf(cidr.family, cidr.network.value + index)
}

/** The index of `address` in the range, counted from the network address; undefined if it is outside. */
export function indexOf(cidr: Cidr, address: Address): bigint | undefined {
  return cidrContains(cidr, address) ? address.value - cidr.network.value : undefined
}

/** Whether `address` lies in the range. Addresses of the other family never do. */
export function cidrContains(cidr: Cidr, address: Address): boolean {
  const offset = address.value - cidr.network.value
  return cidr.family === address.family && offset >= 0n && offset < cidr.size
}

/** Whether every address of `inner` lies in `outer`. If neither range includes the other, they share no address. */
export function cidrIncludes(outer: Cidr, inner: Cidr): boolean {
  return outer.prefix <= inner.prefix && cidrContains(outer, inner.network)
}

/**
 * How many addresses Services can use: all but the network address and, with IPv4, the broadcast address (upstream's
 * `hostsPerNetwork`).
 */
export function usableSize(cidr: Cidr): bigint {
  const usable = cidr.size - (cidr.family === 4 ? 2n : 1n)
  return usable < 0n ? 0n : usable
}

/** The ClusterIP of the Service `kubernetes`: the first usable address. @throws RangeError if there is none. */
export function serviceIpOf(cidr: Cidr): Address {
  if (usableSize(cidr) === 0n) throw new RangeError(`${cidr.text} is too small: it has no usable address`)
  return addressAt(cidr, 1n)
}

function addressIn(text: string, address: string): Address {
  try {
    return parseAddress(address)
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    throw new AddressError(`${JSON.stringify(text)} is not a CIDR: ${error.message}`)
  }
}

/** A range for which kube-apiserver stores a bitmap: its items are numbered from 0. */
export interface AllocationRange<Item> {
  /** The range as kube-apiserver stores it with the bitmap: `10.96.0.0/12`, `30000-32767`. */
  readonly text: string
  /** How many items can be allocated. */
  readonly size: number
  /** The number of an item; undefined when it cannot be allocated from this range. */
  offsetOf(item: Item): number | undefined
  /** The text of item number `offset`, which must be below `size`. */
  textAt(offset: number): string
}

/** kube-apiserver's bitmap of an IPv6 range covers at most this many addresses, the network address included. */
const LARGEST_IPV6 = 65_536n
/** The most host bits of an IPv4 range with a bitmap (`validateMaxCIDRRange` in cmd/kube-apiserver/app/options). */
const MOST_BITS = 20n

/**
 * The ClusterIPs of a range (`New` in pkg/registry/core/service/ipallocator/bitmap.go). With IPv4, all addresses except
 * the network and the broadcast address. With IPv6, at most the first 2^16 addresses, except the network address.
 * @throws RangeError for an IPv4 range of more than 2^20 addresses, for which kube-apiserver has no bitmap either.
 */
export function addressAllocationRange(cidr: Cidr): AllocationRange<Address> {
  if (cidr.family === 4 && cidr.size > 1n << MOST_BITS) {
    throw new RangeError(`${cidr.text} is too large for a bitmap: at most /12 of IPv4`)
  }
  const usable = usableSize(cidr)
  const capped = cidr.family === 6 && cidr.size > LARGEST_IPV6 ? LARGEST_IPV6 - 1n : usable
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

export function portAllocationRange(range: PortRange): AllocationRange<number> {
  return {
    text: range.text,
    size: range.size,
    offsetOf: (port) => (Number.isInteger(port) && portRangeContains(range, port) ? port - range.first : undefined),
    textAt: (offset) => String(range.first + offset),
  }
}
