import type { EventRecorder } from '../kube/event-recorder.ts'
import { KubernetesServiceController } from '../kubernetes-service/controller.ts'
import { KubernetesServiceDuty } from '../kubernetes-service/duty.ts'
import { EndpointsAdapter } from '../kubernetes-service/endpoints-adapter.ts'
import { LeaseMembership } from '../kubernetes-service/lease-membership.ts'
import { DryRunLeases } from '../kubernetes-service/leases/dry-run.ts'
import { KubernetesLeases } from '../kubernetes-service/leases/kubernetes.ts'
import type { Holder, MasterLeases } from '../kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../kubernetes-service/leases/memory.ts'
import { ObjectWriter } from '../kubernetes-service/object-writer.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import type { EndpointReconciler } from '../kubernetes-service/reconcilers/endpoint-reconciler.ts'
import { MasterCountEndpointReconciler } from '../kubernetes-service/reconcilers/master-count.ts'
import { noneReconciler } from '../kubernetes-service/reconcilers/none.ts'
import { serviceIpOf } from '../net/cidr.ts'
import { randomUuid } from '../runtime/random.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import type { MasterOptions, MasterPorts } from './master-options.ts'
import type { ServersAvailability } from './servers-availability.ts'

/** The ports of a part: a logger that names it, and who hears how its requests fare. */
export type PartPorts = MasterPorts & {
  readonly availability: ServersAvailability
  readonly events: EventRecorder
}

interface Reconciling {
  readonly reconciler: EndpointReconciler
  readonly membership?: LeaseMembership
}

/** Composes what one master does for `default/kubernetes`. */
export function composeKubernetesService(
  options: MasterOptions,
  ports: PartPorts,
  monitor: ReadinessMonitor,
): { readonly value: KubernetesServiceDuty; readonly controller: KubernetesServiceController } {
  const [range] = options.serviceClusterIpRanges
  if (range === undefined) throw new TypeError('a master needs at least one Service range')
  const { securePort, reconcileIntervalMs: intervalMs, kubernetesServiceNodePort: nodePort } = options
  const writer = new ObjectWriter(ports)
  const adapter = new EndpointsAdapter({ ...ports, writer })
  const { reconciler, membership } = chooseReconciler(options, ports, {
    monitor,
    adapter,
    onLeases: () => controller.look('leases'),
  })
  const address = reconciler === noneReconciler ? undefined : options.advertiseAddresses[0]
  const service = { clusterIp: serviceIpOf(range).text, securePort, nodePort }
  const controller: KubernetesServiceController = new KubernetesServiceController({
    ...ports,
    writer,
    reconciler,
    address,
    service,
    intervalMs,
  })
  const value = new KubernetesServiceDuty({
    ...ports,
    monitor,
    controller,
    reconciler,
    membership,
    address,
    securePort,
  })
  return { value, controller }
}

function chooseReconciler(
  options: MasterOptions,
  ports: PartPorts,
  parts: { readonly monitor: ReadinessMonitor; readonly adapter: EndpointsAdapter; readonly onLeases: () => void },
): Reconciling {
  const { advertiseAddresses, endpointReconcilerType, apiserverCount: count, reconcileIntervalMs: intervalMs } = options
  const [address] = advertiseAddresses
  if (ports.reconciler !== undefined) return { reconciler: ports.reconciler }
  if (address === undefined || endpointReconcilerType === 'none') return { reconciler: noneReconciler }
  if (endpointReconcilerType === 'master-count') {
    return { reconciler: new MasterCountEndpointReconciler({ ...ports, ...parts, address, count }) }
  }
  const leases = leasesOf(options, ports)
  const membership = new LeaseMembership({
    ...ports,
    ...parts,
    leases,
    holder: holderOf(options, ports),
    address,
    intervalMs,
  })
  return { reconciler: membership.reconciler, membership }
}

/** The lease store that the options name, or the one that was brought along. Rejects options that no port fits. */
export function leasesOf(
  options: MasterOptions,
  ports: MasterPorts & { readonly availability: ServersAvailability },
): MasterLeases {
  const store = ports.leases ?? openLeases(options, ports)
  return options.dryRun ? new DryRunLeases(store, ports.logger) : store
}

function openLeases(
  { leaseStore, leaseTtlMs: ttlMs, reconcileIntervalMs: intervalMs }: MasterOptions,
  ports: MasterPorts & { readonly availability: ServersAvailability },
): MasterLeases {
  switch (leaseStore) {
    case 'memory':
      return new MemoryLeases(new MemoryLeaseRegistry(ports.clock), { ttlMs })
    case 'kubernetes':
      return new KubernetesLeases({ ...ports, ttlMs, intervalMs })
    case 'etcd':
      throw new TypeError('not yet')
  }
}

/** This master as it wants to be known. */
export function holderOf(options: MasterOptions, { clock, random }: Pick<MasterPorts, 'clock' | 'random'>): Holder {
  return {
    instanceId: randomUuid(random),
    host: options.host,
    startedAt: formatMicroTime(clock.wallMs()),
    addresses: options.advertiseAddresses.map((address) => address.text),
    ports: { securePort: options.securePort, nodePort: options.kubernetesServiceNodePort },
    state: 'ready',
  }
}
