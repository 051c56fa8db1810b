import { once } from 'node:events'
import { mkdtemp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkServerIdentity, connect, type PeerCertificate } from 'node:tls'
import type { CredentialFiles } from '../../etcd/connect-credentials.ts'
import type { EtcdEndpoint } from '../../etcd/options.ts'
import { messageOf } from '../../runtime/errors.ts'
import { DrillError } from '../target.ts'
import { TcpProxy, type TcpTarget } from './tcp-proxy.ts'

/** The longest path of a drill's directory, in bytes. The path of a socket has at most 107 bytes. */
const MAX_DIRECTORY = 107 - '/s123456/99'.length

/** One master's proxies to the endpoints of etcd. */
export class EtcdProxies {
  /** The URLs of the proxies, for `--etcd-servers`. */
  readonly urls: readonly string[]
  /** Whether connections are black-holed. */
  cut = false
  /** Whether connections are refused. */
  away = false
  delayMs = 0
  readonly #proxies: readonly TcpProxy[]

  private constructor(urls: readonly string[], proxies: readonly TcpProxy[]) {
    this.urls = urls
    this.#proxies = proxies
  }

  /**
   * Creates Unix sockets below `directory` for endpoints without TLS, and listens on TCP ports for endpoints with TLS.
   * Only this user may have access to `directory`. If it is to contain sockets, it must have no {@link socketFault}.
   */
  static async open(paths: readonly EtcdProxyTarget[], directory: string): Promise<EtcdProxies> {
    const sockets = await mkdtemp(join(directory, 's'))
    const urls: string[] = []
    const proxies: TcpProxy[] = []
    for (const { target, tlsHost } of paths) {
      const path = join(sockets, `${proxies.length}`)
      const proxy = tlsHost === undefined ? TcpProxy.at(path, target) : await TcpProxy.open(target)
      proxies.push(proxy)
      urls.push(tlsHost === undefined ? `unix://${path}` : `https://${tlsHost}:${proxy.port}`)
    }
    await Promise.all(proxies.map((proxy) => proxy.accept()))
    return new EtcdProxies(urls, proxies)
  }

  setCut(cut: boolean): void {
    if (cut === this.cut) return
    this.cut = cut
    for (const proxy of this.#proxies) proxy.setCut(cut)
  }

  /** Refuses connections, as if etcd had been killed, or accepts them again. */
  async setAway(away: boolean): Promise<void> {
    if (away === this.away) return
    this.away = away
    await Promise.all(this.#proxies.map((proxy) => (away ? proxy.refuse() : proxy.accept())))
  }

  slow(delayMs: number): void {
    this.delayMs = delayMs
    for (const proxy of this.#proxies) proxy.delay(delayMs)
  }

  reset(): void {
    for (const proxy of this.#proxies) proxy.reset()
  }

  async close(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()))
  }
}

/**
 * Why `--etcd-servers` cannot name sockets in this directory, such as `is longer than 96 bytes`; undefined if it can.
 * kube-apiserver parses the flag as CSV, and each entry as a URL.
 */
export function socketFault(directory: string): string | undefined {
  if (Buffer.byteLength(directory) > MAX_DIRECTORY) return `is longer than ${MAX_DIRECTORY} bytes`
  return /[,"%?#\p{Cc}]/u.test(directory) ? 'has a character that is not allowed in a list of URLs' : undefined
}

export interface EtcdProxyTarget {
  readonly target: TcpTarget
  /**
   * The host in the URL of the proxy, for which the certificate of etcd is valid, so that TLS works through the proxy.
   * Undefined without TLS. Then any client of the proxy can use etcd, so the proxy listens on a Unix socket that only
   * this user can open.
   */
  readonly tlsHost: string | undefined
}

const LOOPBACK = ['127.0.0.1', 'localhost']
const CONNECT_LIMIT_MS = 5_000

/**
 * How a proxy on this machine reaches each endpoint, and which host the URL of the proxy needs. Reads the certificates
 * of endpoints with TLS. Rejects with a {@link DrillError} if an endpoint returns no certificate that is valid for
 * 127.0.0.1 or localhost.
 */
export function etcdProxyTargets(
  endpoints: readonly EtcdEndpoint[],
  files: CredentialFiles,
): Promise<readonly EtcdProxyTarget[]> {
  return Promise.all(
    endpoints.map(async (endpoint): Promise<EtcdProxyTarget> => {
      const { tls, socketPath, host, port } = endpoint
      const target = socketPath === undefined ? { host, port } : { path: socketPath }
      if (!tls) return { target, tlsHost: undefined }
      const certificate = await certificateOf(endpoint, files)
      const name = LOOPBACK.find((one) => checkServerIdentity(one, certificate) === undefined)
      if (name === undefined) {
        throw new DrillError(
          `the certificate of ${endpoint.text} is for neither 127.0.0.1 nor localhost, so a drill cannot put a proxy in front of this etcd: add one of these names to the certificate, or use --lease-store kubernetes`,
        )
      }
      return { target, tlsHost: name }
    }),
  )
}

async function certificateOf({ text, host, port }: EtcdEndpoint, files: CredentialFiles): Promise<PeerCertificate> {
  const [ca, cert, key] = await Promise.all(
    [files.cafile, files.certfile, files.keyfile].map((file) => (file === undefined ? undefined : readFile(file))),
  )
  // TLS verifies the authority of the certificate; the caller checks its names.
  const verified = { ca, cert, key, rejectUnauthorized: true, checkServerIdentity: () => undefined }
  const socket = connect({ host, port, ...verified, ALPNProtocols: ['h2'] })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(CONNECT_LIMIT_MS) })
    return socket.getPeerCertificate()
  } catch (error) {
    throw new DrillError(`cannot get a trusted certificate from ${text}: ${messageOf(error)}`)
  } finally {
    socket.destroy()
  }
}
