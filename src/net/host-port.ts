import { messageOf } from '../runtime/errors.ts'
import { oneLine } from '../telemetry/secrets.ts'
import { AddressError, parseAddress } from './address.ts'

/** Where a server listens. `host` is a name or an address without brackets; port 0 means any free one. */
export interface HostPort {
  readonly host: string
  readonly port: number
}

const dnsName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/i

/** Reads `HOST:PORT`, with brackets around IPv6, and addresses as strictly as `parseAddress`. @throws AddressError */
export function parseHostPort(text: string): HostPort {
  const quoted = JSON.stringify(text)
  const [, bracketed, plain, port = ''] = /^(?:\[([^\]]*)\]|([^:]*)):([^:]*)$/.exec(text) ?? []
  if (bracketed === undefined && plain === undefined) {
    throw new AddressError(`${quoted} is not HOST:PORT, such as 127.0.0.1:10269 or [::1]:10269`)
  }
  if (!/^(0|[1-9]\d{0,4})$/.test(port) || Number(port) > 65_535) {
    throw new AddressError(`${quoted} is not HOST:PORT: the port is a number from 0 to 65535`)
  }
  return { host: hostIn(quoted, bracketed, plain ?? ''), port: Number(port) }
}

/** The inverse of {@link parseHostPort}. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** The port of a server's URL, which may leave out the default port of its scheme. */
export function portOf({ port, protocol }: URL): number {
  return Number(port || (protocol === 'https:' ? 443 : 80))
}

function hostIn(quoted: string, bracketed: string | undefined, plain: string): string {
  if (bracketed === undefined && plain === '') {
    throw new AddressError(`${quoted} is not HOST:PORT: the host is missing; use 0.0.0.0 or [::] for all addresses`)
  }
  const isNumeric = bracketed !== undefined || /^[\d.]+$/.test(plain)
  if (!isNumeric) {
    if (dnsName.test(plain)) return plain
    throw new AddressError(`${quoted} is not HOST:PORT: ${JSON.stringify(plain)} is neither a name nor an address`)
  }
  if (bracketed !== undefined && !bracketed.includes(':')) {
    throw new AddressError(`${quoted} is not HOST:PORT: only an IPv6 address may be in brackets`)
  }
  return parseAddress(bracketed ?? plain).text
}

/** Ports from `first` to `last`, both included. */
export interface PortRange {
  readonly first: number
  readonly last: number
  readonly size: number
  /** `30000-32767`. */
  readonly text: string
}

/**
 * Reads `A-B`, `A+N` (A and the N ports after it) or a single `A`, as kube-apiserver's `--service-node-port-range` does
 * (k8s.io/apimachinery/pkg/util/net/port_range.go). Upstream also accepts empty texts, spaces, leading zeros and port
 * 0.
 * @throws AddressError
 */
export function parsePortRange(text: string): PortRange {
  const quoted = JSON.stringify(text)
  const match = /^(0|[1-9]\d{0,4})(?:([-+])(0|[1-9]\d{0,4}))?$/.exec(text)
  if (match === null) throw new AddressError(`${quoted} is not a port range: write it like 30000-32767`)
  const first = Number(match[1])
  const second = Number(match[3] ?? first)
  const last = match[2] === '+' ? first + second : second
  if (first < 1 || last > 65_535) throw new AddressError(`${quoted} is not a port range: ports are 1 to 65535`)
  if (last < first) throw new AddressError(`${quoted} is not a port range: it ends before it begins`)
  return { first, last, size: last - first + 1, text: `${first}-${last}` }
}

export function portRangeContains(range: PortRange, port: number): boolean {
  return port >= range.first && port <= range.last
}

/** Short reasons for broken connections, by the system's or Node's code. */
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection closed while sending',
  EHOSTUNREACH: 'no route to host',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'temporary failure in name resolution',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS on this port',
}

/** Faults of a server's certificate: each completes a sentence that begins with "the certificate". */
const certificateFaults: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'is signed by an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'is signed by an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT: 'is signed by an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'is signed by an unknown authority',
  CERT_SIGNATURE_FAILURE: 'is signed by another authority of the same name',
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
  CERT_REVOKED: 'is revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another name',
}

/** The short reason for an error code of a socket or of TLS; undefined for other codes. Pure. */
export function socketReason(code: string): string | undefined {
  const known = reasons[code]
  if (known !== undefined) return known
  if (!code.startsWith('ERR_SSL_')) return undefined
  return `the TLS handshake failed (${code.slice('ERR_SSL_'.length).toLowerCase().replaceAll('_', ' ')})`
}

/** The fault of the server's certificate, as in `is self-signed`; undefined for codes about something else. Pure. */
export function certificateFault(code: string): string | undefined {
  return certificateFaults[code]
}

/**
 * The system's or Node's error code, such as `ECONNREFUSED`: that of the first of `error` and its causes (five errors
 * in all) that has a code. Empty if none has one. If connections to several addresses failed, the first address counts.
 */
export function failureCode(error: unknown): string {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth++) {
    const inner: unknown = current instanceof AggregateError ? current.errors[0] : undefined
    const code = inner instanceof Error && 'code' in inner ? inner.code : 'code' in current ? current.code : ''
    if (typeof code === 'string' && code !== '') return code
  }
  return ''
}

/** The message of an error as one line of at most 200 characters. Pure. */
export function shortMessage(error: unknown): string {
  return oneLine(messageOf(error), 200)
}
