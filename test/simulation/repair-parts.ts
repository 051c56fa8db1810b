import type { EtcdKv } from '../../src/etcd/kv.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { Availability } from '../../src/kube/availability.ts'
import type { EventSink } from '../../src/kube/event-object.ts'
import { SharedInformers } from '../../src/kube/informer.ts'
import { services } from '../../src/kube/resources.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import { clusterIpClaims, nodePortClaims } from '../../src/repair/bitmap/claims.ts'
import { RangeRepair } from '../../src/repair/bitmap/repair.ts'
import { IpAddressRepair } from '../../src/repair/ip-address/repair.ts'
import { EtcdRangeRegistry } from '../../src/repair/registries/etcd.ts'
import type { Repair, RepairContext } from '../../src/repair/repair.ts'
import { type RepairKind, RepairReporter } from '../../src/repair/reporter.ts'
import { trimService } from '../../src/repair/service-claims.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import type { Random } from '../../src/runtime/random.ts'
import type { Logger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import type { RepairComposition } from './repair-composition.ts'

export interface RepairPartsOptions {
  readonly api: KubeApi
  readonly etcd: EtcdKv
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly events: EventSink
  readonly composition: RepairComposition
}

/** Runs the repairs that the cluster needs, as one master does, until the signal is aborted. */
export async function runRepairs(options: RepairPartsOptions, signal: AbortSignal): Promise<void> {
  const { api, etcd, clock, random, logger, events, composition } = options
  const metrics = prometheusMetrics()
  const availability = new Availability({ clock, logger })
  const around = { api, clock, random, logger, availability }
  const informers = new SharedInformers(around)
  const followed = informers.get(services, { transform: trimService })
  const contextOf = (kind: RepairKind): RepairContext => ({
    ...around,
    reporter: new RepairReporter({ kind, events, logger, metrics, clock }),
    permit: { mode: 'repair', granted: async () => true },
    services: followed,
    intervalMs: composition.intervalMs,
  })
  const registry = new EtcdRangeRegistry({ etcd, prefix: '/registry' })
  const addressContext = contextOf('cluster-ip')
  const claims = clusterIpClaims(composition.cidrs.map(parseCidr))
  const portClaims = nodePortClaims(parsePortRange(composition.nodePorts))
  const repairs: Repair[] = [new RangeRepair({ ...contextOf('node-port'), registry, claims: portClaims })]
  if (composition.book !== 'objects') repairs.push(new RangeRepair({ ...addressContext, registry, claims }))
  if (composition.book !== 'bitmap') repairs.push(new IpAddressRepair({ ...addressContext, informers }))
  await Promise.all([informers.run(signal), ...repairs.map((repair) => repair.run(signal))])
}
