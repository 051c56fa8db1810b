import { formatGroups } from './address.ts'

/** An address as the eight 16-bit groups of IPv6; an IPv4 address is in the last two groups, after `::ffff`. */
export type AddressGroups = Uint16Array

/**
 * Reads an address into `groups`, as loosely as Kubernetes reads stored ones: parts of IPv4 may have leading zeros, and
 * an IPv4 address mapped into IPv6 is that IPv4 address (`ParseIPSloppy` in k8s.io/utils/net). Returns the family;
 * undefined if the text is not an address.
 *
 * Allocates almost no objects, because a repair reads hundreds of thousands of addresses.
 */
export function readAddress(text: string, groups: AddressGroups): 4 | 6 | undefined {
  if (!text.includes(':')) {
    groups.fill(0)
    groups[5] = 0xffff
    return readIPv4(text, 0, groups, 6) ? 4 : undefined
  }
  if (!readIPv6(text, groups)) return undefined
  return groups[5] === 0xffff && groups.subarray(0, 5).every((group) => group === 0) ? 4 : 6
}

/** The value of an IPv4 address in `groups`. */
export function ipv4Value(groups: AddressGroups): number {
  return (groups[6] as number) * 65_536 + (groups[7] as number)
}

/** A buffer for one address, used only within a call. */
const buffer: AddressGroups = new Uint16Array(8)

/** The text that {@link readAddress} and {@link textFrom} make of `text`; undefined if it is not an address. */
export function canonicalAddress(text: string): string | undefined {
  const family = readAddress(text, buffer)
  return family === undefined ? undefined : textFrom(family, buffer, text)
}

/** Formats the address that was read from `text`, as Go writes it. Returns `text` itself if it has that form. */
export function textFrom(family: 4 | 6, groups: AddressGroups, text: string): string {
  if (family === 6) {
    const formatted = formatGroups(groups)
    // A second, equal string would take memory of its own.
    return formatted === text ? text : formatted
  }
  const [high, low] = [groups[6] as number, groups[7] as number]
  const [a, b, c, d] = [high >> 8, high & 0xff, low >> 8, low & 0xff] as const
  // A text in Go's form has exactly this length. Leading zeros and the IPv6 form of an IPv4 address make it longer.
  return text.length === digitsOf(a) + digitsOf(b) + digitsOf(c) + digitsOf(d) + 3 ? text : `${a}.${b}.${c}.${d}`
}

function digitsOf(part: number): number {
  return part < 10 ? 1 : part < 100 ? 2 : 3
}

/** Reads a text from `start` to its end as IPv4 into two groups; false if it is not IPv4. */
function readIPv4(text: string, start: number, groups: AddressGroups, index: number): boolean {
  let value = 0
  let at = start
  for (let parts = 0; parts < 4; parts++) {
    if (parts > 0 && text.charCodeAt(at++) !== DOT) return false
    const first = at
    let part = 0
    for (let digit = digitAt(text, at); digit < 10; digit = digitAt(text, ++at)) {
      part = part * 10 + digit
      if (part > 255) return false
    }
    if (at === first) return false
    value = value * 256 + part
  }
  groups[index] = value >>> 16
  groups[index + 1] = value & 0xffff
  return at === text.length
}

function readIPv6(text: string, groups: AddressGroups): boolean {
  let at = 0
  let count = 0
  /** How many groups there are before `::`; -1 without it. */
  let gap = -1
  if (text.startsWith('::')) {
    gap = 0
    at = 2
  }
  while (at < text.length) {
    const first = at
    let group = 0
    for (let digit = digitAt(text, at); digit < 16; digit = digitAt(text, ++at)) {
      group = group * 16 + digit
      if (group > 0xffff) return false
    }
    if (at === first || count === 8) return false
    if (text.charCodeAt(at) === DOT) {
      if (count > 6 || !readIPv4(text, first, groups, count)) return false
      count += 2
      break
    }
    groups[count++] = group
    if (at === text.length) break
    if (text.charCodeAt(at++) !== COLON || at === text.length) return false
    if (text.charCodeAt(at) === COLON) {
      if (gap >= 0) return false
      gap = count
      at++
    }
  }
  if (gap < 0) return count === 8
  if (count === 8) return false
  groups.copyWithin(gap + 8 - count, gap, count)
  groups.fill(0, gap, gap + 8 - count)
  return true
}

const DOT = 46
const COLON = 58

/** The value of a hexadecimal digit; 99 for any other character, or after the end. */
function digitAt(text: string, index: number): number {
  const code = text.charCodeAt(index)
  if (code >= 48 && code <= 57) return code - 48
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : 99
}
