import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { checkServerIdentity, connect, type PeerCertificate } from 'node:tls'
import type { CredentialFiles } from '../../etcd/connect-credentials.ts'
import type { EtcdEndpoint } from '../../etcd/endpoint.ts'
import { messageOf } from '../../runtime/message-of.ts'
import { DrillError } from '../drill-error.ts'
import type { TcpTarget } from './tcp-proxy.ts'

/** One endpoint of the etcd, as it can be proxied. */
export interface EtcdWay {
  readonly target: TcpTarget
  /**
   * What a proxy on a port of this machine is called, so that TLS still verifies the server, and the server its clients. Undefined without TLS: then
   * whoever reaches the proxy has the etcd, so that it must be at a socket that is open to this user alone.
   */
  readonly tlsHost: string | undefined
}

/** On 127.0.0.1, where the proxies are. */
const LOOPBACK = ['127.0.0.1', 'localhost']
const CONNECT_LIMIT_MS = 5_000

/**
 * How processes may reach each endpoint through a proxy on this machine. Asks those with TLS for their certificate. Rejects with a
 * {@link DrillError} when one is for no name that this machine has.
 */
export function etcdWays(endpoints: readonly EtcdEndpoint[], files: CredentialFiles): Promise<readonly EtcdWay[]> {
  return Promise.all(
    endpoints.map(async (endpoint): Promise<EtcdWay> => {
      const { tls, socketPath, host, port } = endpoint
      const target = socketPath === undefined ? { host, port } : { path: socketPath }
      if (!tls) return { target, tlsHost: undefined }
      const certificate = await certificateOf(endpoint, files)
      const name = LOOPBACK.find((one) => checkServerIdentity(one, certificate) === undefined)
      if (name === undefined) {
        throw new DrillError(
          `the certificate of ${endpoint.text} is for neither 127.0.0.1 nor localhost, so no proxy of a drill can stand before it: add one of them, or drill with --lease-store kubernetes`,
        )
      }
      return { target, tlsHost: name }
    }),
  )
}

async function certificateOf({ text, host, port }: EtcdEndpoint, files: CredentialFiles): Promise<PeerCertificate> {
  const read = (file: string | undefined): Promise<Buffer | undefined> =>
    file === undefined ? Promise.resolve(undefined) : readFile(file)
  const [ca, cert, key] = await Promise.all([read(files.cafile), read(files.certfile), read(files.keyfile)])
  // Its authority is verified; which of the names in it fits is what is asked here.
  const verified = { ca, cert, key, rejectUnauthorized: true, checkServerIdentity: () => undefined }
  const socket = connect({ host, port, ...verified, ALPNProtocols: ['h2'] })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(CONNECT_LIMIT_MS) })
    return socket.getPeerCertificate()
  } catch (error) {
    throw new DrillError(`${text} shows no certificate: ${messageOf(error)}`)
  } finally {
    socket.destroy()
  }
}
