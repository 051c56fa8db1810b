import { type Informers, SharedInformers } from '../kube/informer.ts'
import { InformerScope } from '../kube/informer-scope.ts'
import type { KubeObject } from '../kube/json.ts'
import { describeSelection } from '../kube/reflector.ts'
import { ipAddresses, type Resource, serviceCidrs, services } from '../kube/resources.ts'
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
import type { DutyDecisions } from './duty-decisions.ts'
import type { DutyTerm } from './duty-health.ts'
import { auditUserOf, type PartPorts } from './kubernetes-service-parts.ts'
import type { MasterOptions } from './master-options.ts'
import { RepairPermit } from './repair-permit.ts'
import { PartAvailability } from './servers-availability.ts'

/** One of the two repairs. */
export interface RepairDuty {
  readonly name: 'cluster-ip-repair' | 'node-port-repair'
  /** Makes one term of it. */
  make(): DutyTerm
  /** What is refused to it for good. */
  refusal(): string | undefined
}

/** The repairs of a master, and the copies that they share. */
export interface Repairs {
  readonly duties: readonly RepairDuty[]
  /** Follows what the repairs look at. */
  run(signal: AbortSignal): Promise<void>
}

/** Composes the repairs that are not off; undefined when both are. */
export function composeRepairs(
  options: MasterOptions,
  ports: PartPorts,
  parts: { readonly monitor: ReadinessMonitor; readonly decisions: DutyDecisions },
): Repairs | undefined {
  const isOn = (name: RepairDuty['name']): boolean => isSelected(options.controllers, name)
  if (!isOn('cluster-ip-repair') && !isOn('node-port-repair')) return undefined
  const informers = new SharedInformers(ports)
  const registry = registryOf(options, ports)
  const duties = [
    ...(isOn('cluster-ip-repair') ? [clusterIpDuty({ ...parts, options, ports, informers, registry })] : []),
    ...(isOn('node-port-repair') ? [nodePortDuty({ ...parts, options, ports, informers, registry })] : []),
  ]
  return { duties, run: (signal) => informers.run(signal) }
}

interface Parts {
  readonly options: MasterOptions
  readonly ports: PartPorts
  readonly monitor: ReadinessMonitor
  readonly decisions: DutyDecisions
  readonly informers: SharedInformers
  readonly registry: RangeRegistry
}

function clusterIpDuty(parts: Parts): RepairDuty {
  const { options, registry } = parts
  const claims = clusterIpClaims(options.serviceClusterIpRanges)
  return dutyOf('cluster-ip', parts, [services, ipAddresses, serviceCidrs], (context, informers) => {
    const addresses = new IpAddressRepair({ ...context, informers })
    const bitmaps = new RangeRepair({ ...context, registry, adoptRange: options.adoptRange, claims })
    const use = new BitmapUse({ ...context, registry, claims })
    return new ClusterIpRepair({ ...context, ipAddresses: addresses, bitmaps, registry, use })
  })
}

function nodePortDuty(parts: Parts): RepairDuty {
  const { options, registry } = parts
  const claims = nodePortClaims(options.serviceNodePortRange)
  return dutyOf('node-port', parts, [services], (context) => {
    return new RangeRepair({ ...context, registry, adoptRange: options.adoptRange, claims })
  })
}

/** `followed` is what it looks at through the shared informers. */
function dutyOf(
  kind: RepairKind,
  { options, ports, monitor, decisions, informers }: Parts,
  followed: readonly Resource<KubeObject>[],
  makeRepair: (context: RepairContext, informers: Informers) => Repair,
): RepairDuty {
  const name = `${kind}-repair` as const
  const availability = new PartAvailability(ports.availability)
  const logger = ports.logger.child({ controller: name })
  const byName = options.controllers.on.includes(name)
  const permit = new RepairPermit(name, { byName, decisions, monitor })
  const reporter = new RepairReporter({
    ...ports,
    logger,
    kind,
    user: auditUserOf(options, ports),
    dryRun: options.dryRun,
  })
  const lists = followed.map((resource) => describeSelection(resource))
  return {
    name,
    refusal: () => availability.refusal() ?? ports.availability.refusalOf(...lists),
    make() {
      const scope = new InformerScope(informers)
      const repair = makeRepair(
        {
          ...{ ...ports, availability, logger, reporter, permit, intervalMs: options.repairIntervalMs },
          services: scope.get(services, { transform: keptOfService }),
        },
        scope,
      )
      return {
        settled: repair.settled,
        fault: () => repair.fault(),
        run: (signal) => scope.run(signal, (ending) => repair.run(ending)),
      }
    },
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
