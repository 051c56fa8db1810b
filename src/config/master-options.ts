import type { MasterOptions } from '../bootstrap/master-options.ts'
import type { Configuration } from './configuration.ts'

/** What a master is told of the configuration. `host` names this machine in the holder record. */
export function masterOptionsOf(configuration: Configuration, host: string): MasterOptions {
  return {
    advertiseAddresses: configuration.advertiseAddress ?? [],
    securePort: configuration.securePort,
    serviceClusterIpRanges: configuration.serviceClusterIpRange,
    kubernetesServiceNodePort: configuration.kubernetesServiceNodePort,
    endpointReconcilerType: configuration.endpointReconcilerType,
    apiserverCount: configuration.apiserverCount,
    leaseStore: configuration.leaseStore ?? 'kubernetes',
    etcdPrefix: configuration.etcdPrefix,
    leaseTtlMs: configuration.leaseTtl,
    reconcileIntervalMs: configuration.reconcileInterval,
    readinessGate: configuration.readinessGate,
    readinessProbePeriodMs: configuration.readinessProbePeriod,
    onShutdown: configuration.onShutdown,
    shutdownDelayMs: configuration.shutdownDelayDuration,
    controllers: configuration.controllers,
    dryRun: configuration.dryRun,
    host,
  }
}
