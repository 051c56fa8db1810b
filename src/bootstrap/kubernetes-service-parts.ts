import { limitedEtcd } from '../etcd/guarded-key.ts'
import type { AuditUser } from '../kube/audit.ts'
import type { EventSink } from '../kube/event-object.ts'
import type { ServedResources } from '../kube/served-resources.ts'
import { Announcements, LeaseTelemetry } from '../kubernetes-service/announcements.ts'
import { KubernetesServiceController } from '../kubernetes-service/controller.ts'
import { KubernetesServiceDuty } from '../kubernetes-service/duty.ts'
import { EndpointsAdapter } from '../kubernetes-service/endpoints-adapter.ts'
import { FleetView } from '../kubernetes-service/fleet-view.ts'
import { ForeignOverwrites } from '../kubernetes-service/guarded-writes/foreign-overwrites.ts'
import { ObjectWriter } from '../kubernetes-service/guarded-writes/object-writer.ts'
import { endpointPorts } from '../kubernetes-service/identity.ts'
import { KubernetesLeases } from '../kubernetes-service/leases/kubernetes.ts'
import type { Holder, MasterLeases } from '../kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../kubernetes-service/leases/memory.ts'
import { dryRunLeases, reliableLeases } from '../kubernetes-service/leases/wrappers.ts'
import { MembershipRunner, type MembershipRunnerOptions } from '../kubernetes-service/membership/runner.ts'
import { membershipTimings } from '../kubernetes-service/membership/timings.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { type EndpointReconciler, noneReconciler } from '../kubernetes-service/reconcilers/endpoint-reconciler.ts'
import { MasterCountEndpointReconciler } from '../kubernetes-service/reconcilers/master-count.ts'
import { serviceIpOf } from '../net/cidr.ts'
import { randomUuid } from '../runtime/random.ts'
import { RequestLimit } from '../runtime/request-limit.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import type { MasterOptions, MasterPorts } from './master-options.ts'
import type { ServersAvailability } from './servers-availability.ts'

/** The ports of one part, with its own logger and the availability that records the results of its requests. */
export type PartPorts = MasterPorts & {
  readonly availability: ServersAvailability
  readonly events: EventSink
  /** Undefined without access to the server's discovery. */
  readonly served?: ServedResources | undefined
}

export function composeKubernetesService(options: MasterOptions, ports: PartPorts, monitor: ReadinessMonitor) {
  const [range, secondRange] = options.serviceClusterIpRanges
  if (range === undefined) throw new TypeError('a master needs at least one Service range')
  const { securePort, reconcileIntervalMs: intervalMs, kubernetesServiceNodePort: nodePort } = options
  const fleet = new FleetView({ ...ports, ttlMs: options.leaseTtlMs })
  const announcements = new Announcements({
    ...ports,
    user: auditUserOf(options, ports),
    address: options.advertiseAddresses[0]?.text,
    fleet: options.endpointReconcilerType === 'lease' ? fleet : undefined,
  })
  // A dry run writes nothing, so another writer would seem to have undone each correction.
  const overwrites = options.dryRun ? undefined : new ForeignOverwrites({ ...ports, intervalMs })
  const writer = new ObjectWriter({ ...ports, overwrites, onWritten: (written) => announcements.written(written) })
  const adapter = new EndpointsAdapter({ ...ports, writer })
  const reconciler = chooseReconciler(options, ports, {
    monitor,
    adapter,
    fleet,
    announcements,
    onChange: () => controller.request(),
  })
  const address = reconciler === noneReconciler ? undefined : options.advertiseAddresses[0]
  const service = {
    clusterIp: serviceIpOf(range).text,
    secondClusterIp: secondRange && serviceIpOf(secondRange).text,
    securePort,
    nodePort,
  }
  const controller: KubernetesServiceController = new KubernetesServiceController({
    ...ports,
    writer,
    reconciler,
    address,
    service,
    intervalMs,
  })
  const value = new KubernetesServiceDuty({ ...ports, monitor, controller, reconciler, address, securePort })
  return { value, controller, membership: reconciler instanceof MembershipRunner ? reconciler : undefined }
}

function chooseReconciler(
  options: MasterOptions,
  ports: PartPorts,
  parts: Pick<MembershipRunnerOptions, 'monitor' | 'adapter' | 'fleet' | 'announcements' | 'onChange'>,
): EndpointReconciler | MembershipRunner {
  const { advertiseAddresses, endpointReconcilerType, apiserverCount: count } = options
  const [address] = advertiseAddresses
  if (ports.reconciler !== undefined) return ports.reconciler
  if (address === undefined || endpointReconcilerType === 'none') return noneReconciler
  if (endpointReconcilerType === 'master-count') {
    return new MasterCountEndpointReconciler({ ...ports, ...parts, address, count })
  }
  const telemetry = new LeaseTelemetry({
    ...ports,
    outages: ports.availability.leaseOutages,
    address: address.text,
    leaseTtlMs: options.leaseTtlMs,
    renewedMs: () => membership.renewedMs,
  })
  const membership: MembershipRunner = new MembershipRunner({
    ...ports,
    ...parts,
    telemetry,
    leases: leasesOf(options, ports),
    holder: holderOf(options, ports),
    ports: endpointPorts(options.securePort),
    timings: membershipTimings(options),
  })
  return membership
}

type LeasePorts = MasterPorts & Pick<PartPorts, 'availability'>

/** The lease store of the embedding program, or else of the options. Throws a TypeError for `etcd` without a client. */
export function leasesOf(options: MasterOptions, ports: LeasePorts): MasterLeases {
  const limit = new RequestLimit({ clock: ports.clock, limitMs: membershipTimings(options).attemptMs })
  const store =
    ports.leases === undefined ? openLeases(options, ports, limit) : reliableLeases(ports.leases, { ...ports, limit })
  return options.dryRun ? dryRunLeases(store, ports.logger) : store
}

function openLeases(options: MasterOptions, ports: LeasePorts, limit: RequestLimit): MasterLeases {
  const { leaseTtlMs: ttlMs, reconcileIntervalMs: intervalMs, leaseNamespace: namespace, etcdPrefix: prefix } = options
  switch (options.leaseStore) {
    case 'memory':
      return new MemoryLeases(new MemoryLeaseRegistry(ports.clock), { ttlMs })
    case 'kubernetes':
      return new KubernetesLeases({ ...ports, limit, ttlMs, intervalMs, namespace })
    case 'etcd':
      if (ports.etcd === undefined) throw new TypeError('the lease store etcd requires an etcd client')
      return new ports.etcd.Leases({ ...ports, etcd: limitedEtcd(ports.etcd.kv, limit), prefix, ttlMs })
  }
}

/** The record of a master with these options, with the state `ready`. Each call chooses another `instanceId`. */
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

/** The user of the audit trail; undefined in a dry run, which writes nothing. */
export function auditUserOf({ dryRun, host }: MasterOptions, { user }: MasterPorts): AuditUser | undefined {
  return dryRun ? undefined : { host, ...user }
}
