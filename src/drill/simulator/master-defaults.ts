import type { MasterOptions } from '../../bootstrap/master-options.ts'
import { parseCidr } from '../../net/cidr.ts'
import { parsePortRange } from '../../net/port-range.ts'

/** How a simulated master behaves, where nothing else is said: as the program does, without its repairs. */
export const masterDefaults: Omit<MasterOptions, 'host' | 'advertiseAddresses'> = {
  securePort: 6443,
  serviceClusterIpRanges: [parseCidr('10.96.0.0/12')],
  kubernetesServiceNodePort: 0,
  serviceNodePortRange: parsePortRange('30000-32767'),
  rangeRegistry: 'none',
  repairIntervalMs: 180_000,
  startupTimeoutMs: 60_000,
  adoptRange: false,
  endpointReconcilerType: 'lease',
  apiserverCount: 1,
  leaseStore: 'kubernetes',
  leaseNamespace: 'kube-system',
  etcdPrefix: '/registry',
  leaseTtlMs: 15_000,
  reconcileIntervalMs: 10_000,
  readinessGate: 'continuous',
  readinessProbePeriodMs: 1_000,
  onShutdown: 'withdraw',
  shutdownDelayMs: 0,
  // The repairs have a simulation of their own.
  controllers: { auto: true, on: [], off: ['cluster-ip-repair', 'node-port-repair'] },
  workloads: {
    endpoints: { workers: 5, batchPeriodMs: 0 },
    endpointSlice: { workers: 5, batchPeriodMs: 0, maxEndpointsPerSlice: 100 },
    mirroring: { workers: 5, batchPeriodMs: 0, maxEndpointsPerSubset: 1000 },
    leaderElection: undefined,
  },
  dryRun: false,
}
