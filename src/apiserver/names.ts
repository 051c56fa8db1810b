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

/** The fault of a text, in apimachinery's words; undefined if there is none. */
type Fault = string | undefined

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const qualifiedPart = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/
const labelValue = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/

/** RFC 1123 label: `my-name`, at most 63 characters. */
export function dnsLabelFault(text: string): Fault {
  if (text.length > 63) return 'must be no more than 63 bytes'
  if (label.test(text)) return undefined
  return "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
}

/** RFC 1035 label: as an RFC 1123 label, but it begins with a letter. */
export function dns1035LabelFault(text: string): Fault {
  if (text.length > 63) return 'must be no more than 63 bytes'
  if (label.test(text) && !/^\d/.test(text)) return undefined
  return "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
}

/** RFC 1123 subdomain: labels joined by dots, at most 253 characters. */
export function dnsSubdomainFault(text: string): Fault {
  if (text.length > 253) return 'must be no more than 253 bytes'
  if (subdomain.test(text)) return undefined
  return "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
}

/** The key of a label or annotation: a name of at most 63 characters, optionally after a DNS subdomain and a slash. */
export function labelKeyFault(text: string): Fault {
  const parts = text.split('/')
  const name = parts[parts.length - 1] as string
  if (parts.length > 2)
    return "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
  if (parts.length === 2 && parts[0] === '') return 'prefix part must be non-empty'
  const prefixFault = parts.length === 2 ? dnsSubdomainFault(parts[0] as string) : undefined
  if (prefixFault !== undefined) return `prefix part ${prefixFault}`
  if (name === '') return 'name part must be non-empty'
  if (name.length > 63) return 'name part must be no more than 63 bytes'
  if (qualifiedPart.test(name)) return undefined
  return "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
}

/** The value of a label: empty, or at most 63 letters, digits, `-`, `_` and `.`. */
export function labelValueFault(text: string): Fault {
  if (text.length > 63) return 'must be no more than 63 bytes'
  if (labelValue.test(text)) return undefined
  return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
}

/** The name of a port: at most 15 characters, with a letter (IANA service name). */
export function portNameFault(text: string): Fault {
  if (text.length > 15) return 'must be no more than 15 characters'
  if (!/^[-a-z0-9]+$/.test(text)) return 'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)'
  if (!/[a-z]/.test(text)) return 'must contain at least one letter (a-z)'
  if (text.includes('--')) return 'must not contain consecutive hyphens'
  return text.startsWith('-') || text.endsWith('-') ? 'must not begin or end with a hyphen' : undefined
}

const notAnAddress = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
const leadingZero = /(^|[^0-9a-fA-F:.])0\d|\.0\d/

/** Why kube-apiserver refuses a text as an IP address (apimachinery's IsValidIPForLegacyField). */
export function ipFault(text: string): Fault {
  if (tryParseAddress(text) !== undefined) return undefined
  if (/^::ffff:(\d+\.){3}\d+$/i.test(text)) return 'must not be an IPv4-mapped IPv6 address'
  if (/^(\d+\.){3}\d+$/.test(text) && leadingZero.test(text)) return 'must not have leading 0s'
  return notAnAddress
}

/** As {@link ipFault}, but the text must also be in the canonical form. */
export function canonicalIpFault(text: string): Fault {
  const fault = ipFault(text)
  if (fault !== undefined) return fault
  const canonical = tryParseAddress(text)?.text
  return canonical === text ? undefined : `must be in canonical form (${JSON.stringify(canonical)})`
}

/** Why kube-apiserver refuses an address as the target of traffic (ValidateEndpointIP). */
export function endpointAddressFault(address: Address): Fault {
  if (isUnspecified(address)) return `may not be unspecified (${address.text})`
  if (isLoopback(address)) return 'may not be in the loopback range (127.0.0.0/8, ::1/128)'
  if (isLinkLocal(address)) return 'may not be in the link-local range (169.254.0.0/16, fe80::/10)'
  if (isLinkLocalMulticast(address)) return 'may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'
  return undefined
}

/** Why kube-apiserver refuses a text as a CIDR (apimachinery's IsValidCIDRForLegacyField). */
export function legacyCidrFault(text: string): Fault {
  try {
    parseCidr(text)
    return undefined
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    if (/^(\d+\.){3}\d+\/\d+$/.test(text) && /(^|[./])0\d/.test(text))
      return 'must not have leading 0s in IP or prefix length'
    return error.message.includes('host bits')
      ? 'must not have bits set beyond the prefix length'
      : 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'
  }
}

/** As {@link legacyCidrFault}, but the text must also be in the canonical form. */
export function cidrFault(text: string): Fault {
  const fault = legacyCidrFault(text)
  if (fault !== undefined) return fault
  const { text: canonical } = parseCidr(text)
  return canonical === text ? undefined : `must be in canonical form (${JSON.stringify(canonical)})`
}

/** Go's IsLinkLocalMulticast: 224.0.0.0/24, and ff02::/16 with any flags. */
function isLinkLocalMulticast(address: Address): boolean {
  if (!isMulticast(address)) return false
  return address.family === 4 ? address.value >> 8n === 0xe00000n : ((address.value >> 112n) & 0xfn) === 2n
}
