import { Availability } from '../../src/kube/availability.ts'
import { noEvents } from '../../src/kube/event-object.ts'
import { SharedInformers } from '../../src/kube/informer.ts'
import { ipAddresses, serviceCidrs, services } from '../../src/kube/resources.ts'
import { parseAddress } from '../../src/net/address.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { addressAllocationRange, parseCidr, portAllocationRange } from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import { clusterIpClaims, nodePortClaims } from '../../src/repair/bitmap/claims.ts'
import { RangeRepair } from '../../src/repair/bitmap/repair.ts'
import { trimIpAddress } from '../../src/repair/ip-address/ip-address.ts'
import { IpAddressRepair } from '../../src/repair/ip-address/repair.ts'
import { MemoryRangeRegistry } from '../../src/repair/registries/memory.ts'
import type { RangeName } from '../../src/repair/registries/range-registry.ts'
import type { RepairContext } from '../../src/repair/repair.ts'
import { RepairReporter } from '../../src/repair/reporter.ts'
import { trimService } from '../../src/repair/service-claims.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { serviceRange } from '../peers/apiserver.ts'
import type { ApiAtRest } from './repair-core-api.ts'
import { addressAt, nodePortAt, widePortRange } from './repair-core-objects.ts'

/** Informers of `count` Services and their IPAddresses, and the repairs on top of them. Nothing runs yet. */
export function repairSetup({
  api,
  clock,
  count,
  intervalMs,
  repairing,
}: {
  readonly api: ApiAtRest
  readonly clock: Clock
  readonly count: number
  readonly intervalMs: number
  /** False: the informers alone. */
  readonly repairing: boolean
}) {
  // Always the middle of a range: intervals are then not spread, and each later pass falls into its own interval.
  const random = { next: (): number => 0.5 }
  const logger = silentLogger
  const metrics = prometheusMetrics()
  const availability = new Availability({ clock, logger })
  const informers = new SharedInformers({ api, clock, random, logger, availability })
  const registry = filledRegistry(count)
  const copies = [
    informers.get(services, { transform: trimService, pauses: true }),
    informers.get(ipAddresses, { transform: trimIpAddress, pauses: true }),
    informers.get(serviceCidrs),
  ]
  const contextOf = (kind: 'cluster-ip' | 'node-port'): RepairContext => ({
    api,
    clock,
    random,
    logger,
    availability,
    intervalMs,
    reporter: new RepairReporter({ kind, events: noEvents, logger, metrics, clock }),
    permit: { mode: 'repair', granted: async () => true },
    services: informers.get(services, { transform: trimService, pauses: true }),
  })
  const clusterIps = contextOf('cluster-ip')
  const claims = {
    clusterIps: clusterIpClaims([parseCidr(serviceRange)]),
    nodePorts: nodePortClaims(parsePortRange(widePortRange)),
  }
  const repairs = [
    new IpAddressRepair({ ...clusterIps, informers }),
    new RangeRepair({ ...clusterIps, registry, claims: claims.clusterIps }),
    new RangeRepair({ ...contextOf('node-port'), registry, claims: claims.nodePorts }),
  ]
  return {
    metrics,
    /** Runs everything. `settled` resolves when every informer is synced and the first full passes have ended. */
    start(signal: AbortSignal): { readonly settled: Promise<unknown>; readonly ended: Promise<unknown> } {
      const running = [informers, ...(repairing ? repairs : [])].map((one) => one.run(signal))
      const firstPasses = repairing ? repairs.map(({ settled }) => settled) : []
      const settled = Promise.all([...firstPasses, ...copies.map((copy) => copy.whenSynced())])
      return { settled, ended: Promise.all(running) }
    },
  }
}

function filledRegistry(count: number): MemoryRangeRegistry {
  const filled = new MemoryRangeRegistry()
  const addresses = addressAllocationRange(parseCidr(serviceRange))
  const ports = portAllocationRange(parsePortRange(widePortRange))
  const taken = { addresses: new Bitmap(addresses.size), ports: new Bitmap(ports.size) }
  for (let index = 0; index < count; index++) {
    taken.addresses.add(addresses.offsetOf(parseAddress(addressAt(index))) as number)
    const port = nodePortAt(index)
    if (port !== undefined) taken.ports.add(ports.offsetOf(port) as number)
  }
  const put = (name: RangeName, range: string, bitmap: Bitmap): void =>
    filled.put(name, { range, data: bitmap.toBytes() })
  put('serviceips', addresses.text, taken.addresses)
  put('servicenodeports', ports.text, taken.ports)
  return filled
}

/** Processor time in milliseconds. */
export function cpuSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}

export function bytesInUse(): number {
  const collect = globalThis.gc
  if (collect === undefined) throw new Error('needs --expose-gc')
  for (let i = 0; i < 4; i++) collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
