import { AddressError, parseAddress } from './address.ts'

/** Where a server listens. `host` is a name or an address without brackets; port 0 means any free one. */
export interface HostPort {
  readonly host: string
  readonly port: number
}

const dnsName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/i

/**
 * Reads `HOST:PORT`, with brackets around an IPv6 address. Addresses are read as strictly as by `parseAddress`.
 * @throws AddressError
 */
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

function hostIn(quoted: string, bracketed: string | undefined, plain: string): string {
  if (bracketed === undefined && plain === '') {
    throw new AddressError(`${quoted} is not HOST:PORT: the host is missing; 0.0.0.0 and [::] stand for every address`)
  }
  const looksNumeric = bracketed !== undefined || /^[\d.]+$/.test(plain)
  if (!looksNumeric) {
    if (dnsName.test(plain)) return plain
    throw new AddressError(`${quoted} is not HOST:PORT: ${JSON.stringify(plain)} is neither a name nor an address`)
  }
  if (bracketed !== undefined && !bracketed.includes(':')) {
    throw new AddressError(`${quoted} is not HOST:PORT: only an IPv6 address stands in brackets`)
  }
  return parseAddress(bracketed ?? plain).text
}
