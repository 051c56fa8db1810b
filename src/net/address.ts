import ipaddr from 'ipaddr.js'

/** An IP address. Two addresses are equal if and only if their texts are equal. */
export interface Address {
  readonly family: 4 | 6
  readonly value: bigint
  /** The one canonical form (RFC 5952, as Go's netip writes it): suitable for keys, names and comparison. */
  readonly text: string
}

/** A malformed address, range, port range or HOST:PORT. The message is one line that names the text and its fault. */
export class AddressError extends Error {
  override readonly name = 'AddressError'
  readonly code = 'InvalidAddress'
}

/**
 * Reads an address as strictly as Go's netip.ParseAddr. Also refuses zones (`fe80::1%eth0`) and IPv4-mapped IPv6
 * addresses (`::ffff:192.0.2.1`), because Kubernetes would store these in a different form.
 * @throws AddressError
 */
export function parseAddress(text: string): Address {
  return text.includes(':') ? parseIPv6(text) : parseIPv4(text)
}

/** Like {@link parseAddress}, but returns undefined instead of throwing. */
export function tryParseAddress(text: string): Address | undefined {
  try {
    return parseAddress(text)
  } catch {
    return undefined
  }
}

/** The family of a text, which must be an address. */
export function familyOf(address: string): 'IPv4' | 'IPv6' {
  return address.includes(':') ? 'IPv6' : 'IPv4'
}

/** The address of a family with this value. @throws RangeError if the value does not fit. */
export function addressOf(family: 4 | 6, value: bigint): Address {
  if (value < 0n || value >> BigInt(bitsOf(family)) !== 0n) {
    throw new RangeError(`${value} is not the value of an IPv${family} address`)
  }
  return { family, value, text: family === 4 ? formatIPv4(value) : formatIPv6(value) }
}

export function bitsOf(family: 4 | 6): 32 | 128 {
  return family === 4 ? 32 : 128
}

/** Whether the address is in 127.0.0.0/8, or ::1. */
export function isLoopback(address: Address): boolean {
  return address.family === 4 ? address.value >> 24n === 127n : address.value === 1n
}

/** Whether the host of a URL, without brackets, is `localhost` or a loopback address. No name is resolved. */
export function isLoopbackName(host: string): boolean {
  const address = tryParseAddress(host)
  return host === 'localhost' || (address !== undefined && isLoopback(address))
}

/** Whether the address is in 169.254.0.0/16 or fe80::/10. */
export function isLinkLocal(address: Address): boolean {
  return address.family === 4 ? address.value >> 16n === 0xa9fen : address.value >> 118n === 0x3fan
}

/** Whether the address is 0.0.0.0 or ::. */
export function isUnspecified(address: Address): boolean {
  return address.value === 0n
}

/** Whether the address is in 224.0.0.0/4 or ff00::/8. */
export function isMulticast(address: Address): boolean {
  return address.family === 4 ? address.value >> 28n === 0xen : address.value >> 120n === 0xffn
}

function parseIPv4(text: string): Address {
  const parts = text.split('.')
  if (parts.length !== 4 || !parts.every(isDecimalByte)) {
    throw new AddressError(`${JSON.stringify(text)} ${faultOf(text)}`)
  }
  return { family: 4, value: BigInt(parts.reduce((value, part) => value * 256 + Number(part), 0)), text }
}

/** Whether Go's netip accepts this part of an IPv4 address: at most 255, without a sign or leading zeros. */
function isDecimalByte(part: string): boolean {
  return /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255
}

function parseIPv6(text: string): Address {
  const quoted = JSON.stringify(text)
  if (text.includes('%')) throw new AddressError(`${quoted} has a zone; an address without a zone is needed`)
  const address = addressOf(6, valueOfIPv6(text))
  if (address.value >> 32n === 0xffffn) {
    const plain = formatIPv4(address.value & 0xffff_ffffn)
    throw new AddressError(`${quoted} is an IPv4 address mapped into IPv6; write ${plain}`)
  }
  return address
}

function valueOfIPv6(text: string): bigint {
  const notAnAddress = new AddressError(`${JSON.stringify(text)} is not an IPv6 address`)
  let hexOnly = text
  if (text.includes('.')) {
    // The IPv4 part at the end is replaced by hexadecimal groups. ipaddr.js would read that part as loosely as
    // inet_aton, and `::1.2.3.4` as an IPv4-mapped address.
    const tail = text.slice(text.lastIndexOf(':') + 1)
    if (!ipaddr.IPv4.isValidFourPartDecimal(tail)) throw notAnAddress
    const value = parseIPv4(tail).value
    hexOnly = `${text.slice(0, -tail.length)}${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`
  }
  if (!ipaddr.IPv6.isValid(hexOnly)) throw notAnAddress
  return ipaddr.IPv6.parse(hexOnly).parts.reduce((value, part) => (value << 16n) | BigInt(part), 0n)
}

/** Why a text without a colon is refused. */
function faultOf(text: string): string {
  if (text === '') return 'is not an IP address: it is empty'
  if (text.trim() !== text) return 'is not an IP address: it has spaces around it'
  if (!/^\d+(\.\d+)*$/.test(text)) return 'is not an IP address'
  const parts = text.split('.')
  if (parts.length !== 4) return 'is not an IP address: an IPv4 address has four parts'
  const padded = parts.find((part) => part.length > 1 && part.startsWith('0'))
  if (padded !== undefined) {
    return `is not an IP address: "${padded}" has a leading zero, which some programs read as octal`
  }
  return 'is not an IP address: each part of an IPv4 address is at most 255'
}

function formatIPv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join('.')
}

function formatIPv6(value: bigint): string {
  return formatGroups(Array.from({ length: 8 }, (_, index) => Number((value >> BigInt(112 - 16 * index)) & 0xffffn)))
}

/**
 * Eight 16-bit groups as Go writes them: `::` replaces the first of the longest runs of two or more zero groups. This
 * takes an eighth of the time of ipaddr.js, which matters because a repair formats hundreds of thousands of addresses.
 */
export function formatGroups(groups: ArrayLike<number>): string {
  let start = 8
  let length = 1
  for (let i = 0; i < 8; i++) {
    let end = i
    while (end < 8 && groups[end] === 0) end++
    if (end - i > length) {
      start = i
      length = end - i
    }
  }
  let text = ''
  for (let i = 0; i < 8; i++) {
    if (i > start && i < start + length) continue
    const isAfterGap = i === start + length
    text += i === start ? '::' : `${i === 0 || isAfterGap ? '' : ':'}${(groups[i] as number).toString(16)}`
  }
  return text
}
