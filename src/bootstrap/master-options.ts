import type { EtcdKv } from '../etcd/kv.ts'
import type { AuditUser } from '../kube/audit.ts'
import type { Connection } from '../kube/kube-config-ports.ts'
import type { LeaderElectionTiming } from '../kube/leader-election.ts'
import type { EtcdLeasesOptions } from '../kubernetes-service/leases/etcd.ts'
import type { MasterLeases } from '../kubernetes-service/leases/master-leases.ts'
import type { OnShutdown } from '../kubernetes-service/membership/state.ts'
import type { EndpointReconciler } from '../kubernetes-service/reconcilers/endpoint-reconciler.ts'
import type { Address } from '../net/address.ts'
import type { Cidr } from '../net/cidr.ts'
import type { PortRange } from '../net/port-range.ts'
import type { EtcdRangeRegistryOptions } from '../repair/registries/etcd.ts'
import type { RangeRegistry } from '../repair/registries/range-registry.ts'
import type { ControllerSelection } from './controller-selection.ts'

/** How one master behaves. Durations are in milliseconds. */
export interface MasterOptions {
  /**
   * The first, of the family of the first Service range, is listed in Endpoints; a second, of the other family, in a slice of its own
   * while all masters have one. Empty only with the reconciler `none`.
   */
  readonly advertiseAddresses: readonly Address[]
  readonly securePort: number
  /** One or two; the first gives the Service its ClusterIP. */
  readonly serviceClusterIpRanges: readonly Cidr[]
  readonly serviceNodePortRange: PortRange
  /** 0 for a ClusterIP Service. */
  readonly kubernetesServiceNodePort: number
  readonly endpointReconcilerType: 'lease' | 'master-count' | 'none'
  /** How many API servers there are, for `master-count`. */
  readonly apiserverCount: number
  /** `etcd` needs {@link MasterPorts.etcd}. */
  readonly leaseStore: 'etcd' | 'kubernetes' | 'memory'
  /** Where the Leases of the lease store `kubernetes` are. */
  readonly leaseNamespace: string
  /** What the API servers' keys begin with, without a slash at the end. */
  readonly etcdPrefix: string
  readonly leaseTtlMs: number
  readonly reconcileIntervalMs: number
  readonly readinessGate: 'continuous' | 'startup'
  readonly readinessProbePeriodMs: number
  readonly onShutdown: OnShutdown
  readonly shutdownDelayMs: number
  /** Where the bitmaps of allocated ports and addresses are. `etcd` needs {@link MasterPorts.etcd}. */
  readonly rangeRegistry: 'etcd' | 'configmap' | 'memory' | 'none'
  /** Between two full passes of a repair. */
  readonly repairIntervalMs: number
  /** How long what `default/kubernetes` needs at the start may be refused before the program ends, and any other duty be refused or undone before it is degraded. */
  readonly startupTimeoutMs: number
  /** Rewrite a stored range that is another than this master's. */
  readonly adoptRange: boolean
  readonly controllers: ControllerSelection
  readonly workloads: WorkloadOptions
  readonly dryRun: boolean
  /** Names the machine in the holder record; the same for each life of the same master, another for each master behind one address. */
  readonly host: string
}

/** How the controllers of a kube-controller-manager behave, where they are asked for. */
export interface WorkloadOptions {
  readonly endpoints: SyncOptions
  readonly endpointSlice: SyncOptions & { readonly maxEndpointsPerSlice: number }
  readonly mirroring: SyncOptions & { readonly maxEndpointsPerSubset: number }
  /** The Lease that the one process holds that works; undefined for a process that is alone. */
  readonly leaderElection: (LeaderElectionTiming & { readonly namespace: string; readonly name: string }) | undefined
}

export interface SyncOptions {
  /** How many Services are worked on at the same time. */
  readonly workers: number
  readonly batchPeriodMs: number
}

/** An etcd, and what keeps leases and ranges in it: apart, because only those who use etcd should have to load any. */
export interface EtcdStore {
  readonly kv: EtcdKv
  readonly Leases: new (options: EtcdLeasesOptions) => MasterLeases
  readonly Ranges: new (options: EtcdRangeRegistryOptions) => RangeRegistry
  /** The common name in the client certificate, for the audit trail. */
  readonly user?: string | undefined
}

/** What a master is connected to. Everything that it does to the world goes through these. */
export interface MasterPorts extends Omit<Connection, 'close'> {
  /** What the API servers store into; for the lease store `etcd`. */
  readonly etcd?: EtcdStore | undefined
  /** Who the audit trail says that writes, beside the host. */
  readonly user?: Omit<AuditUser, 'host'> | undefined
  /** Hears of each mistake in the program that a duty survived by beginning anew: a test should not. */
  readonly onMistake?: ((error: unknown) => void) | undefined
  /** Instead of the store that the options name. */
  readonly leases?: MasterLeases | undefined
  /** Instead of the registry that the options name. */
  readonly ranges?: RangeRegistry | undefined
  /** Instead of the reconciler that the options name. */
  readonly reconciler?: EndpointReconciler | undefined
}
