import {
  type Address,
  AddressError,
  isLinkLocal,
  isLoopback,
  isMulticast,
  isUnspecified,
  tryParseAddress,
} from '../net/address.ts'
import { parseCidr } from '../net/cidr.ts'
import type { Fault } from './names.ts'

const notAnAddress = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
const leadingZero = /(^|[^0-9a-fA-F:.])0\d|\.0\d/

/** What kube-apiserver has against a text as an IP address (apimachinery's IsValidIPForLegacyField). */
export function ipFault(text: string): Fault {
  if (tryParseAddress(text) !== undefined) return undefined
  if (/^::ffff:(\d+\.){3}\d+$/i.test(text)) return 'must not be an IPv4-mapped IPv6 address'
  if (/^(\d+\.){3}\d+$/.test(text) && leadingZero.test(text)) return 'must not have leading 0s'
  return notAnAddress
}

/** The same, and the text must be in the canonical form. */
export function canonicalIpFault(text: string): Fault {
  const fault = ipFault(text)
  if (fault !== undefined) return fault
  const canonical = tryParseAddress(text)?.text
  return canonical === text ? undefined : `must be in canonical form (${JSON.stringify(canonical)})`
}

/** What kube-apiserver has against an address that traffic is sent to (ValidateEndpointIP). */
export function endpointAddressFault(address: Address): Fault {
  if (isUnspecified(address)) return `may not be unspecified (${address.text})`
  if (isLoopback(address)) return 'may not be in the loopback range (127.0.0.0/8, ::1/128)'
  if (isLinkLocal(address)) return 'may not be in the link-local range (169.254.0.0/16, fe80::/10)'
  if (isLinkLocalMulticast(address)) return 'may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'
  return undefined
}

/** What kube-apiserver has against a text as a range, which must be in the canonical form. */
export function cidrFault(text: string): Fault {
  try {
    const { text: canonical } = parseCidr(text)
    return canonical === text ? undefined : `must be in canonical form (${JSON.stringify(canonical)})`
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    if (/^(\d+\.){3}\d+\/\d+$/.test(text) && /(^|[./])0\d/.test(text))
      return 'must not have leading 0s in IP or prefix length'
    return error.message.includes('host bits')
      ? 'must not have bits set beyond the prefix length'
      : 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'
  }
}

/** Go's IsLinkLocalMulticast: 224.0.0.0/24 and ff02::/16. */
function isLinkLocalMulticast(address: Address): boolean {
  if (!isMulticast(address)) return false
  return address.family === 4 ? address.value >> 8n === 0xe00000n : ((address.value >> 112n) & 0xfn) === 2n
}
