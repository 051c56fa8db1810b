/**
 * The public API of the library: one master, its connections (`MasterPorts`), and the interfaces that an embedding
 * program may implement. Everything else may change without notice.
 */
import './runtime/system-node-guard.ts'

export { createMaster, type Master, withdrawMaster } from './bootstrap/master.ts'
export type { EtcdStore, MasterOptions, MasterPorts } from './bootstrap/master-options.ts'
export { connectEtcdStore } from './config/load-configuration.ts'
export { defineMaster, type MasterSettings } from './config/master-options.ts'
export { InvalidInputError } from './documents/validation.ts'
export { EtcdError, type EtcdErrorCode, type EtcdKv } from './etcd/kv.ts'
export type { KubeApi } from './kube/api.ts'
export { type Discovery, restDiscovery } from './kube/discovery.ts'
export { KubeError, type KubeErrorCode } from './kube/errors.ts'
export { type Connection, connect, type LoadKubeConfigOptions, loadKubeConfig } from './kube/kube-config.ts'
export { KubeConfigError } from './kube/kube-config-document.ts'
export { fromKubeConfig } from './kube/kube-config-transport.ts'
export type { Readiness, ReadinessAnswer } from './kube/readiness.ts'
export type { Json } from './kube/resources.ts'
export {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type IpAddress,
  ipAddresses,
  type Lease,
  leases,
  type Namespace,
  namespaces,
  type Resource,
  type Service,
  type ServiceCidr,
  serviceCidrs,
  services,
} from './kube/resources.ts'
export { restKubeApi } from './kube/rest-api.ts'
export type { ApiRequest, ApiResponse, Transport } from './kube/transport.ts'
export { type EndpointPort, KUBERNETES_SERVICE } from './kubernetes-service/identity.ts'
export {
  decodeHolder,
  encodeHolder,
  type Holder,
  LeaseWithdrawn,
  type MasterLease,
  type MasterLeases,
  yieldsTo,
} from './kubernetes-service/leases/master-leases.ts'
export { MemoryLeaseRegistry, MemoryLeases } from './kubernetes-service/leases/memory.ts'
export { LeaseStoreError } from './kubernetes-service/leases/wrappers.ts'
export type {
  EndpointReconciler,
  ObservedEndpoints,
  ReconcilePorts,
} from './kubernetes-service/reconcilers/endpoint-reconciler.ts'
export type { Lifecycle } from './lifecycle/lifecycle.ts'
export { type Address, AddressError, parseAddress } from './net/address.ts'
export { type Cidr, parseCidr } from './net/cidr.ts'
export { MemoryRangeRegistry } from './repair/registries/memory.ts'
export type {
  RangeChange,
  RangeContent,
  RangeName,
  RangeRegistry,
  StoredRange,
} from './repair/registries/range-registry.ts'
export type { Clock } from './runtime/clock.ts'
export { type FailureNature, RemoteError } from './runtime/errors.ts'
export { systemClock } from './runtime/system-clock.ts'
export { type Logger, silentLogger } from './telemetry/logger.ts'
export type { Metrics } from './telemetry/metrics.ts'
export { createPinoLogger } from './telemetry/pino-logger.ts'
export { prometheusMetrics } from './telemetry/prometheus-metrics.ts'
