import { type Informer, SharedInformers } from '../kube/informer.ts'
import { type Service, services } from '../kube/resources.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { BitmapUse } from '../repair/cluster-ip/bitmap-use.ts'
import { clusterIpClaims } from '../repair/cluster-ip/cluster-ip-claims.ts'
import { ClusterIpRepair } from '../repair/cluster-ip/cluster-ip-repair.ts'
import { IpAddressRepair } from '../repair/cluster-ip/ip-address-repair.ts'
import { nodePortClaims } from '../repair/node-port/node-port-claims.ts'
import { RangeRepair } from '../repair/range-repair.ts'
import { ConfigMapRangeRegistry } from '../repair/registries/config-map.ts'
import { DryRunRangeRegistry } from '../repair/registries/dry-run.ts'
import { MemoryRangeRegistry } from '../repair/registries/memory.ts'
import { noneRegistry } from '../repair/registries/none.ts'
import type { RangeRegistry } from '../repair/registries/range-registry.ts'
import type { Repair, RepairContext } from '../repair/repair.ts'
import type { RepairKind } from '../repair/repair-metrics.ts'
import { RepairReporter } from '../repair/repair-reporter.ts'
import { keptOfService } from '../repair/service-claims.ts'
import { isSelected } from './controller-selection.ts'
import type { PartPorts } from './kubernetes-service-parts.ts'
import type { MasterOptions } from './master-options.ts'
import { RepairPermit } from './repair-permit.ts'

/** One of the two repairs, composed. */
export interface RepairDuty {
  readonly name: 'cluster-ip-repair' | 'node-port-repair'
  readonly repair: Repair
  readonly permit: RepairPermit
}

/** The repairs of a master, and the copies that they share. */
export interface Repairs {
  readonly duties: readonly RepairDuty[]
  /** Follows what the repairs look at. */
  run(signal: AbortSignal): Promise<void>
  /** Why the first passes have not all succeeded, as one line. */
  reason(): string
}

/** What must not be refused for the first passes to succeed, as the availability of the servers knows it. */
const SOURCES = ['cluster-ip-repair', 'node-port-repair', 'services', 'ipaddresses', 'servicecidrs']

/** Composes the repairs that are not off; undefined when both are. */
export function composeRepairs(
  options: MasterOptions,
  ports: PartPorts,
  monitor: ReadinessMonitor,
): Repairs | undefined {
  const isOn = (name: RepairDuty['name']): boolean => isSelected(options.controllers, name)
  if (!isOn('cluster-ip-repair') && !isOn('node-port-repair')) return undefined
  const informers = new SharedInformers(ports)
  const parts: Parts = {
    options,
    ports,
    monitor,
    informers,
    services: informers.get(services, { transform: keptOfService }),
    registry: registryOf(options, ports),
  }
  const duties = [
    ...(isOn('cluster-ip-repair') ? [clusterIpDuty(parts)] : []),
    ...(isOn('node-port-repair') ? [nodePortDuty(parts)] : []),
  ]
  return {
    duties,
    run: (signal) => informers.run(signal),
    reason() {
      const faults = duties.map(({ name, repair }) => ({ name, fault: repair.fault() }))
      const reasons = [
        ...faults.filter(({ fault }) => fault !== undefined).map(({ name, fault }) => `${name}: ${fault}`),
        ports.availability.refusalOf(...SOURCES),
      ]
      return reasons.filter((reason) => reason !== undefined).join('; ') || 'the first pass is not done yet'
    },
  }
}

interface Parts {
  readonly options: MasterOptions
  readonly ports: PartPorts
  readonly monitor: ReadinessMonitor
  readonly informers: SharedInformers
  readonly services: Informer<Service>
  readonly registry: RangeRegistry
}

function clusterIpDuty(parts: Parts): RepairDuty {
  const { options, informers, registry } = parts
  const { context, permit } = contextOf('cluster-ip', parts)
  const ipAddresses = new IpAddressRepair({ ...context, informers })
  const claims = clusterIpClaims(options.serviceClusterIpRanges)
  const bitmaps = new RangeRepair({ ...context, registry, adoptRange: options.adoptRange, claims })
  const use = new BitmapUse({ ...context, registry, claims })
  const repair = new ClusterIpRepair({ ...context, ipAddresses, bitmaps, registry, use })
  return { name: 'cluster-ip-repair', repair, permit }
}

function nodePortDuty(parts: Parts): RepairDuty {
  const { options, registry } = parts
  const { context, permit } = contextOf('node-port', parts)
  const claims = nodePortClaims(options.serviceNodePortRange)
  const repair = new RangeRepair({ ...context, registry, adoptRange: options.adoptRange, claims })
  return { name: 'node-port-repair', repair, permit }
}

function contextOf(
  kind: RepairKind,
  { options, ports, monitor, services: observed }: Parts,
): { readonly context: RepairContext; readonly permit: RepairPermit } {
  const logger = ports.logger.child({ controller: `${kind}-repair` })
  const permit = new RepairPermit(`${kind}-repair`, { selection: options.controllers, monitor })
  const reporter = new RepairReporter({ ...ports, logger, kind, dryRun: options.dryRun })
  return {
    context: { ...ports, logger, reporter, permit, services: observed, intervalMs: options.repairIntervalMs },
    permit,
  }
}

function registryOf(options: MasterOptions, ports: PartPorts): RangeRegistry {
  const registry = ports.ranges ?? openRegistry(options, ports)
  return options.dryRun ? new DryRunRangeRegistry(registry, ports.logger) : registry
}

function openRegistry({ rangeRegistry, etcdPrefix: prefix }: MasterOptions, ports: PartPorts): RangeRegistry {
  switch (rangeRegistry) {
    case 'none':
      return noneRegistry
    case 'memory':
      return new MemoryRangeRegistry()
    case 'configmap':
      return new ConfigMapRangeRegistry(ports)
    case 'etcd':
      if (ports.etcd === undefined) throw new TypeError('the range registry etcd needs an etcd to be in')
      return new ports.etcd.Ranges({ etcd: ports.etcd.kv, prefix })
  }
}
