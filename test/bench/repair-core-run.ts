// One run of the bench of full passes, in a process of its own: `informers` alone, or with the `repairs` on top. Prints a CoreRun as JSON.
// usage: node --expose-gc repair-core-run.ts informers|repairs COUNT

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
import { IpAddressRepair } from '../../src/repair/ip-address/repair.ts'
import { MemoryRangeRegistry } from '../../src/repair/registries/memory.ts'
import type { RangeName } from '../../src/repair/registries/range-registry.ts'
import type { Repair, RepairContext } from '../../src/repair/repair.ts'
import { RepairReporter } from '../../src/repair/reporter.ts'
import { trimService } from '../../src/repair/service-claims.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { serviceRange } from '../peers/apiserver.ts'
import type { CoreRun } from './repair-core.ts'
import { ApiAtRest } from './repair-core-api.ts'
import { addressAt, allRight, nodePortAt, widePortRange } from './repair-core-objects.ts'

const [kind = '', countText = ''] = process.argv.slice(2)
const count = Number(countText)
const intervalMs = 180_000
const laterPasses = 4

const time = new VirtualClock()
const clock = time.view()
// The middle of everything: intervals are then not spread, and each later pass falls into its own stretch of time.
const random = { next: (): number => 0.5 }
const logger = silentLogger
const metrics = prometheusMetrics()
const availability = new Availability({ clock, logger })
const api = new ApiAtRest(allRight(count))
const informers = new SharedInformers({ api, clock, random, logger, availability })
const registry = filledRegistry()
const stop = new AbortController()

const before = process.cpuUsage()
const running: Promise<void>[] = []
const repairs = kind === 'repairs' ? composeRepairs() : []
const copies = [
  informers.get(services, { transform: trimService }),
  informers.get(ipAddresses),
  informers.get(serviceCidrs),
]
running.push(informers.run(stop.signal))
for (const repair of repairs) running.push(repair.run(stop.signal))
const settled = Promise.all([...repairs.map((repair) => repair.settled), ...copies.map((copy) => copy.whenSynced())])
let done = false
void settled.then(() => {
  done = true
})
if (!(await time.runUntil(() => done, 60_000))) throw new Error('the first passes have not ended')
const startCpuMs = cpuSince(before)
const start = bytesInUse()

const passCpuMs: number[] = []
for (let pass = 0; pass < laterPasses; pass++) {
  const begun = process.cpuUsage()
  await time.advance(intervalMs)
  if (repairs.length > 0) passCpuMs.push(cpuSince(begun))
}
await assertQuiet()
const run: CoreRun = { startCpuMs, passCpuMs, bytes: { start, later: bytesInUse() } }
console.log(JSON.stringify(run))
stop.abort()
await Promise.all(running)

function composeRepairs(): readonly Repair[] {
  const contextOf = (kind: 'cluster-ip' | 'node-port'): RepairContext => ({
    api,
    clock,
    random,
    logger,
    availability,
    intervalMs,
    reporter: new RepairReporter({ kind, events: noEvents, logger, metrics, clock }),
    permit: { mode: 'repair', granted: async () => true },
    services: informers.get(services, { transform: trimService }),
  })
  const clusterIps = contextOf('cluster-ip')
  return [
    new IpAddressRepair({ ...clusterIps, informers }),
    new RangeRepair({ ...clusterIps, registry, claims: clusterIpClaims([parseCidr(serviceRange)]) }),
    new RangeRepair({ ...contextOf('node-port'), registry, claims: nodePortClaims(parsePortRange(widePortRange)) }),
  ]
}

function filledRegistry(): MemoryRangeRegistry {
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

/** Everything is right: a pass that asks the API server for anything, or writes, does what it need not. */
async function assertQuiet(): Promise<void> {
  if (api.requests.length > 0) throw new Error(`the passes asked for ${api.requests.slice(0, 5).join(', ')}`)
  const ages = (await metrics.expose())
    .split('\n')
    .filter((line) => line.startsWith('apiserver_bootstrap_repair_last_pass'))
  if (repairs.length > 0 && (ages.length !== 2 || ages.some((line) => Number(line.split(' ')[1]) > 1))) {
    throw new Error(`not all passes took place: ${ages.join(', ')}`)
  }
}

function cpuSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}

function bytesInUse(): number {
  const collect = globalThis.gc
  if (collect === undefined) throw new Error('needs --expose-gc')
  for (let i = 0; i < 4; i++) collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
