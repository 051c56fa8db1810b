// Upstream's code checks once, at a time that its test sets, and computes ages from the times of the servers. Our
// repair measures ages itself, from when it first saw an IPAddress. So it runs for as long as the oldest IPAddress has
// existed in the case; the pure plans get the ages of the case. Its deletes carry uid and resourceVersion as
// preconditions, which upstream's do not, and the data does not show. It deletes only IPAddresses that it has known for
// 5 s, in which servers release the addresses of Services; the runs are longer by that. An IPAddress whose Service does
// not have the address gets 60 s: `impatient` names the cases in which upstream allows less. Two differences have no
// case here, because upstream's tables have none: wrong labels are corrected in place, and if the Service of an
// IPAddress has another address, the IPAddress is created again at once for the Service that has this address. The
// tests in test/repair/cluster-ip cover both.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { Availability } from '../../src/kube/availability.ts'
import { codeOf, KubeError } from '../../src/kube/errors.ts'
import { type EventToRecord, type ObjectReference, referenceTo } from '../../src/kube/event-object.ts'
import { Informer, SharedInformers } from '../../src/kube/informer.ts'
import type { KubeObject } from '../../src/kube/resources.ts'
import { type IpAddress, ipAddresses, type Service, type ServiceCidr, services } from '../../src/kube/resources.ts'
import { keyOf, keyOfObject, Store } from '../../src/kube/store.ts'
import { namesToCheck, planIpAddress } from '../../src/repair/ip-address/plan.ts'
import { IpAddressRepair } from '../../src/repair/ip-address/repair.ts'
import { check } from '../../src/repair/ip-address/rounds.ts'
import { holdersIn, ServiceIpRanges } from '../../src/repair/ip-address/service-ips.ts'
import type { IpAddressWrite } from '../../src/repair/ip-address/writer.ts'
import { type Finding, RepairReporter, repairReasons } from '../../src/repair/reporter.ts'
import { trimService } from '../../src/repair/service-claims.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { atOnce } from '../../src/runtime/steps.ts'
import { parseTime } from '../../src/runtime/time-format.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { assertSame } from './same.ts'
import { type IpAddressRepairCase, ipAddressRepair, type StoredObject, type Write } from './tables.ts'
import { World } from './world.ts'

const { repairServiceIP, syncIPAddress, runOnce } = ipAddressRepair.tables
/**
 * Upstream deletes at once, or after 5 s. But the IPAddress may belong to a create that waits while a Service of its
 * name is deleted, or to an update that adds a family. Their Service would then be stored with an address that is free.
 * The simulation found such Services.
 */
const impatient: ReadonlySet<string> = new Set([
  'Two IPAddresses referencing the same service',
  'Two IPAddresses referencing the same service when service create is called again and ip address is not in grace period',
])
const requestTimeoutMs = 60_000

type RecordedEvent = IpAddressRepairCase['expect']['events'][number]

describe(`${ipAddressRepair.file}, repairServiceIP, the plan`, () => {
  for (const one of repairServiceIP) {
    test(one.name, () => {
      const held = ofKind<Service>(one, 'Service')
      const existing = ofKind<IpAddress>(one, 'IPAddress')
      const ranges = new ServiceIpRanges(ofKind<ServiceCidr>(one, 'ServiceCIDR'))
      const store = new Store(trimService.packing)
      for (const object of held) store.apply({ type: 'ADDED', object })
      const view = {
        holdersOf: (name: string) => holdersIn(store, name),
        serviceOf: (ref: Parameters<typeof keyOf>[0]) => held.find((service) => keyOfObject(service) === keyOf(ref)),
        ipAddressOf: (name: string) => existing.find(({ metadata }) => metadata?.name === name),
        ageMs: (ipAddress: IpAddress) => ageIn(one, ipAddress) + (impatient.has(one.name) ? requestTimeoutMs : 0),
        orphanedMs: () => Number.POSITIVE_INFINITY,
        inRange: (name: string) => ranges.contains(name),
        repairing: true,
      }
      if (impatient.has(one.name)) {
        const young = { ...view, ageMs: (ipAddress: IpAddress) => ageIn(one, ipAddress) }
        assert.deepEqual(atOnce(check({ names: [], existing, deleting: true }, young)).writes, [])
      }
      const found = atOnce(check({ names: atOnce(namesToCheck(held, view)), existing, deleting: true }, view))
      assertSame(found.writes.flatMap(asUpstream), one.expect.writes, 'the writes')
      assert.deepEqual(found.findings.map(eventOf), one.expect.events)
    })
  }
})

describe(`${ipAddressRepair.file}, syncIPAddress, the plan`, () => {
  for (const one of syncIPAddress) {
    test(one.name, () => {
      const [ipAddress] = ofKind<IpAddress>(one, 'IPAddress')
      assert.ok(ipAddress)
      const { namespace, name } = ipAddress.spec?.parentRef ?? {}
      const service = ofKind<Service>(one, 'Service').find((found) => keyOfObject(found) === `${namespace}/${name}`)
      const action = planIpAddress({ ipAddress, service, ageMs: ageIn(one, ipAddress), repairing: true })
      assertSame(action.type === 'delete' ? asUpstream(action) : [], one.expect.writes, 'the writes')
      assert.deepEqual(action.type === 'delete' ? [eventOf(action.finding)] : [], one.expect.events)
    })
  }
})

describe(`${ipAddressRepair.file}, repairServiceIP, on a server`, () => {
  for (const one of repairServiceIP) {
    test(one.name, async () => {
      const { world, recorded } = await run(one, one.given.objects)
      await world.assertResult({ ...one.expect, writes: sorted(one.expect.writes), objects: one.expect.objects }, [
        ipAddresses,
      ])
      assert.deepEqual(sorted(recorded), sorted(one.expect.events))
    })
  }
})

describe(`${ipAddressRepair.file}, syncIPAddress, on a server`, () => {
  for (const one of syncIPAddress) {
    test(one.name, async () => {
      // Upstream's test does not touch the Services. Neither does our repair if their addresses are in no range.
      const range = { cidrs: ['172.30.0.0/16', 'fd00:30::/64'] }
      const elsewhere = {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'ServiceCIDR',
        metadata: { name: 'kubernetes' },
        spec: range,
      }
      const { world, recorded } = await run(one, [elsewhere, ...one.given.objects])
      await world.assertResult(one.expect, [ipAddresses])
      assert.deepEqual(
        recorded.filter(({ regarding }) => regarding.kind === 'IPAddress'),
        one.expect.events,
      )
    })
  }
})

describe(`${ipAddressRepair.file}, runOnce, on a server`, () => {
  for (const one of runOnce) {
    // Upstream gives up after an internal error, and its server exits. Our repair tries again until it succeeds.
    const { error, creates = 0 } = one.expect
    test(`${one.name}${error === undefined ? '' : ': here it is retried'}`, async () => {
      const { world, recorded, refused } = await run(one, one.given.objects)
      const wanted = one.expect.writes.slice(0, 1)
      const objects = wanted
        .map((write) => ('object' in write ? write.object : undefined))
        .filter((object) => object !== undefined)
      await world.assertResult({ writes: wanted, objects }, [ipAddresses])
      assert.equal(refused() + world.writes.length, error === undefined ? creates : creates + 1)
      assert.deepEqual(recorded, one.expect.events.slice(0, 1), 'one Event is recorded, not one for each attempt')
    })
  }
})

/** Runs the repair on a server with these objects, for as long as the oldest IPAddress of the case has existed. */
async function run(
  one: IpAddressRepairCase,
  objects: readonly StoredObject[],
): Promise<{ readonly world: World; readonly recorded: readonly RecordedEvent[]; readonly refused: () => number }> {
  const world = await World.start(objects.map(complete), [], { serviceAllocators: 'none' })
  const { clock } = world
  const random = seededRandom(1, 'ip-address-repair')
  const refusals = one.call.refusals ?? { status: 0, times: 0 }
  let left = refusals.times
  const dated = withTimes(world.api, one.given.objects)
  const api: KubeApi = {
    ...dated,
    create(...call) {
      if (left-- <= 0) return dated.create(...call)
      return Promise.reject(new KubeError(codeOf(refusals.status, undefined), 'refused'))
    },
  }
  const recorded: RecordedEvent[] = []
  const record = ({ type, reason, action, note, regarding }: EventToRecord): void => {
    recorded.push({ type, reason, action, note, regarding: shortRef(regarding) })
  }
  const availability = new Availability({ clock, logger: silentLogger })
  const context = { api, clock, random, logger: silentLogger, availability }
  const informers = new SharedInformers(context)
  const followed = new Informer({ ...context, resource: services, transform: trimService })
  const reporter = new RepairReporter({
    kind: 'cluster-ip',
    events: { record },
    metrics: prometheusMetrics(),
    clock,
    logger: silentLogger,
  })
  const permit = { mode: 'repair' as const, granted: async () => true }
  const repair = new IpAddressRepair({
    ...context,
    informers,
    services: followed,
    reporter,
    permit,
    intervalMs: 600_000,
  })
  const ages = ofKind<IpAddress>(one, 'IPAddress').map((ipAddress) => ageIn(one, ipAddress))
  await world.runWhileBusy(
    async (signal) => {
      await Promise.all([informers.run(signal), followed.run(signal), repair.run(signal)])
    },
    Math.max(1_000, ...ages) + 500 + (impatient.has(one.name) ? requestTimeoutMs : 0),
  )
  world.writes.sort(inOrder)
  return { world, recorded, refused: () => refusals.times - Math.max(left, 0) }
}

/** The object with the fields of a Service that the API requires and upstream's tests do not set. */
function complete(object: StoredObject): StoredObject {
  if (object.kind !== 'Service') return object
  const { spec } = object as Service
  const dual = spec?.clusterIPs?.length === 2 ? { ipFamilyPolicy: 'RequireDualStack' } : {}
  return { ...object, spec: { ...spec, ...dual, ports: [{ port: 80 }] } } as StoredObject
}

/** The same API, but the objects of a case have the creation times of the case. */
function withTimes(api: KubeApi, objects: readonly StoredObject[]): KubeApi {
  const times = new Map(objects.map((object) => [identityOf(object), object.metadata.creationTimestamp]))
  const dated = <T extends KubeObject>(kind: string, object: T): T => {
    const creationTimestamp = times.get(`${kind} ${keyOfObject(object)}`)
    return creationTimestamp === undefined ? object : { ...object, metadata: { ...object.metadata, creationTimestamp } }
  }
  return {
    ...api,
    get: async (resource, ...rest) => dated(resource.kind, await api.get(resource, ...rest)),
    list: async (resource, query) => {
      const page = await api.list(resource, query)
      return { ...page, items: page.items.map((item) => dated(resource.kind, item)) }
    },
    async *watch(resource, query) {
      for await (const event of api.watch(resource, query)) {
        yield event.type === 'ERROR' ? event : { ...event, object: dated(resource.kind, event.object) }
      }
    },
  }
}

function ofKind<T extends KubeObject>(one: IpAddressRepairCase, kind: string): readonly T[] {
  return one.given.objects.filter((object) => object.kind === kind) as unknown as readonly T[]
}

function ageIn({ call }: IpAddressRepairCase, { metadata }: IpAddress): number {
  return parseTime(call.now) - parseTime(String(metadata?.creationTimestamp))
}

/** The writes of upstream for the same change. */
function asUpstream(write: IpAddressWrite): readonly Write[] {
  const { ipAddress } = write
  const removed: Write = { verb: 'delete', resource: 'ipaddresses', ref: { name: ipAddress.metadata?.name ?? '' } }
  const made: Write = { verb: 'create', resource: 'ipaddresses', object: ipAddress as StoredObject }
  if (write.type === 'delete') return [removed]
  return write.type === 'recreate' ? [removed, made] : [made]
}

function eventOf({ reason, note, regarding }: Finding): RecordedEvent {
  return {
    type: 'Warning',
    reason,
    action: repairReasons[reason],
    note,
    regarding: shortRef(regarding === undefined ? {} : referenceTo(regarding)),
  }
}

function shortRef({ kind, name, namespace }: ObjectReference): RecordedEvent['regarding'] {
  return { kind: kind ?? '', name: name ?? '', ...(namespace === undefined ? {} : { namespace }) }
}

function identityOf({ kind, metadata }: StoredObject): string {
  return `${kind} ${keyOf({ namespace: metadata.namespace, name: metadata.name })}`
}

/**
 * Writes and events by address. Our repair makes several at once, in random order; those of one address keep their
 * order.
 */
function sorted<T extends Write | RecordedEvent>(all: readonly T[]): T[] {
  return all.toSorted(inOrder)
}

function inOrder(a: Write | RecordedEvent, b: Write | RecordedEvent): number {
  const [left, right] = [addressOf(a), addressOf(b)]
  return left < right ? -1 : left > right ? 1 : 0
}

function addressOf(item: Write | RecordedEvent): string {
  if ('note' in item) return item.note
  return ('object' in item ? item.object.metadata.name : 'ref' in item ? item.ref.name : '') ?? ''
}
