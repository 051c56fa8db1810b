/** What is wrong with a text, in apimachinery's words; undefined when nothing is. */
export type Fault = string | undefined

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const qualifiedPart = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/
const labelValue = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/

/** RFC 1123 label: `my-name`, at most 63 characters. */
export function dnsLabelFault(text: string): Fault {
  if (text.length > 63) return 'must be no more than 63 bytes'
  if (label.test(text)) return undefined
  return "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
}

/** RFC 1123 subdomain: labels joined by dots, at most 253 characters. */
export function dnsSubdomainFault(text: string): Fault {
  if (text.length > 253) return 'must be no more than 253 bytes'
  if (subdomain.test(text)) return undefined
  return "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
}

/** The key of a label or annotation: a name of at most 63 characters, perhaps after a DNS subdomain and a slash. */
export function labelKeyFault(text: string): Fault {
  const parts = text.split('/')
  const name = parts[parts.length - 1] as string
  if (parts.length > 2)
    return "a qualified name must consist of alphanumeric characters, '-', '_' or '.', with an optional DNS subdomain prefix and '/'"
  if (parts.length === 2 && parts[0] === '') return 'prefix part must be non-empty'
  const prefixFault = parts.length === 2 ? dnsSubdomainFault(parts[0] as string) : undefined
  if (prefixFault !== undefined) return `prefix part ${prefixFault}`
  if (name === '') return 'name part must be non-empty'
  if (name.length > 63) return 'name part must be no more than 63 bytes'
  if (qualifiedPart.test(name)) return undefined
  return "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
}

/** The value of a label. */
export function labelFault(text: string): Fault {
  if (text.length > 63) return 'must be no more than 63 bytes'
  if (labelValue.test(text)) return undefined
  return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
}

/** The name of a port: at most 15 characters, with a letter (IANA service name). */
export function portNameFault(text: string): Fault {
  if (text.length > 15) return 'must be no more than 15 characters'
  if (!/^[-a-z0-9]+$/.test(text)) return 'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)'
  if (!/[a-z]/.test(text)) return 'must contain at least one letter (a-z)'
  if (text.includes('--')) return 'must not contain consecutive hyphens'
  return text.startsWith('-') || text.endsWith('-') ? 'must not begin or end with a hyphen' : undefined
}
