import { defaultTimes } from '../../etcd/connect-connection.ts'
import { type CredentialFiles, EtcdCredentials } from '../../etcd/connect-credentials.ts'
import { connectEtcd } from '../../etcd/connect-etcd.ts'
import { EndpointPool } from '../../etcd/connect-pool.ts'
import type { EtcdKv } from '../../etcd/kv.ts'
import { type EtcdEndpoint, parseEndpoint } from '../../etcd/options.ts'
import type { KubeApi } from '../../kube/api.ts'
import { loadKubeConfig } from '../../kube/kube-config.ts'
import { type Access, readPem } from '../../kube/kube-config-access.ts'
import { fromKubeConfig } from '../../kube/kube-config-transport.ts'
import { restKubeApi } from '../../kube/rest-api.ts'
import {
  EtcdLeaseInspector,
  KubernetesLeaseInspector,
  type LeaseInspector,
} from '../../kubernetes-service/masters/inspection.ts'
import { portOf } from '../../net/host-port.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { systemClock, systemRandom } from '../../runtime/system-clock.ts'
import { silentLogger } from '../../telemetry/logger.ts'
import { kubeApiserverAmong, mastersIn } from '../scenario/names.ts'
import type { MasterPlan, Scenario, Step } from '../scenario/scenario.ts'
import { DrillError } from '../target.ts'
import type { ProxiedServer } from './fault-proxy.ts'
import type { RealReadyz } from './readyz-responder.ts'
import type { TcpTarget } from './tcp-proxy.ts'

/** The API server and the etcd of a live drill. The drill itself connects to both without proxies. */
export interface Cluster {
  readonly access: Access
  readonly server: TcpTarget & { readonly tls: boolean }
  /** How a proxy connects to the API server. */
  readonly proxied: ProxiedServer
  /**
   * The credentials that a proxy sends to the server for clients that have the proxy's token. Undefined if the sidecars
   * use the kubeconfig's credentials.
   */
  readonly sentCredentials: { readonly authorization: string | undefined } | undefined
  readonly api: KubeApi
  readonly readyz: RealReadyz
  readonly etcd: { readonly kv: EtcdKv; readonly prefix: string } | undefined
  /** Undefined without etcd. */
  readonly standingLeases: StandingLeases | undefined
  readonly leaseStore: 'etcd' | 'kubernetes'
  readonly leases: LeaseInspector
  close(): Promise<void>
}

/**
 * Prepares the connections, but contacts nothing. Rejects with a KubeConfigError, an EtcdEndpointError or a
 * {@link DrillError}.
 */
export async function openCluster(options: LiveOptions, leaseStore: 'etcd' | 'kubernetes'): Promise<Cluster> {
  const { kubeconfig, context, etcdServers, etcdPrefix: prefix, etcdFiles: files } = options
  const { config, access } = await loadKubeConfig({ kubeconfig, context })
  if (access.proxy !== undefined) {
    throw new DrillError(
      `the API server is reached through the proxy ${access.proxy.origin}: a drill needs a direct connection, which it can cut`,
    )
  }
  const clock = systemClock
  const random = systemRandom()
  const transport = fromKubeConfig(config, { access, clock })
  const api = restKubeApi({ transport, clock, random, fieldManager: 'apiserver-bootstrap-drill' })
  const endpoints = etcdServers?.map(parseEndpoint)
  const kv = endpoints === undefined ? undefined : connectEtcd({ endpoints, ...files, clock, random })
  const standingLeases =
    kv === undefined || endpoints === undefined
      ? undefined
      : new StandingLeases({ kv, prefix, pool: poolOf(endpoints, files, clock), clock })
  if (leaseStore === 'etcd' && kv === undefined) throw new DrillError('leases in etcd need --etcd-servers')
  const { protocol, hostname } = access.server
  const tls = protocol === 'https:'
  const sentCredentials = sentCredentialsOf(access)
  return {
    access,
    server: { host: hostname.replace(/^\[|\]$/g, ''), port: portOf(access.server), tls },
    proxied: proxiedServer(access, sentCredentials !== undefined),
    sentCredentials,
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

/**
 * The proxy has the kubeconfig's client certificate only if the proxy requires a token from its clients (`asks`).
 * Otherwise anybody who finds the proxy's port could use the certificate.
 */
function proxiedServer(access: Access, asks: boolean): ProxiedServer {
  const { server: url, serverName, skipVerify, ca, clientCertificate } = access
  const { cert, key } = (asks ? clientCertificate : undefined) ?? {}
  const text = (pem: Parameters<typeof readPem>[0] | undefined): string | undefined => pem && readPem(pem)
  return { url, tls: { ca: text(ca), cert: text(cert), key: text(key), serverName, skipVerify } }
}

function sentCredentialsOf({ server, user }: Access): Cluster['sentCredentials'] {
  // Credentials are not sent without TLS.
  if (server.protocol === 'http:') return { authorization: undefined }
  if (user?.exec !== undefined || user?.authProvider !== undefined || user?.tokenFile !== undefined) return undefined
  const { token, username, password = '' } = user ?? {}
  if (token) return { authorization: `Bearer ${token}` }
  return { authorization: username ? `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` : undefined }
}

/** The interval between renewals, in milliseconds: a quarter of the shortest possible TTL. */
const RENEW_MS = 500
/** The prefixes of leases and of holder records, below the etcd prefix. */
const PREFIXES = ['/masterleases/', '/apiserver-bootstrap/holders/']

interface StandingLeasesOptions {
  readonly kv: EtcdKv
  readonly prefix: string
  readonly pool: EndpointPool
  readonly clock: Clock
}

/**
 * A dead etcd expires no leases, but in a datastore outage of a live drill etcd runs on. So this class renews the
 * leases during the outage. On kine the leases expire nevertheless, because a lease ID of kine identifies no lease.
 */
export class StandingLeases {
  readonly #options: StandingLeasesOptions
  #held: { readonly end: AbortController; readonly ended: Promise<void> } | undefined

  constructor(options: StandingLeasesOptions) {
    this.#options = options
  }

  /** Renews the leases that exist now, until {@link release}. */
  hold(): void {
    if (this.#held !== undefined) return
    const end = new AbortController()
    this.#held = { end, ended: this.#renew(end.signal) }
  }

  /** Renews the held leases once more, so that each has its whole TTL left, and then stops the renewals. */
  async release(): Promise<void> {
    this.#held?.end.abort()
    await this.#held?.ended
    this.#held = undefined
  }

  async close(): Promise<void> {
    await this.release()
    await this.#options.pool.close()
  }

  async #renew(end: AbortSignal): Promise<void> {
    const { kv, prefix, clock } = this.#options
    const never = new AbortController().signal
    const found = await Promise.all(
      PREFIXES.map((below) => kv.list(`${prefix}${below}`, { signal: never }).catch(() => ({ items: [] }))),
    )
    const leases = new Set(
      found.flatMap(({ items }) => items.map(({ lease }) => lease)).filter((lease) => lease !== 0n),
    )
    for (;;) {
      const isLast = end.aborted
      await Promise.all([...leases].map((lease) => this.#renewOne(lease, never).catch(() => {})))
      if (isLast) return
      await sleep(clock, RENEW_MS, end).catch(() => {})
    }
  }

  #renewOne(lease: bigint, signal: AbortSignal): Promise<void> {
    return this.#options.pool.ask('repeatable', signal, async (server, signal) => {
      async function* requests() {
        yield { ID: lease }
      }
      // The stream has one request, and therefore one answer.
      for await (const _ of server.lease.leaseKeepAlive(requests(), { signal })) return
    })
  }
}

export interface LiveOptions {
  readonly kubeconfig: string
  readonly context?: string | undefined
  /** The URLs of the API servers' own etcd or kine. Required for leases in etcd or kine, and for kube-apiservers. */
  readonly etcdServers?: readonly string[] | undefined
  readonly etcdPrefix: string
  readonly etcdFiles: CredentialFiles
  /** The kube-apiserver binary. */
  readonly kubeApiserver?: string | undefined
  /** One range, or two separated by a comma. @default that of the ServiceCIDR `kubernetes` */
  readonly serviceClusterIpRange?: string | undefined
  /** Where the output of all processes is stored after the drill. All names of files begin with `prefix`. */
  readonly logs?: { readonly directory: string; readonly prefix: string } | undefined
  /** The command that starts this program, and the arguments before `run`. */
  readonly program: readonly string[]
  /** Called with a line for the user, a few times in a drill. */
  readonly log: (line: string) => void
}

/** The parts of a scenario that are impossible with real processes, one line each. Pure. */
export function liveFaults(scenario: Scenario): readonly string[] {
  const { fleet, steps } = scenario
  const masters = mastersIn(scenario)
  const faults: string[] = []
  if (fleet.leaseStore === 'memory') faults.push('fleet: leases in memory are not accessible to other processes')
  for (const { name, addresses, skewMs, driftPpm } of fleet.masters) {
    if (skewMs !== 0 || driftPpm !== 0) faults.push(`${name}: the clock of a real process cannot be set`)
    const fault = addressFault(addresses)
    if (fault !== undefined) faults.push(`${name}: ${fault}`)
  }
  for (const step of steps) {
    const fault = stepFault(step, masters)
    if (fault !== undefined) faults.push(`steps: ${fault}`)
  }
  return faults
}

function stepFault(step: Step, masters: readonly MasterPlan[]): string | undefined {
  switch (step.action) {
    case 'clock-skew':
      return 'clock-skew is not supported with real processes'
    case 'compact':
      return 'compact is not supported with an external etcd'
    case 'random':
      return 'random steps are supported only by the simulator'
    case 'datastore-outage':
      return step.how === 'full' ? 'datastore-outage with how: full requires the simulator; use how: away' : undefined
    case 'roll-config': {
      const fault = addressFault(step.settings.addresses ?? [])
      return fault && `roll-config: ${fault}`
    }
    case 'readyz-fails': {
      const upstream = kubeApiserverAmong(step.masters, masters)
      return upstream && `readyz-fails cannot change the answers of ${upstream}, a real kube-apiserver`
    }
    default:
      return undefined
  }
}

function addressFault(addresses: readonly string[]): string | undefined {
  const real = addresses.find((address) => !isDocumentation(address))
  return (
    real &&
    `${real} is not a documentation address (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32), so it may be in use`
  )
}

/** Whether an address is reserved for documentation: RFC 5737, RFC 3849. */
export function isDocumentation(address: string): boolean {
  return /^(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d+$|^2001:0?db8:/i.test(address)
}
