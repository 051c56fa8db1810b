import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { faultyTransport } from '../../../src/apiserver/faults.ts'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import { dryRunApi } from '../../../src/kube/api-wrappers.ts'
import { Availability } from '../../../src/kube/availability.ts'
import { type Lease, leases as leaseResource, namespaces } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { EtcdLeases } from '../../../src/kubernetes-service/leases/etcd/leases.ts'
import { KubernetesLeases } from '../../../src/kubernetes-service/leases/kubernetes.ts'
import { type Holder, type MasterLeases, yieldsTo } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { dryRunLeases } from '../../../src/kubernetes-service/leases/wrappers.ts'
import { masterKey } from '../../../src/kubernetes-service/members.ts'
import { getOrMake } from '../../../src/runtime/memo.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger, silentLogger } from '../../../src/telemetry/logger.ts'
import { type LeaseWorld, masterLeasesContract } from '../../../src/verify/master-leases-contract.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { addressesOf, holder, spoilIn } from './holders.ts'
import { spoilLease, spoilRecord } from './spoil.ts'

const { signal } = new AbortController()
const ttlMs = 15_000

const stores: Readonly<Record<string, () => LeaseWorld | Promise<LeaseWorld>>> = {
  memory() {
    const time = new VirtualClock()
    const registry = new MemoryLeaseRegistry(time.view())
    return inSimulatedTime(time, () => new MemoryLeases(registry, { ttlMs }))
  },
  async kubernetes() {
    const { time, faults, open, options } = await onServer()
    const refuseDeletes = (): void => void faults.add({ methods: ['DELETE'], fault: { type: 'status', status: 403 } })
    const spoil = (of: Holder, text: string): Promise<void> => spoilLease(options.api, of, text)
    return { ...inSimulatedTime(time, () => new KubernetesLeases(open(3_600_000))), refuseDeletes, spoil }
  },
  etcd: () => onEtcd('etcd'),
  kine: () => onEtcd('kine'),
}

/** The dependencies of a KubernetesLeases, with its own API server. */
async function onServer() {
  const time = new VirtualClock()
  const server = createApiServer({ clock: time.view(), random: seededRandom(1, 'server') })
  const random = seededRandom(1, 'client')
  const transport = faultyTransport(inProcessTransport(server), { clock: time.view(), random })
  const open = (skewMs: number) => {
    const clock = time.view({ skewMs })
    const api = restKubeApi({ transport, clock, random })
    const availability = new Availability({ clock, logger: silentLogger })
    return { api, clock, random, logger: silentLogger, availability, ttlMs, intervalMs: 10_000 }
  }
  const options = open(0)
  await options.api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-system' } })
  return { time, options, open, faults: transport.faults }
}

function onEtcd(flavour: 'etcd' | 'kine'): LeaseWorld {
  const time = new VirtualClock()
  const etcd = new MemoryEtcd({ clock: time.view(), flavour })
  const world = inSimulatedTime(time, () => {
    const clock = time.view({ skewMs: 3_600_000 })
    const availability = new Availability({ clock, logger: silentLogger })
    return new EtcdLeases({
      etcd: etcd.client(),
      prefix: '/registry',
      clock,
      logger: silentLogger,
      availability,
      ttlMs,
    })
  })
  return { ...world, spoil: (of, text) => spoilRecord(etcd.client(), '/registry', of, text) }
}

function inSimulatedTime(time: VirtualClock, open: () => MasterLeases): LeaseWorld {
  return { ttlMs, open, pass: (ms) => time.advance(ms), async close() {} }
}

for (const [store, makeWorld] of Object.entries(stores)) {
  for (const { name, run } of masterLeasesContract(makeWorld)) test(`${store}: ${name}`, run)

  test(`${store}: a lease ends when its TTL has passed, at most 0.2 s later`, async (t) => {
    const { open, pass } = await makeWorld()
    const [a, b] = [open(), open()]
    const end = new AbortController()
    const watching = b.watch(() => void b.list(end.signal).catch(() => {}), end.signal)
    t.after(async () => {
      end.abort()
      await pass(0)
      await watching
    })
    await a.update(holder('192.0.2.1'), signal)
    await pass(14_900)
    assert.deepEqual(await addressesOf(b), ['192.0.2.1'])
    await pass(300)
    assert.deepEqual(await addressesOf(b), [])
  })
}

/** The names of the cases that stores in memory do not fulfil after `damage`. */
async function unkeptBy(
  damage: (leases: MasterLeases, registry: MemoryLeaseRegistry) => void,
  spoil?: typeof spoilIn,
): Promise<readonly string[]> {
  const makeWorld = (): LeaseWorld => {
    const time = new VirtualClock()
    const registry = new MemoryLeaseRegistry(time.view())
    const world = inSimulatedTime(time, () => {
      const leases = new MemoryLeases(registry, { ttlMs })
      damage(leases, registry)
      return leases
    })
    return spoil === undefined ? world : { ...world, spoil: async (of, text) => spoil(registry, of, text) }
  }
  const unkept: string[] = []
  for (const { name, run } of masterLeasesContract(makeWorld)) await run().catch(() => unkept.push(name))
  return unkept
}

test('the contract detects a store whose watch reports nothing', async () => {
  const unkept = await unkeptBy((leases) => {
    leases.watch = (_, end) => new Promise((resolve) => end.addEventListener('abort', () => resolve()))
  })
  assert.ok(
    unkept.includes('a lease expires, which is reported, once its TTL has passed since the last renewal'),
    unkept.join(),
  )
})

for (const [noted, finds] of [
  ['renewed', 'an ended lease of a later life hinders nobody'],
  ['marked', 'an ended lease that was withdrawn hinders no other life'],
] as const) {
  test(`the contract detects a store that yields to the record that was last ${noted}, even if its lease has ended`, async () => {
    const lastOf = new WeakMap<MemoryLeaseRegistry, Map<string, Holder>>()
    const unkept = await unkeptBy((leases, registry) => {
      const last = getOrMake(lastOf, registry, () => new Map<string, Holder>())
      const [update, mark] = [leases.update.bind(leases), leases.mark.bind(leases)]
      leases.update = async (of, given) => {
        if (yieldsTo(last.get(masterKey(of)), of)) return
        await update(of, given)
        if (noted === 'renewed') last.set(masterKey(of), of)
      }
      leases.mark = async (of, given) => {
        await mark(of, given)
        if (noted === 'marked') last.set(masterKey(of), of)
      }
    })
    assert.ok(unkept.includes(finds), unkept.join())
  })
}

test('the contract detects a store that lists what it cannot read', async () => {
  assert.deepEqual(await unkeptBy(() => {}, spoilIn), [
    'a record that cannot be read spoils only its entry, and the next renewal of its master replaces it',
  ])
})

test('kubernetes: renewals preserve a foreign annotation of a Lease, and invalid records are ignored', async () => {
  const { options } = await onServer()
  const { api } = options
  const store = new KubernetesLeases(options)
  await store.update(holder('192.0.2.1'), signal)
  const [made] = (await api.list(leaseResource, { namespace: 'kube-system' })).items
  const ref = { namespace: 'kube-system', name: made?.metadata?.name ?? '' }
  await api.patch(leaseResource, ref, { type: 'merge', body: { metadata: { annotations: { theirs: 'yes' } } } })
  await store.update(holder('192.0.2.1'), signal)
  assert.equal((await api.get(leaseResource, ref)).metadata?.annotations?.theirs, 'yes')

  for (const record of [
    '',
    'nonsense',
    '{}',
    JSON.stringify(holder('127.0.0.1')),
    JSON.stringify(holder('010.0.0.1')),
  ]) {
    const body = { metadata: { annotations: { 'apiserver-bootstrap/holder': record } } }
    await api.patch(leaseResource, ref, { type: 'merge', body })
    assert.deepEqual(await new KubernetesLeases(options).list(signal), [], record)
  }
})

test('kubernetes: each write of a Lease preserves an unknown field of its spec, as a later Kubernetes may add one', async () => {
  const { options } = await onServer()
  const { api } = options
  const sent: unknown[] = []
  /** The in-process server does not store unknown fields, so they are added to its answers. */
  const later = <T>(lease: T): T => ({ ...lease, spec: { ...(lease as Lease).spec, later: 'theirs' } })
  const store = new KubernetesLeases({
    ...options,
    api: passedOn(api, {
      create: async (...args) => later(await api.create(...args)),
      get: async (...args) => later(await api.get(...args)),
      update: async (resource, lease, more) => {
        sent.push((lease as Lease & { spec: { later?: string } }).spec.later)
        return later(await api.update(resource, lease, more))
      },
    }),
  })
  await store.update(holder('192.0.2.1'), signal)
  await store.update(holder('192.0.2.1'), signal)
  await store.mark({ ...holder('192.0.2.1'), state: 'failing' }, signal)
  await store.update(holder('192.0.2.1'), signal)
  assert.deepEqual(sent, ['theirs', 'theirs', 'theirs'])
})

test("kubernetes: a record in another Lease does not count beside a master's own, and a replaced own record is restored", async () => {
  const { options } = await onServer()
  const { api } = options
  const [store, other] = [new KubernetesLeases(options), new KubernetesLeases(options)]
  await store.update(holder('192.0.2.1'), signal)
  const [own] = (await api.list(leaseResource, { namespace: 'kube-system' })).items
  const put = async (name: string, record: Holder): Promise<void> => {
    const ref = { namespace: 'kube-system', name }
    const annotations = { 'apiserver-bootstrap/holder': JSON.stringify(record) }
    await api.patch(leaseResource, ref, { type: 'merge', body: { metadata: { annotations } } })
  }
  await other.update(holder('192.0.2.2'), signal)
  const names = (await api.list(leaseResource, { namespace: 'kube-system' })).items.map(
    ({ metadata }) => metadata?.name,
  )
  const another = names.find((name) => name !== own?.metadata?.name) ?? ''
  await put(another, { ...holder('192.0.2.1'), state: 'withdrawn' })
  assert.deepEqual(
    (await store.list(signal)).map(({ holder }) => [holder?.addresses[0], holder?.state]),
    [['192.0.2.1', 'ready']],
  )
  await other.update(holder('192.0.2.2'), signal)
  await put(own?.metadata?.name ?? '', { ...holder('192.0.2.9'), startedAt: '2999-01-01T00:00:00Z' })
  await store.update(holder('192.0.2.1'), signal)
  assert.deepEqual(await addressesOf(store), ['192.0.2.1', '192.0.2.2'])
})

test('kubernetes: a dry-run observer removes a dead master from its view and does not list it again', async () => {
  const { time, options } = await onServer()
  const { api } = options
  await new KubernetesLeases(options).update(holder('192.0.2.2'), signal)
  const logger = memoryLogger()
  const observer = dryRunLeases(new KubernetesLeases({ ...options, api: dryRunApi(api, logger) }), logger)
  await observer.update(holder('192.0.2.1'), signal)
  const seen: string[][] = []
  for (const untilNextMs of [10_000, 4_000, 6_000, 10_000, 10_000]) {
    seen.push(await addressesOf(observer))
    await time.advance(untilNextMs)
  }
  const [both, own] = [['192.0.2.1', '192.0.2.2'], ['192.0.2.1']]
  assert.deepEqual(seen, [both, both, both, own, own])
  assert.deepEqual(
    logger.lines.map(({ message, fields }) => `${message} ${fields.verb ?? fields.address}`),
    ['dry run: would create and renew a lease 192.0.2.1', 'dry run: would write delete'],
  )
  assert.equal((await api.list(leaseResource)).items.length, 1)
})
