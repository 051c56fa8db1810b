import type { MasterOptions, WorkloadOptions } from '../bootstrap/master-options.ts'
import { didYouMean, InvalidInputError, type Mistake, show } from '../documents/validation.ts'
import type { Address } from '../net/address.ts'
import { allOptions, type Configuration } from './configuration.ts'
import { resolveConfiguration } from './resolve.ts'

/** `host` is the name of this machine; the setting `hostnameOverride` replaces it. */
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

/** The addresses, with those of the primary family first. The first Service range determines the primary family. */
function primaryFirst({ advertiseAddress = [], serviceClusterIpRange }: Configuration): readonly Address[] {
  const primary = serviceClusterIpRange[0]?.family
  return advertiseAddress.toSorted((a, b) => Number(b.family === primary) - Number(a.family === primary))
}

/** Settings by their keys in a configuration file. Each value is the text that the flag of the setting takes. */
export type MasterSettings = { readonly [Key in keyof Configuration]?: string } & {
  /** Required: the address at which clients reach this master's API server. */
  readonly advertiseAddress: string
}

/**
 * The options of a master from settings in text form: `defineMaster({ advertiseAddress: '192.0.2.1', leaseTtl: '6s',
 * reconcileInterval: '4s' }, 'host-1')`. Missing settings have their defaults.
 *
 * Settings of the program around a master (connection to the API server, logging, health server) are checked, but have
 * no other effect here.
 *
 * @param host - the name of this machine in the holder record. It must stay the same when the master is restarted.
 * @throws InvalidInputError with the mistakes found, one line each.
 */
export function defineMaster(settings: MasterSettings, host: string): MasterOptions {
  const mistakes = mistakesIn(settings)
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  // The rules require a connection, so the settings name a kubeconfig. The file is never read: the embedding program
  // has a connection of its own.
  const connection = { kubeconfig: 'of the embedding program', inCluster: undefined, embedded: undefined }
  const { configuration } = resolveConfiguration({ ...settings, ...connection })
  return masterOptionsOf(configuration, host)
}

/**
 * Unknown settings, and values that are not texts. A TypeScript compiler would report them, but programs in JavaScript
 * have no compiler.
 */
function mistakesIn(settings: MasterSettings): readonly Mistake[] {
  const known: readonly string[] = allOptions.map(([key]) => key)
  return Object.entries(settings).flatMap(([where, value]: [string, unknown]): readonly Mistake[] => {
    if (!known.includes(where)) {
      const meant = didYouMean(where, known)
      return [{ where, message: `is no setting${meant === undefined ? '' : `; did you mean ${meant}?`}` }]
    }
    if (value === undefined || typeof value === 'string') return []
    return [
      { where, message: `must be a text, as after its flag, not ${Array.isArray(value) ? 'a list' : show(value)}` },
    ]
  })
}
