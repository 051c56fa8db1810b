import { BlockList, isIP } from 'node:net'
import { isLoopbackName } from '../net/address.ts'
import { portOf } from '../net/host-port.ts'
import { addSecret } from '../telemetry/secrets.ts'

/** The environment variables that name proxies, as Go's programs (kubectl among them) read them. */
export type ProxyEnvironment = Readonly<Record<string, string | undefined>>

/** A proxy setting that cannot be used. The message names the setting, never a password in it. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError'
  readonly code = 'InvalidProxy'
}

/**
 * The proxy for `server`; undefined for a direct connection.
 *
 * The rules are those of Go's `golang.org/x/net/http/httpproxy`. HTTPS_PROXY is for https and HTTP_PROXY for http; an
 * upper-case name comes before the lower-case one. NO_PROXY lists domains (`example.com` includes its subdomains,
 * `.example.com` means only the subdomains) and addresses, all with an optional port, and CIDRs; `*` covers everything.
 * Localhost and loopback addresses are never proxied. Throws a ProxyError for a value that is not the URL of an http or
 * https proxy.
 */
export function proxyFromEnvironment(server: URL, environment: ProxyEnvironment): URL | undefined {
  const name = server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY'
  const value = environment[name] || environment[name.toLowerCase()]
  if (value === undefined || value === '') return undefined
  const noProxy = environment.NO_PROXY || environment.no_proxy || ''
  return goesDirect(server, noProxy) ? undefined : parseProxy(name, value)
}

/** Reads a proxy's URL; `http://` may be left out. Throws a ProxyError that names `setting`. */
export function parseProxy(setting: string, value: string): URL {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`)
  if (url === null || url.hostname === '') throw new ProxyError(`${setting} is not a URL such as http://proxy:3128`)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ProxyError(
      `${setting} names a ${url.protocol.slice(0, -1)} proxy; only http and https proxies are supported`,
    )
  }
  try {
    decodeURIComponent(`${url.username} ${url.password}`)
  } catch {
    throw new ProxyError(`${setting} has a % in its user or password that is no escape; write %25`)
  }
  addSecret(url.password)
  return url
}

/** Whether the host of `server` is a loopback name or address. Names are not resolved. */
export function isLoopbackHost(server: URL): boolean {
  return isLoopbackName(bare(server.hostname))
}

function goesDirect(server: URL, noProxy: string): boolean {
  if (isLoopbackHost(server)) return true
  const host = bare(server.hostname)
  return noProxy.split(',').some((entry) => matches(entry.trim().toLowerCase(), host, `${portOf(server)}`))
}

function matches(entry: string, host: string, port: string): boolean {
  if (entry === '') return false
  if (entry === '*') return true
  const [, network, prefix] = /^([0-9a-f.:]+)\/(\d{1,3})$/.exec(entry) ?? []
  if (network !== undefined) return isIP(host) !== 0 && inSubnet(host, network, Number(prefix))
  const [, bracketed, entryHost, entryPort] = /^(?:\[(.+)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [entry, entry]
  if (entryPort !== undefined && entryPort !== port) return false
  const name = bracketed ?? entryHost ?? ''
  if (isIP(name) !== 0) return isIP(host) !== 0 && inSubnet(host, name, isIP(name) === 4 ? 32 : 128)
  if (name === '' || isIP(host) !== 0) return false
  const suffix = name.startsWith('*.') ? name.slice(1) : name
  return suffix.startsWith('.') ? host.endsWith(suffix) : host === suffix || host.endsWith(`.${suffix}`)
}

function inSubnet(host: string, network: string, prefix: number): boolean {
  if (isIP(network) === 0 || prefix > (isIP(network) === 4 ? 32 : 128)) return false
  const list = new BlockList()
  list.addSubnet(network, prefix, family(network))
  return list.check(host, family(host))
}

function family(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4'
}

function bare(hostname: string): string {
  return hostname.replace(/^\[(.+)\]$/, '$1').toLowerCase()
}
