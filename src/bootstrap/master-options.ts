import type { EtcdKv } from '../etcd/kv.ts'
import type { AuditUser } from '../kube/audit.ts'
import type { Discovery } from '../kube/discovery.ts'
import type { Connection } from '../kube/kube-config.ts'
import type { LeaderElectionTiming } from '../kube/leader-election.ts'
import type { EtcdLeasesOptions } from '../kubernetes-service/leases/etcd/leases.ts'
import type { MasterLeases } from '../kubernetes-service/leases/master-leases.ts'
import type { OnShutdown } from '../kubernetes-service/membership/state.ts'
import type { EndpointReconciler } from '../kubernetes-service/reconcilers/endpoint-reconciler.ts'
import type { Address } from '../net/address.ts'
import type { Cidr } from '../net/cidr.ts'
import type { PortRange } from '../net/host-port.ts'
import type { EtcdRangeRegistryOptions } from '../repair/registries/etcd.ts'
import type { RangeRegistry } from '../repair/registries/range-registry.ts'
import type { ControllerSelection } from './duties.ts'

/** The options of one master. Durations are in milliseconds. */
export interface MasterOptions {
  /**
   * The first address, of the family of the first Service range, is listed in Endpoints. A second address, of the other
   * family, is listed in an EndpointSlice of its own while every master has a second address. The list may be empty
   * with the reconciler `none`, and without the duty `kubernetes-service`.
   */
  readonly advertiseAddresses: readonly Address[]
  readonly securePort: number
  /** One or two ranges. The ClusterIP of `default/kubernetes` is in the first. */
  readonly serviceClusterIpRanges: readonly Cidr[]
  readonly serviceNodePortRange: PortRange
  /** The NodePort of `default/kubernetes`; 0 for a Service of type ClusterIP. */
  readonly kubernetesServiceNodePort: number
  readonly endpointReconcilerType: 'lease' | 'master-count' | 'none'
  /** The number of API servers, for `master-count`. */
  readonly apiserverCount: number
  /** `etcd` needs {@link MasterPorts.etcd}. */
  readonly leaseStore: 'etcd' | 'kubernetes' | 'memory'
  /** The namespace of the Leases of the lease store `kubernetes`. */
  readonly leaseNamespace: string
  /** The prefix of the API servers' keys, without a slash at the end. */
  readonly etcdPrefix: string
  readonly leaseTtlMs: number
  readonly reconcileIntervalMs: number
  readonly readinessGate: 'continuous' | 'startup'
  readonly readinessProbePeriodMs: number
  readonly onShutdown: OnShutdown
  readonly shutdownDelayMs: number
  /** The store of the bitmaps of allocated ports and addresses. `etcd` needs {@link MasterPorts.etcd}. */
  readonly rangeRegistry: 'etcd' | 'configmap' | 'memory' | 'none'
  /** The time between two full passes of a repair. */
  readonly repairIntervalMs: number
  /**
   * If the server still refuses requests of the duty `kubernetes-service` this long after it was first ready, the
   * program ends, unless the ClusterIP is taken. Any other duty that is refused, failing or incomplete for longer than
   * this is degraded.
   */
  readonly startupTimeoutMs: number
  /** Whether to replace a stored range that differs from this master's. */
  readonly adoptRange: boolean
  readonly controllers: ControllerSelection
  readonly workloads: WorkloadOptions
  readonly dryRun: boolean
  /**
   * The name of the machine in the holder record. It is the same after a restart, and differs between masters behind
   * one address.
   */
  readonly host: string
}

/** The options of kube-controller-manager's controllers, which run only if `controllers` names them. */
export interface WorkloadOptions {
  readonly endpoints: SyncOptions
  readonly endpointSlice: SyncOptions & { readonly maxEndpointsPerSlice: number }
  readonly mirroring: SyncOptions & { readonly maxEndpointsPerSubset: number }
  /** The Lease for the leader election; undefined for a single process. */
  readonly leaderElection: (LeaderElectionTiming & { readonly namespace: string; readonly name: string }) | undefined
}

export interface SyncOptions {
  /** How many Services are synced at the same time. */
  readonly workers: number
  readonly batchPeriodMs: number
}

/** An etcd client and the stores that use it, passed as classes so that only programs that use etcd load them. */
export interface EtcdStore {
  readonly kv: EtcdKv
  readonly Leases: new (options: EtcdLeasesOptions) => MasterLeases
  readonly Ranges: new (options: EtcdRangeRegistryOptions) => RangeRegistry
  /** The common name in the client certificate, for the audit trail. */
  readonly user?: string | undefined
}

/** Everything through which a master reaches the outside. "Port" is meant as in "ports and adapters", not as in TCP. */
export interface MasterPorts extends Omit<Connection, 'close' | 'discovery'> {
  /** Without discovery, a resource that the server does not serve counts as refused. @default none */
  readonly discovery?: Discovery | undefined
  /** The datastore of the API servers; for the lease store and the range registry `etcd`. */
  readonly etcd?: EtcdStore | undefined
  /** The user in the audit trail, beside the host. */
  readonly user?: Omit<AuditUser, 'host'> | undefined
  /** Called with each programming error after which a duty was restarted, so that a test can fail. */
  readonly onMistake?: ((error: unknown) => void) | undefined
  /** Replaces the lease store in the options. */
  readonly leases?: MasterLeases | undefined
  /** Replaces the range registry in the options. */
  readonly ranges?: RangeRegistry | undefined
  /** Replaces the endpoint reconciler in the options. */
  readonly reconciler?: EndpointReconciler | undefined
}
