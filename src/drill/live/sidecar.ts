import { rename, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Access } from '../../kube/kube-config-access.ts'
import type { FleetPlan, MasterSettings } from '../scenario/scenario.ts'
import { type Child, ProcessLife } from './child.ts'

export class SidecarLife extends ProcessLife {
  /** The number of this life, from 1 on. */
  readonly number: number
  readonly settings: SidecarSettings
  /**
   * Whether the sidecar has received an answer to a probe. Answers of request faults do not count. Before the first
   * answer the sidecar does not count as running.
   */
  awake = false

  constructor(child: Child, number: number, settings: SidecarSettings) {
    super(child)
    this.number = number
    this.settings = settings
  }

  override get running(): boolean {
    return this.awake && super.running
  }
}

/**
 * The life whose state counts as the state of the master. `life` is the latest life, and `before` the one before it.
 * While `before` is running, it counts until `life` is {@link SidecarLife.awake} or has ended. Otherwise `life` counts.
 */
export function lifeThatCounts(
  life: SidecarLife | undefined,
  before: SidecarLife | undefined,
): SidecarLife | undefined {
  const waits = life !== undefined && !life.awake && !life.child.ended
  return waits && before?.running === true ? before : life
}

export interface SidecarSettings extends Required<MasterSettings> {
  readonly apiserverCount: number
  readonly leaseStore: FleetPlan['leaseStore']
}

interface SidecarSurroundings {
  readonly kubeconfig: string
  readonly host: string
  readonly readyzUrl: string
  readonly serviceClusterIpRange: string
  /** The URLs of the proxies to etcd, and the other flags for etcd; undefined if the leases are Lease objects. */
  readonly etcd: { readonly servers: readonly string[]; readonly flags: readonly string[] } | undefined
}

export function settingsOf(fleet: FleetPlan, addresses: readonly string[], own: MasterSettings): SidecarSettings {
  return { ...fleet, securePort: 6443, addresses, ...own }
}

/** The command line of one life, from `run` on. Pure. */
export function sidecarFlags(settings: SidecarSettings, around: SidecarSurroundings): readonly string[] {
  return [
    'run',
    `--kubeconfig=${around.kubeconfig}`,
    `--hostname-override=${around.host}`,
    `--advertise-address=${settings.addresses.join()}`,
    `--secure-port=${settings.securePort}`,
    `--service-cluster-ip-range=${around.serviceClusterIpRange}`,
    `--endpoint-reconciler-type=${settings.reconciler}`,
    ...(settings.reconciler === 'master-count' ? [`--apiserver-count=${settings.apiserverCount}`] : []),
    `--lease-store=${around.etcd === undefined ? 'kubernetes' : 'etcd'}`,
    `--lease-ttl=${settings.leaseTtlMs}ms`,
    `--reconcile-interval=${settings.reconcileIntervalMs}ms`,
    `--readyz-url=${around.readyzUrl}`,
    `--readiness-gate=${settings.readinessGate}`,
    `--on-shutdown=${settings.onShutdown}`,
    ...(around.etcd === undefined ? [] : [`--etcd-servers=${around.etcd.servers.join()}`, ...around.etcd.flags]),
    // The simulator turns off the same controllers.
    '--controllers=auto,-cluster-ip-repair,-node-port-repair',
    '--health-bind-address=127.0.0.1:0',
    '--log-format=json',
  ]
}

/** How a sidecar of a drill connects to its API server. */
export interface SidecarAccess {
  /** The port on 127.0.0.1. */
  readonly port: number
  /** The authority of the server's certificate, as PEM. */
  readonly authority: string
  /** Undefined if the sidecar uses the credentials of the kubeconfig. */
  readonly token: string | undefined
}

/**
 * A kubeconfig for a sidecar whose API server is a proxy of the drill. Without a token of the proxy, the kubeconfig has
 * the credentials of `access` except client certificates, which do not pass through a proxy.
 */
function kubeconfigCopy(access: Access, way: SidecarAccess): object {
  const user = way.token === undefined ? userOf(access) : { ...impersonation(access), token: way.token }
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'drill',
    contexts: [{ name: 'drill', context: { cluster: 'drill', user: 'drill' } }],
    clusters: [{ name: 'drill', cluster: clusterOf(access, way) }],
    users: [{ name: 'drill', user }],
  }
}

/**
 * Writes a {@link kubeconfigCopy}. Only this user can read the file, because it may contain credentials. A concurrent
 * reader finds the whole previous file or the whole new file.
 */
export async function writeKubeconfigCopy(file: string, access: Access, way: SidecarAccess): Promise<void> {
  // JSON is YAML.
  await writeFile(`${file}.next`, `${JSON.stringify(kubeconfigCopy(access, way), undefined, 2)}\n`, { mode: 0o600 })
  await rename(`${file}.next`, file)
}

function clusterOf({ server, cluster }: Access, { port, authority }: SidecarAccess): object {
  return {
    server: `https://127.0.0.1:${port}${server.pathname.replace(/\/+$/, '')}`,
    'certificate-authority-data': Buffer.from(authority).toString('base64'),
    ...(cluster.execConfig !== undefined && {
      extensions: [{ name: 'client.authentication.k8s.io/exec', extension: cluster.execConfig }],
    }),
  }
}

function userOf(access: Access): Readonly<Record<string, unknown>> {
  const { user } = access
  return {
    token: user?.token,
    tokenFile: user?.tokenFile && resolve(user.tokenFile),
    username: user?.username,
    password: user?.password,
    exec: user?.exec,
    'auth-provider': user?.authProvider,
    ...impersonation(access),
  }
}

function impersonation({ user }: Access): Readonly<Record<string, unknown>> {
  return {
    as: user?.impersonateUser,
    'as-uid': user?.impersonateUid,
    'as-groups': user?.impersonateGroups,
    'as-user-extra': user?.impersonateExtra,
  }
}
