import { defaultTimes } from '../../etcd/connect-connection.ts'
import { type CredentialFiles, EtcdCredentials } from '../../etcd/connect-credentials.ts'
import { connectEtcd } from '../../etcd/connect-etcd.ts'
import { EndpointPool } from '../../etcd/connect-pool.ts'
import { type EtcdEndpoint, parseEndpoint } from '../../etcd/endpoint.ts'
import type { EtcdKv } from '../../etcd/kv.ts'
import type { KubeApi } from '../../kube/api.ts'
import { loadKubeConfig } from '../../kube/kube-config.ts'
import { type Access, readPem } from '../../kube/kube-config-access.ts'
import { fromKubeConfig } from '../../kube/kube-config-transport.ts'
import { restKubeApi } from '../../kube/rest-api.ts'
import type { LeaseInspector } from '../../kubernetes-service/leases/inspect.ts'
import { EtcdLeaseInspector } from '../../kubernetes-service/leases/inspect-etcd.ts'
import { KubernetesLeaseInspector } from '../../kubernetes-service/leases/inspect-kubernetes.ts'
import type { Clock } from '../../runtime/clock.ts'
import { systemClock } from '../../runtime/system-clock.ts'
import { systemRandom } from '../../runtime/system-random.ts'
import { silentLogger } from '../../telemetry/logger.ts'
import { DrillError } from '../drill-error.ts'
import type { ProxiedServer } from './fault-proxy.ts'
import type { LiveOptions } from './live-options.ts'
import type { RealReadyz } from './readyz-responder.ts'
import { StandingLeases } from './standing-leases.ts'
import type { TcpTarget } from './tcp-proxy.ts'

/** The API server and the etcd that a drill was given, as the drill itself reaches them: past all proxies. */
export interface Cluster {
  readonly access: Access
  /** Where the API server listens. */
  readonly server: TcpTarget & { readonly tls: boolean }
  /** The same, as a proxy reaches it. */
  readonly proxied: ProxiedServer
  /** What a proxy shows for whoever has a token of its own; undefined where the sidecars fetch their credentials themselves. */
  readonly shown: { readonly authorization: string | undefined } | undefined
  readonly api: KubeApi
  readonly readyz: RealReadyz
  readonly etcd: { readonly kv: EtcdKv; readonly prefix: string } | undefined
  /** Undefined without etcd. */
  readonly standingLeases: StandingLeases | undefined
  readonly leaseStore: 'etcd' | 'kubernetes'
  /** Of the store that the fleet keeps its leases in. */
  readonly leases: LeaseInspector
  close(): Promise<void>
}

/** Connects; contacts nobody yet. Rejects with a KubeConfigError, an EtcdEndpointError or a {@link DrillError} of one line. */
export async function openCluster(options: LiveOptions, leaseStore: 'etcd' | 'kubernetes'): Promise<Cluster> {
  const { kubeconfig, context, etcdServers, etcdPrefix: prefix } = options
  const { config, access } = await loadKubeConfig({ kubeconfig, context })
  if (access.proxy !== undefined) {
    throw new DrillError(
      `the API server is reached by way of the proxy ${access.proxy.origin}: a drill needs a direct way, so that it can cut it`,
    )
  }
  const clock = systemClock
  const random = systemRandom()
  const transport = fromKubeConfig(config, { access, clock })
  const api = restKubeApi({ transport, clock, random, fieldManager: 'apiserver-bootstrap-drill' })
  const endpoints = etcdServers?.map(parseEndpoint)
  const files = { cafile: options.etcdCafile, certfile: options.etcdCertfile, keyfile: options.etcdKeyfile }
  const kv = endpoints === undefined ? undefined : connectEtcd({ endpoints, ...files, clock, random })
  const standingLeases =
    kv === undefined || endpoints === undefined
      ? undefined
      : new StandingLeases({ kv, prefix, pool: poolOf(endpoints, files, clock), clock })
  if (leaseStore === 'etcd' && kv === undefined) throw new DrillError('leases in etcd need --etcd-servers')
  const { protocol, hostname, port } = access.server
  const tls = protocol === 'https:'
  const shown = shownBy(access)
  return {
    access,
    server: { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (tls ? 443 : 80)), tls },
    proxied: proxiedServer(access, shown !== undefined),
    shown,
    api,
    async readyz() {
      const response = await transport.send(
        { method: 'GET', path: '/readyz', query: [['verbose', 'true']], headers: { accept: '*/*' }, timeoutMs: 3_000 },
        new AbortController().signal,
      )
      return {
        status: response.status,
        text: 'body' in response && typeof response.body === 'string' ? response.body : '',
      }
    },
    etcd: kv && { kv, prefix },
    standingLeases,
    leaseStore,
    leases:
      leaseStore === 'etcd' && kv !== undefined
        ? new EtcdLeaseInspector({ etcd: kv, prefix })
        : new KubernetesLeaseInspector({ api, clock }),
    async close() {
      await standingLeases?.close()
      await Promise.all([transport.close(), kv?.close()])
    },
  }
}

function poolOf(endpoints: readonly EtcdEndpoint[], files: CredentialFiles, clock: Clock): EndpointPool {
  const logger = silentLogger
  const credentials = new EtcdCredentials(files, { clock, logger })
  return new EndpointPool({ endpoints, credentials, clock, logger, times: defaultTimes, requestTimeoutMs: 3_000 })
}

/** A certificate is shown for those alone that the proxy asks for a token of its own: it would let in whoever finds the port. */
function proxiedServer(access: Access, asks: boolean): ProxiedServer {
  const { server: url, serverName, skipVerify, ca, clientCertificate } = access
  const { cert, key } = (asks ? clientCertificate : undefined) ?? {}
  const text = (pem: Parameters<typeof readPem>[0] | undefined): string | undefined => pem && readPem(pem)
  return { url, tls: { ca: text(ca), cert: text(cert), key: text(key), serverName, skipVerify } }
}

function shownBy({ server, user }: Access): Cluster['shown'] {
  // Nobody's credentials go in the clear.
  if (server.protocol === 'http:') return { authorization: undefined }
  if (user?.exec !== undefined || user?.authProvider !== undefined || user?.tokenFile !== undefined) return undefined
  const { token, username, password = '' } = user ?? {}
  if (token) return { authorization: `Bearer ${token}` }
  return { authorization: username ? `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` : undefined }
}
