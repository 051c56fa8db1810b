import type { MasterOptions, WorkloadOptions } from '../bootstrap/master-options.ts'
import type { Address } from '../net/address.ts'
import type { Configuration } from './configuration.ts'

/** What a master is told of the configuration. `host` is what this machine is called, unless the configuration says otherwise. */
export function masterOptionsOf(configuration: Configuration, host: string): MasterOptions {
  return {
    advertiseAddresses: primaryFirst(configuration),
    securePort: configuration.securePort,
    serviceClusterIpRanges: configuration.serviceClusterIpRange,
    serviceNodePortRange: configuration.serviceNodePortRange,
    kubernetesServiceNodePort: configuration.kubernetesServiceNodePort,
    endpointReconcilerType: configuration.endpointReconcilerType,
    apiserverCount: configuration.apiserverCount,
    leaseStore: configuration.leaseStore ?? 'kubernetes',
    leaseNamespace: configuration.leaseNamespace,
    etcdPrefix: configuration.etcdPrefix,
    leaseTtlMs: configuration.leaseTtl,
    reconcileIntervalMs: configuration.reconcileInterval,
    readinessGate: configuration.readinessGate,
    readinessProbePeriodMs: configuration.readinessProbePeriod,
    onShutdown: configuration.onShutdown,
    shutdownDelayMs: configuration.shutdownDelayDuration,
    rangeRegistry: configuration.rangeRegistry ?? 'none',
    repairIntervalMs: configuration.repairInterval,
    startupTimeoutMs: configuration.repairStartupTimeout,
    adoptRange: configuration.adoptRange,
    controllers: configuration.controllers,
    workloads: workloadOptionsOf(configuration),
    dryRun: configuration.dryRun,
    host: configuration.hostnameOverride ?? host,
  }
}

function workloadOptionsOf(configuration: Configuration): WorkloadOptions {
  return {
    endpoints: {
      workers: configuration.concurrentEndpointSyncs,
      batchPeriodMs: configuration.endpointUpdatesBatchPeriod,
    },
    endpointSlice: {
      workers: configuration.concurrentServiceEndpointSyncs,
      batchPeriodMs: configuration.endpointsliceUpdatesBatchPeriod,
      maxEndpointsPerSlice: configuration.maxEndpointsPerSlice,
    },
    mirroring: {
      workers: configuration.mirroringConcurrentServiceEndpointSyncs,
      batchPeriodMs: configuration.mirroringEndpointsliceUpdatesBatchPeriod,
      maxEndpointsPerSubset: configuration.mirroringMaxEndpointsPerSubset,
    },
    leaderElection: configuration.leaderElect
      ? {
          namespace: configuration.leaderElectResourceNamespace,
          name: configuration.leaderElectResourceName,
          leaseDurationMs: configuration.leaderElectLeaseDuration,
          renewDeadlineMs: configuration.leaderElectRenewDeadline,
          retryPeriodMs: configuration.leaderElectRetryPeriod,
        }
      : undefined,
  }
}

/** The family of the first Service range is the cluster's primary one, in whatever order the addresses were given. */
function primaryFirst({ advertiseAddress = [], serviceClusterIpRange }: Configuration): readonly Address[] {
  const primary = serviceClusterIpRange[0]?.family
  return advertiseAddress.toSorted((a, b) => Number(b.family === primary) - Number(a.family === primary))
}
