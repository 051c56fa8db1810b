import assert from 'node:assert/strict'
import { test } from 'node:test'
import { overlappingEtcdCuts } from '../etcd-cuts.ts'
import { addresses, FleetUnderTest, fleetPlan, masterPlan } from './fleet-under-test.ts'

const upstream = (count: number) =>
  fleetPlan(count, {
    masters: Array.from({ length: count }, (_, index) => masterPlan(index + 1, { kind: 'kube-apiserver' })),
  })

test('a fleet of kube-apiservers creates namespaces and Service, and lists all of them', async (t) => {
  const fleet = await FleetUnderTest.started(upstream(3))
  t.after(() => fleet.target.close())
  assert.deepEqual(fleet.listed, addresses(1, 2, 3))
  assert.deepEqual(fleet.leased, addresses(1, 2, 3))
  assert.ok(fleet.target.members.every(({ healthy }) => healthy))
  const { namespaces, service } = fleet.objects.at(-1) ?? {}
  assert.deepEqual([...(namespaces ?? [])].sort(), ['default', 'kube-node-lease', 'kube-public', 'kube-system'])
  assert.equal(service?.clusterIP, '10.96.0.1')
  assert.ok(fleet.listings[0] !== undefined && fleet.listings[0].atMs < 5_000, 'at the first tick')
})

test('kube-apiservers with IPv6 addresses list them in Endpoints and in the EndpointSlice', async (t) => {
  const own = (number: number): string => `2001:db8::${number}`
  const masters = [1, 2].map((number) => masterPlan(number, { kind: 'kube-apiserver', addresses: [own(number)] }))
  const fleet = await FleetUnderTest.started(fleetPlan(2, { masters }))
  t.after(() => fleet.target.close())
  for (const object of ['endpoints', 'slice']) {
    const last = fleet.listings.findLast((listing) => listing.object === object)
    assert.deepEqual(last?.addresses, [own(1), own(2)], object)
  }
})

test('a kube-apiserver is cut off from etcd until the last fault that cuts it off ends', async (t) => {
  const fleet = await FleetUnderTest.started(upstream(1))
  t.after(() => fleet.target.close())
  for (const [step, reachesEtcd] of overlappingEtcdCuts('master-1')) {
    await fleet.perform(step)
    assert.equal(fleet.member(1).renewing, reachesEtcd, JSON.stringify(step))
  }
})

test('a kube-apiserver recreates a deleted Service at its next tick, but does not repair a wrong port', async (t) => {
  const fleet = await FleetUnderTest.started(upstream(2))
  t.after(() => fleet.target.close())
  await fleet.perform({ type: 'damage', damage: 'service-deleted' })
  assert.equal(fleet.objects.at(-1)?.service, undefined)
  await fleet.advance(11_000)
  assert.equal(fleet.objects.at(-1)?.service?.clusterIP, '10.96.0.1')
  await fleet.perform({ type: 'damage', damage: 'service-with-a-foreign-port' })
  await fleet.advance(30_000)
  assert.deepEqual(
    fleet.objects.at(-1)?.service?.ports.map(({ port }) => port),
    [1],
  )
})

test('an unready foreign address does not count as listed, although a kube-apiserver copies it to the slice', async (t) => {
  const fleet = await FleetUnderTest.started(upstream(1))
  t.after(() => fleet.target.close())
  const before = fleet.listings.length
  await fleet.perform({ type: 'damage', damage: 'endpoints-with-a-foreign-unready-address' })
  await fleet.advance(11_000)
  assert.ok(fleet.listings.slice(before).some(({ object }) => object === 'slice'))
  for (const listing of fleet.listings.slice(before)) assert.deepEqual(listing.addresses, addresses(1))
})

test('server and sidecar of a kube-apiserver are one process: a kill, freeze or SIGTERM of either affects both', async (t) => {
  const fleet = await FleetUnderTest.started(upstream(2))
  t.after(() => fleet.target.close())
  const master = 'master-1'
  const member = fleet.member(1)
  for (const part of ['server', 'sidecar'] as const) {
    await fleet.perform({ type: 'freeze', master, part })
    assert.deepEqual([member.frozen, member.clientConnections, member.answering], [true, 'black-holed', false])
    await fleet.perform({ type: 'thaw', master, part })
    assert.deepEqual([member.frozen, member.clientConnections], [false, 'served'])
    await fleet.perform({ type: 'kill', master, part })
    assert.deepEqual([member.ended, member.clientConnections], [true, 'refused'])
    await fleet.perform({ type: 'start', master, part: 'server' }, { type: 'start', master, part: 'sidecar' })
    await fleet.advance(16_000)
    assert.equal(member.healthy, true)
    await fleet.perform({ type: 'terminate', master, part })
    await fleet.advance(1_000)
    assert.deepEqual([member.ended, fleet.listed], [true, addresses(2)])
    await fleet.perform({ type: 'start', master, part })
    await fleet.advance(16_000)
    assert.equal(member.lifeCount, part === 'server' ? 3 : 5)
  }
})

test('a kube-apiserver that restarts after an outage has its datastore at once, and one that runs on recovers later', async (t) => {
  const fleet = await FleetUnderTest.started(upstream(2))
  t.after(() => fleet.target.close())
  await fleet.perform({ type: 'datastore', state: 'away' })
  await fleet.advance(60_000)
  await fleet.perform(
    { type: 'datastore', state: 'up' },
    { type: 'kill', master: 'master-1', part: 'server' },
    { type: 'start', master: 'master-1', part: 'server' },
    { type: 'start', master: 'master-2', part: 'server' },
  )
  assert.deepEqual([fleet.member(1).connected, fleet.member(2).connected], [true, false])
})

test('a kube-apiserver whose /readyz fails stays listed', async (t) => {
  const fleet = await FleetUnderTest.started(upstream(2))
  t.after(() => fleet.target.close())
  await fleet.perform({ type: 'readyz', master: 'master-1', answer: 'unready' })
  await fleet.advance(60_000)
  assert.deepEqual(fleet.listed, addresses(1, 2))
  assert.equal(fleet.member(1).healthy, false)
})

test('two masters and a kube-apiserver are all listed, and the kube-apiserver is removed after its death', async (t) => {
  const masters = [masterPlan(1), masterPlan(2), masterPlan(3, { kind: 'kube-apiserver' })]
  const fleet = await FleetUnderTest.started(fleetPlan(3, { masters }))
  t.after(() => fleet.target.close())
  assert.deepEqual(fleet.listed, addresses(1, 2, 3))
  await fleet.perform({ type: 'kill', master: 'master-3', part: 'sidecar' })
  await fleet.advance(16_000)
  assert.deepEqual(fleet.listed, addresses(1, 2))
})

for (const leaseStore of ['kubernetes', 'memory'] as const) {
  test(`a kube-apiserver is refused in a fleet with leases in ${leaseStore}, with a one-line error`, async () => {
    const fleet = new FleetUnderTest({ ...upstream(1), leaseStore })
    await assert.rejects(fleet.join(masterPlan(1, { kind: 'kube-apiserver' })), {
      name: 'DrillError',
      message: 'master-1 is a kube-apiserver, which keeps its lease in etcd: the lease store must be etcd or kine',
    })
    await fleet.target.close()
  })
}

test('delayMs of a kube-apiserver is the delay of its slowed connection, whichever of the two it is', async (t) => {
  for (const path of ['api', 'store'] as const) {
    const fleet = await FleetUnderTest.started(upstream(2))
    t.after(() => fleet.target.close())
    await fleet.perform({ type: 'slow', master: 'master-1', path, byMs: 300 })
    assert.equal(fleet.member(1).delayMs, 300, path)
    assert.equal(fleet.member(2).delayMs, 0)
  }
})
