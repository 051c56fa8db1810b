import { isKubeError, KubeError } from '../kube/errors.ts'
import { InformerScope, type Informers, SharedInformers } from '../kube/informer.ts'
import { describeSelection } from '../kube/reflector.ts'
import { ipAddresses, type KubeObject, type Resource, serviceCidrs, services } from '../kube/resources.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { clusterIpClaims, nodePortClaims } from '../repair/bitmap/claims.ts'
import { BITMAP_HINT, reportMissingRange } from '../repair/bitmap/missing-range.ts'
import { RangeRepair } from '../repair/bitmap/repair.ts'
import { BitmapUse } from '../repair/bitmap/use.ts'
import { ClusterIpRepair } from '../repair/cluster-ip-repair.ts'
import { IpAddressRepair } from '../repair/ip-address/repair.ts'
import { ConfigMapRangeRegistry } from '../repair/registries/config-map.ts'
import { DryRunRangeRegistry, MemoryRangeRegistry } from '../repair/registries/memory.ts'
import { noneRegistry, type RangeRegistry } from '../repair/registries/range-registry.ts'
import type { Repair, RepairContext, WritePermit } from '../repair/repair.ts'
import { type RepairKind, RepairReporter } from '../repair/reporter.ts'
import { trimService } from '../repair/service-claims.ts'
import { type ControllerName, type DutyDecisions, isSelected } from './duties.ts'
import type { DutyTerm } from './duty-health.ts'
import { auditUserOf, type PartPorts } from './kubernetes-service-parts.ts'
import type { MasterOptions } from './master-options.ts'
import { partAvailability } from './servers-availability.ts'

interface RepairDuty {
  readonly name: 'cluster-ip-repair' | 'node-port-repair'
  make(): DutyTerm
  /** What the server permanently refuses to this repair; undefined without a refusal. */
  refusal(): string | undefined
  /** What this repair lacks on this server, for its health check; undefined if it lacks nothing. */
  remark(): string | undefined
}

interface Repairs {
  readonly duties: readonly RepairDuty[]
  /** Runs the informers that the repairs share. */
  readonly run: (signal: AbortSignal) => Promise<void>
}

/** Undefined if both repairs are off. */
export function composeRepairs(
  options: MasterOptions,
  ports: PartPorts,
  given: Pick<Parts, 'monitor' | 'decisions'>,
): Repairs | undefined {
  const isOn = (name: RepairDuty['name']): boolean => isSelected(options.controllers, name)
  if (!isOn('cluster-ip-repair') && !isOn('node-port-repair')) return undefined
  const informers = new SharedInformers(ports)
  const parts = { ...given, options, ports, informers, registry: registryOf(options, ports) }
  const duties = [
    ...(isOn('cluster-ip-repair') ? [clusterIpDuty(parts)] : []),
    ...(isOn('node-port-repair') ? [nodePortDuty(parts)] : []),
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
  const followed = [services, ipAddresses, serviceCidrs]
  const adopting = adoptsUntilSettled(options.adoptRange)
  return dutyOf('cluster-ip', parts, followed, (context, informers, onMissingRegistry) => {
    const addresses = new IpAddressRepair({ ...context, informers })
    const isBesideIpAddresses = (): boolean => addresses.served === 'served'
    const servesBeta = (signal: AbortSignal): Promise<boolean> => servesBetaIpAddresses(parts.ports, signal)
    const makeBitmaps = (): RangeRepair =>
      adopting((adoptRange) => {
        const reporter = context.reporter.beside()
        return new RangeRepair({ ...context, reporter, registry, adoptRange, claims, isBesideIpAddresses })
      })
    const use = new BitmapUse({ ...context, registry, claims })
    const given = { ipAddresses: addresses, servesBeta, makeBitmaps, registry, use, onMissingRegistry }
    return new ClusterIpRepair({ ...context, ...given })
  })
}

/** False too if discovery gives no clear answer. */
async function servesBetaIpAddresses({ discovery }: PartPorts, signal: AbortSignal): Promise<boolean> {
  try {
    return (await discovery?.serves({ ...ipAddresses, version: 'v1beta1' }, signal)) ?? false
  } catch (error) {
    if (signal.aborted || !isKubeError(error)) throw error
    return false
  }
}

function nodePortDuty(parts: Parts): RepairDuty {
  const { options, registry } = parts
  const claims = nodePortClaims(options.serviceNodePortRange)
  const adopting = adoptsUntilSettled(options.adoptRange)
  return dutyOf('node-port', parts, [services], (context, _informers, onMissingRegistry) => {
    const repair = adopting((adoptRange) => new RangeRepair({ ...context, registry, adoptRange, claims }))
    if (!registry.writable) void repair.settled.then(() => onMissingRegistry(true))
    return repair
  })
}

/**
 * Passes `adoptRange` to the repairs of a duty until one has settled, then false. A later term must not adopt again:
 * meanwhile another master may have stored a new range.
 */
function adoptsUntilSettled(adoptRange: boolean): (make: (adoptRange: boolean) => RangeRepair) => RangeRepair {
  let adopts = adoptRange
  return (make) => {
    const repair = make(adopts)
    void repair.settled.then(() => {
      adopts = false
    })
    return repair
  }
}

/** `followed`: the resources that the repair follows through the shared informers. */
function dutyOf(
  kind: RepairKind,
  { options, ports, monitor, decisions, informers }: Parts,
  followed: readonly Resource<KubeObject>[],
  makeRepair: (context: RepairContext, informers: Informers, onMissingRegistry: (isMissing: boolean) => void) => Repair,
): RepairDuty {
  const name = `${kind}-repair` as const
  const availability = partAvailability(ports.availability)
  const logger = ports.logger.child({ controller: name })
  const byName = options.controllers.on.includes(name)
  const permit = repairPermit(name, { byName, decisions, monitor })
  const reporter = new RepairReporter({
    ...ports,
    logger,
    kind,
    user: auditUserOf(options, ports),
    dryRun: options.dryRun,
  })
  const lists = followed.map((resource) => describeSelection(resource))
  let isMissing = false
  const hasOther = (): boolean => permit.mode === 'report' || decisions.allocatesWithoutBitmaps
  return {
    name,
    refusal: () => availability.refusal() ?? ports.availability.refusalOf(...lists),
    remark: () => (isMissing && !hasOther() ? BITMAP_HINT : undefined),
    make() {
      const scope = new InformerScope(informers)
      const repair = makeRepair(
        {
          ...{ ...ports, availability, logger, reporter, permit, intervalMs: options.repairIntervalMs },
          services: scope.get(services, { transform: trimService, pauses: true }),
        },
        scope,
        (missing) => {
          isMissing = missing
          if (missing && !hasOther()) reportMissingRange(kind, reporter)
        },
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
      if (ports.etcd === undefined) throw new TypeError('the range registry etcd requires an etcd client')
      return new ports.etcd.Ranges({ etcd: ports.etcd.kv, prefix })
  }
}

/**
 * Lets a repair write while the server does not show in `/readyz?verbose` that it does the repair itself. A repair that
 * was requested by name may always write.
 *
 * Probes again before each round of writes, because the server may have been replaced since the last answer. A
 * kube-apiserver with a repair of its own exits when another client creates the IPAddresses that its first pass is
 * about to create.
 */
export function repairPermit(
  name: ControllerName,
  options: {
    readonly byName: boolean
    /** The decisions that follow from the answers to `monitor`. */
    readonly decisions: Pick<DutyDecisions, 'of'>
    readonly monitor: Pick<ReadinessMonitor, 'probe'>
  },
): WritePermit {
  const { byName, decisions, monitor } = options
  const isLeft = (): boolean => decisions.of(name)?.type === 'left-to-server'
  return {
    get mode() {
      return isLeft() ? 'report' : 'repair'
    },
    async granted(signal) {
      if (byName) return true
      if (isLeft()) return false
      const answer = await monitor.probe(signal)
      if (!answer.answered) throw new KubeError('Unreachable', `GET /readyz: ${answer.reason}`)
      // The server may do the repair itself, so we write nothing without its list of checks.
      if (answer.refused !== undefined) throw new KubeError('Forbidden', `GET ${answer.refused}`)
      return !isLeft()
    },
  }
}
