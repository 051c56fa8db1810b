import type { FleetPlan, MasterSettings } from '../scenario.ts'

/** What one life of a sidecar is told. */
export interface SidecarSettings extends Required<MasterSettings> {
  readonly apiserverCount: number
  readonly leaseStore: FleetPlan['leaseStore']
}

/** Where a sidecar finds everything. */
export interface SidecarSurroundings {
  readonly kubeconfig: string
  readonly host: string
  readonly readyzUrl: string
  readonly serviceClusterIpRange: string
  /** Of the proxies; undefined where the leases are objects of the API. */
  readonly etcd: { readonly servers: readonly string[]; readonly flags: readonly string[] } | undefined
}

/** What of a fleet a master has, and what it has for itself. */
export function settingsOf(fleet: FleetPlan, addresses: readonly string[], own: MasterSettings): SidecarSettings {
  const { reconciler, apiserverCount, leaseStore, leaseTtlMs, reconcileIntervalMs, readinessGate, onShutdown } = fleet
  return {
    ...{ reconciler, apiserverCount, leaseStore, leaseTtlMs, reconcileIntervalMs, readinessGate, onShutdown },
    ...{ securePort: 6443, addresses },
    ...own,
  }
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
    // As in the simulator.
    '--controllers=auto,-cluster-ip-repair,-node-port-repair',
    '--health-bind-address=127.0.0.1:0',
    '--log-format=json',
  ]
}
