import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createApiServer } from '../../../src/apiserver/api-server.ts'
import { inProcessTransport } from '../../../src/apiserver/in-process.ts'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import { Availability } from '../../../src/kube/availability.ts'
import { dryRunApi } from '../../../src/kube/dry-run.ts'
import { leases as leaseResource, namespaces } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { DryRunLeases } from '../../../src/kubernetes-service/leases/dry-run.ts'
import { EtcdLeases } from '../../../src/kubernetes-service/leases/etcd.ts'
import { KubernetesLeases } from '../../../src/kubernetes-service/leases/kubernetes.ts'
import type { MasterLeases } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { memoryLogger } from '../../../src/telemetry/memory-logger.ts'
import { addressesOf, holder, type LeaseStore, masterLeasesContract } from './master-leases-contract.ts'

const signal = new AbortController().signal
const ttlMs = 15_000

/** A store whose time the test tells to pass. */
interface TimedStore extends LeaseStore {
  readonly time: VirtualClock
}

const stores: Readonly<Record<string, (t: TestContext) => Promise<TimedStore>>> = {
  async memory(t) {
    const time = new VirtualClock()
    const registry = new MemoryLeaseRegistry(time.view())
    return following(t, time, () => new MemoryLeases(registry, { ttlMs }))
  },
  async kubernetes(t) {
    const { time, open } = await onServer()
    return following(t, time, () => new KubernetesLeases(open(3_600_000)))
  },
  etcd: async (t) => onEtcd(t, 'etcd'),
  kine: async (t) => onEtcd(t, 'kine'),
}

/** What a KubernetesLeases needs, on an API server of its own. */
async function onServer() {
  const time = new VirtualClock()
  const server = createApiServer({ clock: time.view(), random: seededRandom(1, 'server') })
  const open = (skewMs: number) => {
    const clock = time.view({ skewMs })
    const random = seededRandom(1, 'client')
    const api = restKubeApi({ transport: inProcessTransport(server), clock, random })
    const availability = new Availability({ clock, logger: silentLogger })
    return { api, clock, random, logger: silentLogger, availability, ttlMs, intervalMs: 10_000 }
  }
  const options = open(0)
  await options.api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-system' } })
  return { time, options, open }
}

function onEtcd(t: TestContext, flavour: 'etcd' | 'kine'): TimedStore {
  const time = new VirtualClock()
  const etcd = new MemoryEtcd({ clock: time.view(), flavour })
  return following(t, time, () => {
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
}

function following(t: TestContext, time: VirtualClock, make: () => MasterLeases): TimedStore {
  const looks: number[] = []
  const end = new AbortController()
  const ends: Promise<void>[] = []
  t.after(async () => {
    end.abort()
    await time.advance(0)
    await Promise.all(ends)
  })
  const open = (): MasterLeases => {
    const leases = make()
    const index = looks.push(0) - 1
    ends.push(
      leases.watch(() => {
        looks[index] = (looks[index] ?? 0) + 1
        // As whoever watches does.
        void leases.list(end.signal).catch(() => {})
      }, end.signal),
    )
    return leases
  }
  return { time, open, looks, settled: () => time.advance(100) }
}

for (const [name, setUp] of Object.entries(stores)) {
  masterLeasesContract(test, name, setUp)

  test(`${name}: a lease ends, and asks for a look, when its TTL has passed without renewal`, async (t) => {
    const { time, open, looks } = await setUp(t)
    const [a, b] = [open(), open()]
    await a.update(holder('192.0.2.1'), signal)
    await b.update(holder('192.0.2.2'), signal)
    await time.advance(100)
    assert.deepEqual(await addressesOf(b), ['192.0.2.1', '192.0.2.2'])
    await time.advance(10_000)
    await b.update(holder('192.0.2.2'), signal)
    const before = looks[1] ?? 0
    await time.advance(4_800)
    assert.deepEqual(await addressesOf(b), ['192.0.2.1', '192.0.2.2'])
    await time.advance(300)
    assert.ok((looks[1] ?? 0) > before, 'the end of a lease asks for a look')
    assert.deepEqual(await addressesOf(b), ['192.0.2.2'])
    assert.deepEqual(await addressesOf(a), ['192.0.2.2'])
  })

  test(`${name}: marking does not make a lease last longer`, async (t) => {
    const { time, open } = await setUp(t)
    const [a, b] = [open(), open()]
    await a.update(holder('192.0.2.1'), signal)
    await time.advance(10_000)
    await a.mark(holder('192.0.2.1', { state: 'failing' }), signal)
    await addressesOf(b)
    await time.advance(5_200)
    assert.deepEqual(await addressesOf(b), [])
  })

  test(`${name}: a lease that others took for ended is made anew by its master's next renewal`, async (t) => {
    const { time, open } = await setUp(t)
    const [a, b] = [open(), open()]
    await a.update(holder('192.0.2.1'), signal)
    await time.advance(10_000)
    await addressesOf(b)
    await time.advance(6_000)
    assert.deepEqual(await addressesOf(b), [])
    await a.update(holder('192.0.2.1'), signal)
    assert.deepEqual(await addressesOf(b), ['192.0.2.1'])
  })
}

test('kubernetes: unknown fields of a Lease survive renewals, and a record that is none of ours is passed over', async () => {
  const { options } = await onServer()
  const { api } = options
  const store = new KubernetesLeases(options)
  await store.update(holder('192.0.2.1'), signal)
  const [made] = (await api.list(leaseResource, { namespace: 'kube-system' })).items
  const ref = { namespace: 'kube-system', name: made?.metadata?.name ?? '' }
  await api.patch(leaseResource, ref, { type: 'merge', body: { metadata: { annotations: { theirs: 'kept' } } } })
  await store.update(holder('192.0.2.1'), signal)
  assert.equal((await api.get(leaseResource, ref)).metadata?.annotations?.theirs, 'kept')

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

test('kubernetes: an observer that may write nothing still takes a dead master off, and leaves it off', async () => {
  const { time, options } = await onServer()
  const { api } = options
  await new KubernetesLeases(options).update(holder('192.0.2.2'), signal)
  const logger = memoryLogger()
  const observer = new DryRunLeases(new KubernetesLeases({ ...options, api: dryRunApi(api, logger) }), logger)
  await observer.update(holder('192.0.2.1'))
  const seen: string[][] = []
  for (const untilNextMs of [10_000, 4_000, 6_000, 10_000, 10_000]) {
    seen.push(await addressesOf(observer))
    await time.advance(untilNextMs)
  }
  const [both, own] = [['192.0.2.1', '192.0.2.2'], ['192.0.2.1']]
  assert.deepEqual(seen, [both, both, both, own, own])
  assert.deepEqual(
    logger.lines.map(({ message, fields }) => `${message} ${fields.verb ?? fields.address}`),
    ['dry run: would make and renew a lease 192.0.2.1', 'dry run: would write delete'],
  )
  assert.equal((await api.list(leaseResource)).items.length, 1)
})
