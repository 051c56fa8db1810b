import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import { Availability } from '../../../src/kube/availability.ts'
import { leases as leaseResource, namespaces } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { EtcdLeases } from '../../../src/kubernetes-service/leases/etcd/leases.ts'
import { KubernetesLeases } from '../../../src/kubernetes-service/leases/kubernetes.ts'
import {
  EtcdLeaseInspector,
  type InspectedLease,
  KubernetesLeaseInspector,
  type LeaseInspector,
} from '../../../src/kubernetes-service/masters/inspection.ts'
import { LeaseWatch } from '../../../src/kubernetes-service/masters/masters.ts'
import { encodeMasterLease } from '../../../src/protobuf/master-lease.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { withOddField } from '../../protobuf/odd-lease.ts'
import { holder } from '../leases/holders.ts'

const { signal } = new AbortController()
const ttlMs = 15_000
const prefix = '/registry'

function onEtcd(flavour: 'etcd' | 'kine') {
  const time = new VirtualClock()
  const etcd = new MemoryEtcd({ clock: time.view(), flavour }).client()
  const clock = time.view()
  const availability = new Availability({ clock, logger: silentLogger })
  return {
    time,
    etcd,
    inspector: new EtcdLeaseInspector({ etcd, prefix }),
    /** The leases of one master. */
    leases: () => new EtcdLeases({ etcd, prefix, clock, logger: silentLogger, availability, ttlMs }),
    put: (key: string, value: string | Uint8Array) =>
      etcd.create(`${prefix}/${key}`, typeof value === 'string' ? Buffer.from(value) : value, { signal }),
  }
}

async function onKubernetes() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'test')
  const server = createApiServer({ clock, random })
  const api = restKubeApi({ transport: inProcessTransport(server), clock, random })
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-system' } })
  const availability = new Availability({ clock, logger: silentLogger })
  return {
    time,
    api,
    inspector: new KubernetesLeaseInspector({ api, clock }),
    leases: () =>
      new KubernetesLeases({ api, clock, random, logger: silentLogger, availability, ttlMs, intervalMs: 10_000 }),
  }
}

async function only(inspector: LeaseInspector): Promise<InspectedLease> {
  const [sighting, ...others] = await inspector.inspect(signal)
  assert.ok(sighting !== undefined && others.length === 0)
  return sighting
}

test('in etcd a lease is shown with its holder and its remaining time', async () => {
  const { time, inspector, leases } = onEtcd('etcd')
  const one = holder('192.0.2.1')
  await leases().update(one, signal)
  await time.advance(4_000)
  const { revision, ...sighting } = await only(inspector)
  assert.match(revision, /^\d+$/)
  assert.deepEqual(sighting, {
    id: '/registry/masterleases/192.0.2.1',
    address: '192.0.2.1',
    holders: [one],
    leased: true,
    life: { type: 'ends', leftMs: 11_000 },
    odd: [],
  })
})

test('on kine the TTL of a lease is known, but not its remaining time', async () => {
  const { inspector, leases } = onEtcd('kine')
  await leases().update(holder('192.0.2.1'), signal)
  assert.deepEqual((await only(inspector)).life, { type: 'renewed', ttlMs, leftMs: undefined })
})

test('a key without an etcd lease never ends, and without a record it has no holder', async () => {
  for (const flavour of ['etcd', 'kine'] as const) {
    const { inspector, put } = onEtcd(flavour)
    await put('masterleases/192.0.2.9', encodeMasterLease('192.0.2.9'))
    const { life, holders, odd } = await only(inspector)
    assert.deepEqual({ life, holders, odd }, { life: { type: 'never' }, holders: [], odd: [] })
  }
})

test('values that masters do not write are shown with the kind of their oddity', async () => {
  const { inspector, put } = onEtcd('etcd')
  await put('masterleases/192.0.2.1', '{"apiVersion":"v1","kind":"Endpoints"}')
  await put('masterleases/192.0.2.2', 'nonsense')
  await put('masterleases/192.0.2.3', encodeMasterLease('192.0.2.4'))
  await put('masterleases/192.0.2.7', withOddField('192.0.2.7'))
  await put('masterleases/127.0.0.1', encodeMasterLease('127.0.0.1'))
  await put('masterleases/elsewhere', encodeMasterLease('192.0.2.5'))
  await put('apiserver-bootstrap/holders/192.0.2.6/host', 'nonsense')
  const found = (await inspector.inspect(signal)).map(({ address, odd }) => [address, ...odd.map(({ type }) => type)])
  assert.deepEqual(found, [
    ['127.0.0.1', 'unlistable'],
    ['192.0.2.1', 'json'],
    ['192.0.2.2', 'unreadable'],
    ['192.0.2.3', 'misplaced'],
    ['192.0.2.7', 'unreadable'],
    [undefined, 'unlistable'],
    ['192.0.2.6', 'unreadable'],
  ])
})

test('a record without a host in its key is shown at its own address, and stays when another address is evicted', async () => {
  const { inspector, leases, put, etcd } = onEtcd('etcd')
  await leases().update(holder('192.0.2.1'), signal)
  await put('apiserver-bootstrap/holders/192.0.2.10', 'nonsense')
  const [lease, record] = await inspector.inspect(signal)
  assert.deepEqual([lease?.address, lease?.odd, record?.address], ['192.0.2.1', [], '192.0.2.10'])
  assert.ok(lease !== undefined && (await inspector.evict(lease, signal)))
  const { items } = await etcd.list(`${prefix}/`, { signal })
  assert.deepEqual(
    items.map(({ key }) => key),
    ['/registry/apiserver-bootstrap/holders/192.0.2.10'],
  )
})

test('an unready master is shown by its record alone; two hosts at one address share a lease', async () => {
  const { inspector, leases } = onEtcd('etcd')
  await leases().update({ ...holder('192.0.2.1'), state: 'unready' }, signal)
  const { leased, holders } = await only(inspector)
  assert.deepEqual([leased, holders.map(({ state }) => state)], [false, ['unready']])
  for (const host of ['a', 'b']) await leases().update({ ...holder('192.0.2.7'), host }, signal)
  const [shared] = await inspector.inspect(signal)
  assert.deepEqual(
    shared?.holders.map(({ host }) => host),
    ['a', 'b'],
  )
})

test('an eviction from etcd removes the lease and its records', async () => {
  const { inspector, leases, etcd } = onEtcd('etcd')
  await leases().update(holder('192.0.2.1'), signal)
  await leases().update(holder('192.0.2.2'), signal)
  const [first] = await inspector.inspect(signal)
  assert.equal(first !== undefined && (await inspector.evict(first, signal)), true)
  const left = (await etcd.list(`${prefix}/`, { signal })).items.map(({ key }) => key)
  assert.equal(left.length, 2)
  assert.ok(left.every((key) => key.includes('192.0.2.2')))
})

test('a lease that was written since the inspection, is gone or was never inspected is not evicted', async () => {
  const { inspector, leases } = onEtcd('etcd')
  const master = leases()
  await master.update(holder('192.0.2.1'), signal)
  const before = await only(inspector)
  await master.update(holder('192.0.2.1'), signal)
  assert.equal(await inspector.evict(before, signal), false)
  const now = await only(inspector)
  assert.equal(await inspector.evict({ ...now }, signal), false)
  assert.equal(await inspector.evict(now, signal), true)
  assert.equal(await inspector.evict(now, signal), false)
})

test('an eviction preserves a record that its master has written since the inspection', async () => {
  const { inspector, leases } = onEtcd('etcd')
  const master = leases()
  await master.update(holder('192.0.2.1'), signal)
  const seen = await only(inspector)
  await master.mark({ ...holder('192.0.2.1'), state: 'failing' }, signal)
  assert.equal(await inspector.evict(seen, signal), true)
  const { leased, holders } = await only(inspector)
  assert.deepEqual([leased, holders.map(({ state }) => state)], [false, ['failing']])
})

test('a Lease is shown with the times in it, and evicted only if unchanged since the inspection', async () => {
  const { time, inspector, leases } = await onKubernetes()
  const master = leases()
  await master.update(holder('192.0.2.1'), signal)
  await time.advance(4_000)
  const before = await only(inspector)
  assert.match(before.id, /^Lease kube-system\/apiserver-bootstrap-192-0-2-1-/)
  assert.deepEqual([before.address, before.life], ['192.0.2.1', { type: 'renewed', ttlMs, leftMs: 11_000 }])
  assert.deepEqual(before.odd, [])
  await master.update(holder('192.0.2.1'), signal)
  assert.equal(await inspector.evict(before, signal), false)
  assert.equal(await inspector.evict(await only(inspector), signal), true)
  assert.deepEqual(await inspector.inspect(signal), [])
})

test('a Lease without a readable holder has no address', async () => {
  const { api, inspector } = await onKubernetes()
  const metadata = { name: 'x', namespace: 'kube-system', labels: { 'apiserver-bootstrap/lease': 'master' } }
  await api.create(leaseResource, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata })
  const { address, holders, odd, life } = await only(inspector)
  assert.deepEqual(
    { address, holders, life },
    {
      address: undefined,
      holders: [],
      life: { type: 'renewed', ttlMs, leftMs: undefined },
    },
  )
  assert.deepEqual(odd, [{ type: 'unreadable', reason: 'Lease x has no valid holder' }])
})

test('the TTL that a Lease states is limited to the longest TTL', async () => {
  const { api, inspector } = await onKubernetes()
  const metadata = { name: 'x', namespace: 'kube-system', labels: { 'apiserver-bootstrap/lease': 'master' } }
  const spec = { leaseDurationSeconds: 2 ** 31 - 1 }
  await api.create(leaseResource, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec })
  assert.deepEqual((await only(inspector)).life, { type: 'renewed', ttlMs: 3_600_000, leftMs: undefined })
})

test('a lease watched for its whole TTL is judged as live or stale; time without a read does not count', async () => {
  const { time, inspector, leases } = await onKubernetes()
  const [alive, dead] = [leases(), leases()]
  await alive.update(holder('192.0.2.1'), signal)
  await dead.update(holder('192.0.2.2'), signal)
  const clock = time.view()
  const watch = new LeaseWatch({ maxGapMs: 5_000 })
  const verdicts = async () => {
    const all = await inspector.inspect(signal)
    watch.read(all, clock.monotonicMs())
    return all.map((sighting) => watch.verdict(sighting))
  }
  assert.deepEqual(await verdicts(), ['unknown', 'unknown'])
  for (let second = 0; second < 14; second += 1) {
    await time.advance(1_000)
    if (second === 5) watch.interrupted()
    if (second === 7) await alive.update(holder('192.0.2.1'), signal)
    assert.deepEqual(await verdicts(), [second < 7 ? 'unknown' : 'live', 'unknown'])
  }
  for (let second = 0; second < 6; second += 1) {
    assert.deepEqual(await verdicts(), ['live', 'unknown'])
    await time.advance(1_000)
  }
  await time.advance(1_000)
  assert.deepEqual(await verdicts(), ['live', 'stale'])
})

test('without watching, a lease that the store expires is live, and a lease that never ends is stale', async () => {
  const { inspector, leases, put } = onEtcd('etcd')
  await leases().update(holder('192.0.2.1'), signal)
  await put('masterleases/192.0.2.9', encodeMasterLease('192.0.2.9'))
  const watch = new LeaseWatch({ maxGapMs: 5_000 })
  const all = await inspector.inspect(signal)
  watch.read(all, 0)
  assert.deepEqual(
    all.map((sighting) => watch.verdict(sighting)),
    ['live', 'stale'],
  )
})
