import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DamageName, damages, type FleetPlan } from '../../../src/drill/scenario/scenario.ts'
import type { Lease } from '../../../src/kube/resources.ts'
import { addresses, FleetUnderTest, fleetPlan, masterPlan } from './fleet-under-test.ts'

const stores = ['etcd', 'kine', 'kubernetes', 'memory'] as const

async function started(t: { after(undo: () => Promise<void>): void }, plan: FleetPlan): Promise<FleetUnderTest> {
  const fleet = await FleetUnderTest.started(plan)
  t.after(() => fleet.target.close())
  return fleet
}

for (const leaseStore of stores) {
  test(`leases in ${leaseStore}: the leased addresses are reported when they change, after deaths and returns of masters`, async (t) => {
    const fleet = await started(t, fleetPlan(3, { leaseStore }))
    assert.deepEqual(fleet.leased, addresses(1, 2, 3))
    assert.deepEqual(fleet.listed, addresses(1, 2, 3))
    await fleet.perform(
      { type: 'kill', master: 'master-2', part: 'server' },
      { type: 'kill', master: 'master-2', part: 'sidecar' },
    )
    await fleet.advance(16_000)
    assert.deepEqual(fleet.leased, addresses(1, 3))
    assert.deepEqual(fleet.listed, addresses(1, 3))
    await fleet.perform(
      { type: 'start', master: 'master-2', part: 'server' },
      { type: 'start', master: 'master-2', part: 'sidecar' },
    )
    await fleet.advance(2_000)
    assert.deepEqual(fleet.leased, addresses(1, 2, 3))
    assert.deepEqual(fleet.listed, addresses(1, 2, 3))
    for (const [index, { addresses: reported }] of fleet.leases.entries()) {
      assert.notDeepEqual(reported, fleet.leases[index - 1]?.addresses, 'equal addresses were reported twice')
    }
  })

  test(`leases in ${leaseStore}: a second after SIGTERM a sidecar has withdrawn and ended`, async (t) => {
    const fleet = await started(t, fleetPlan(3, { leaseStore }))
    await fleet.perform({ type: 'terminate', master: 'master-1', part: 'sidecar' })
    assert.equal(fleet.member(1).ended, false)
    assert.equal(fleet.member(1).stopping, true)
    await fleet.advance(1_000)
    assert.equal(fleet.member(1).ended, true)
    assert.deepEqual(fleet.listed, addresses(2, 3))
    assert.deepEqual(fleet.leased, addresses(2, 3))
  })

  test(`leases in ${leaseStore}: a frozen sidecar sends no requests, and is listed again after a thaw`, async (t) => {
    const fleet = await started(t, fleetPlan(3, { leaseStore }))
    await fleet.perform({ type: 'freeze', master: 'master-3', part: 'sidecar' })
    const fromMs = fleet.nowMs
    await fleet.advance(20_000)
    assert.deepEqual(fleet.listed, addresses(1, 2))
    assert.equal(fleet.requests.filter(({ by, atMs }) => by === 'master-3' && atMs > fromMs).length, 0)
    await fleet.perform({ type: 'thaw', master: 'master-3', part: 'sidecar' })
    await fleet.advance(5_000)
    assert.deepEqual(fleet.listed, addresses(1, 2, 3))
  })

  test(`leases in ${leaseStore}: a datastore outage removes no master, and a path that was cut stays cut after it`, async (t) => {
    const fleet = await started(t, fleetPlan(3, { leaseStore }))
    const fromMs = fleet.nowMs
    await fleet.perform({ type: 'datastore', state: 'away' }, { type: 'cut', master: 'master-2', path: 'api' })
    assert.ok(fleet.target.members.every(({ connected, healthy }) => !connected && !healthy))
    await fleet.advance(40_000)
    assert.deepEqual(
      fleet.listings.filter(({ atMs }) => atMs > fromMs),
      [],
    )
    await fleet.perform({ type: 'datastore', state: 'up' })
    await fleet.advance(40_000)
    assert.deepEqual(fleet.listed, addresses(1, 3))
    assert.deepEqual(
      fleet.target.members.map(({ healthy }) => healthy),
      [true, false, true],
    )
    await fleet.perform({ type: 'heal', master: 'master-2', path: 'api' })
    await fleet.advance(8_000)
    assert.deepEqual(fleet.listed, addresses(1, 2, 3))
  })
}

test('with `none` the drill itself lists every master from the beginning, and a dead one stays listed', async (t) => {
  const fleet = await started(t, fleetPlan(3, { reconciler: 'none' }))
  assert.deepEqual(fleet.listed, addresses(1, 2, 3))
  await fleet.perform({ type: 'kill', master: 'master-1', part: 'sidecar' })
  await fleet.advance(60_000)
  assert.deepEqual(fleet.listed, addresses(1, 2, 3))
  assert.equal(fleet.listings.length, 2)
  assert.deepEqual(fleet.leases, [])
  assert.ok(fleet.target.members.slice(1).every(({ healthy }) => healthy))
})

test('with `master-count` a dead master stays listed, and the list has apiserverCount addresses', async (t) => {
  const fleet = await started(t, fleetPlan(3, { reconciler: 'master-count', apiserverCount: 2 }))
  assert.equal(fleet.listed?.length, 2)
  const full = await started(t, fleetPlan(3, { reconciler: 'master-count' }))
  await full.perform({ type: 'kill', master: 'master-1', part: 'sidecar' })
  await full.advance(60_000)
  assert.deepEqual(full.listed, addresses(1, 2, 3))
})

test('the paths of a partition are healed separately, and a thaw heals none of them', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  const master = 'master-1'
  const member = fleet.member(1)
  await fleet.perform(
    { type: 'cut', master, path: 'api' },
    { type: 'cut', master, path: 'store' },
    { type: 'cut', master, path: 'clients' },
    { type: 'freeze', master, part: 'server' },
  )
  assert.equal(member.clientConnections, 'black-holed')
  await fleet.perform({ type: 'heal', master, path: 'clients' })
  assert.equal(member.clientConnections, 'black-holed', 'it is still frozen')
  await fleet.perform({ type: 'thaw', master, part: 'server' })
  assert.equal(member.clientConnections, 'served')
  assert.equal(member.answering, false, 'its connection to its server is still cut')
  await fleet.perform({ type: 'heal', master, path: 'api' })
  assert.equal(member.answering, true)
  assert.equal(member.renewing, false, 'its connection to etcd is still cut')
  await fleet.perform({ type: 'heal', master, path: 'store' })
  assert.equal(member.renewing, true)
  await fleet.perform({ type: 'cut', master, path: 'server-store' })
  assert.equal(member.connected, false)
  await fleet.perform({ type: 'datastore', state: 'away' }, { type: 'datastore', state: 'up' })
  assert.equal(member.connected, false, 'its server is still disconnected from etcd')
  await fleet.perform({ type: 'heal', master, path: 'server-store' })
  assert.equal(member.connected, true)
})

test('hasBeenReady is true once a sidecar has seen its server ready, and false again after a restart', async (t) => {
  const fleet = await FleetUnderTest.started(fleetPlan(1))
  t.after(() => fleet.target.close())
  assert.equal(fleet.member(1).hasBeenReady, true)
  const master = 'master-1'
  await fleet.perform({ type: 'readyz', master, answer: 'unready' }, { type: 'kill', master, part: 'sidecar' })
  await fleet.perform({ type: 'start', master, part: 'sidecar' })
  await fleet.advance(3_000)
  assert.equal(fleet.member(1).hasBeenReady, false)
  await fleet.perform({ type: 'readyz', master, answer: 'ready' })
  await fleet.advance(3_000)
  assert.equal(fleet.member(1).hasBeenReady, true)
})

test('a killed or terminated server refuses connections, and serves again when it is started', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  for (const type of ['kill', 'terminate'] as const) {
    await fleet.perform({ type, master: 'master-1', part: 'server' })
    assert.equal(fleet.member(1).clientConnections, 'refused')
    await fleet.perform({ type: 'start', master: 'master-1', part: 'server' })
    assert.equal(fleet.member(1).clientConnections, 'served')
  }
})

test('a server that is killed while it is frozen is not frozen when it is started again', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  await fleet.perform(
    { type: 'freeze', master: 'master-1', part: 'server' },
    { type: 'kill', master: 'master-1', part: 'server' },
    { type: 'start', master: 'master-1', part: 'server' },
  )
  assert.equal(fleet.member(1).answering, true)
  assert.equal(fleet.member(1).clientConnections, 'served')
})

test('/readyz gives the answer that was set, or none', async (t) => {
  const fleet = await started(t, fleetPlan(3))
  const member = fleet.member(1)
  const stateAfter = async (answer: 'ready' | 'unready' | 'hangs' | 'etcd-fails') => {
    await fleet.perform({ type: 'readyz', master: 'master-1', answer })
    await fleet.advance(10_000)
    return { ready: member.ready, answering: member.answering, serves: member.serves, listed: fleet.listed?.length }
  }
  assert.deepEqual(await stateAfter('unready'), { ready: false, answering: true, serves: false, listed: 2 })
  assert.deepEqual(await stateAfter('ready'), { ready: true, answering: true, serves: true, listed: 3 })
  assert.deepEqual(await stateAfter('etcd-fails'), { ready: true, answering: true, serves: false, listed: 2 })
  assert.equal(member.etcdFails, true)
  assert.equal((await stateAfter('hangs')).answering, false)
})

test('sidecar processes overlap; terminate-earlier ends the earlier one, and a kill ends both', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  await fleet.perform({ type: 'start', master: 'master-1', part: 'sidecar' })
  await fleet.advance(3_000)
  await fleet.perform({ type: 'terminate-earlier', master: 'master-1' })
  assert.equal(fleet.member(1).stopping, false)
  await fleet.advance(2_000)
  assert.equal(fleet.member(1).running, true)
  assert.deepEqual(fleet.listed, addresses(1, 2))
  await fleet.perform({ type: 'start', master: 'master-1', part: 'sidecar' })
  await fleet.perform({ type: 'kill', master: 'master-1', part: 'sidecar' })
  assert.equal(fleet.member(1).ended, true)
  await fleet.advance(16_000)
  assert.deepEqual(fleet.listed, addresses(2))
})

test('a master renews its lease as long as one of its overlapping processes does', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  const master = 'master-1'
  await fleet.perform({ type: 'own-etcd', master, state: 'hangs' }, { type: 'start', master, part: 'sidecar' })
  assert.deepEqual([fleet.member(1).answering, fleet.member(1).renewing], [false, true])
  await fleet.perform({ type: 'terminate-earlier', master })
  await fleet.advance(6_000)
  assert.deepEqual([fleet.member(1).running, fleet.member(1).renewing], [true, false])
})

test('SIGTERM to a frozen sidecar takes effect when it is thawed', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  await fleet.perform(
    { type: 'freeze', master: 'master-1', part: 'sidecar' },
    { type: 'terminate', master: 'master-1', part: 'sidecar' },
  )
  await fleet.advance(3_000)
  assert.deepEqual([fleet.member(1).stopping, fleet.member(1).ended], [false, false])
  await fleet.perform({ type: 'thaw', master: 'master-1', part: 'sidecar' })
  await fleet.advance(1_000)
  assert.equal(fleet.member(1).ended, true)
  assert.deepEqual(fleet.listed, addresses(2))
})

test('new settings apply from the next start of the sidecar', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  const settings = { leaseTtlMs: 6_000, reconcileIntervalMs: 4_000, addresses: ['192.0.2.77'] }
  await fleet.perform({ type: 'configure', master: 'master-1', settings })
  assert.deepEqual([fleet.member(1).address, fleet.member(1).leaseTtlMs], ['192.0.2.1', 15_000])
  await fleet.perform({ type: 'terminate', master: 'master-1', part: 'sidecar' })
  await fleet.advance(1_000)
  await fleet.perform({ type: 'start', master: 'master-1', part: 'sidecar' })
  await fleet.advance(2_000)
  assert.deepEqual([fleet.member(1).address, fleet.member(1).leaseTtlMs], ['192.0.2.77', 6_000])
  assert.deepEqual(fleet.listed, ['192.0.2.2', '192.0.2.77'])
})

test('masters with two addresses write a Service and an EndpointSlice of the second family', async (t) => {
  const both = [1, 2].map((number) => masterPlan(number, { addresses: [`192.0.2.${number}`, `2001:db8::${number}`] }))
  const fleet = await started(t, fleetPlan(2, { masters: both }))
  assert.deepEqual(fleet.listed, addresses(1, 2))
  const slices = (method: string) =>
    fleet.requests.filter(({ request }) => request.method === method && request.path.includes('/endpointslices'))
  assert.ok(slices('POST').some(({ request }) => JSON.stringify(request.body).includes('2001:db8::2')))
  const toService = fleet.requests.filter(({ request }) => request.path.endsWith('/services/kubernetes'))
  assert.ok(toService.some(({ request }) => JSON.stringify(request.body ?? {}).includes('fd00:10:96::1')))
})

test('a full etcd, a compaction and a connection reset remove no master', async (t) => {
  const fleet = await started(t, fleetPlan(3))
  const fromMs = fleet.nowMs
  await fleet.perform({ type: 'datastore', state: 'full' })
  assert.ok(fleet.target.members.every(({ storeFull, connected, renewing }) => storeFull && !connected && !renewing))
  await fleet.advance(30_000)
  await fleet.perform({ type: 'datastore', state: 'up' }, { type: 'compact' })
  const resets = fleet.member(1).connectionResets
  await fleet.perform({ type: 'reset-connections', master: 'master-1' })
  assert.ok(fleet.member(1).connectionResets > resets)
  await fleet.advance(30_000)
  assert.deepEqual(
    fleet.listings.filter(({ atMs }) => atMs > fromMs),
    [],
  )
})

test('delayMs is the delay of the slowest path, and neither slowness nor clock skew changes the list', async (t) => {
  const fleet = await started(t, fleetPlan(3))
  const fromMs = fleet.nowMs
  await fleet.perform(
    { type: 'slow', master: 'master-1', path: 'api', byMs: 300 },
    { type: 'slow', master: 'master-1', path: 'store', byMs: 700 },
    { type: 'clock-skew', master: 'master-2', byMs: -3_600_000 },
  )
  assert.equal(fleet.member(1).delayMs, 700)
  await fleet.advance(60_000)
  assert.deepEqual(
    fleet.listings.filter(({ atMs }) => atMs > fromMs),
    [],
  )
})

test('after a clock skew a master writes the times of its own clock', async (t) => {
  const fleet = await started(t, fleetPlan(2, { leaseStore: 'kubernetes' }))
  const renewed = (master: string): number => {
    const sent = fleet.requests.findLast(
      ({ by, request }) => by === master && request.method === 'PUT' && request.path.includes('/leases/'),
    )
    return Date.parse((sent?.request.body as Lease | undefined)?.spec?.renewTime ?? '')
  }
  await fleet.advance(20_000)
  const aheadMs = (): number => renewed('master-2') - renewed('master-1')
  assert.ok(Math.abs(aheadMs()) < 10_000, `${aheadMs()}`)
  await fleet.perform({ type: 'clock-skew', master: 'master-2', byMs: -3_600_000 })
  await fleet.advance(20_000)
  assert.ok(Math.abs(aheadMs() + 3_600_000) < 10_000, `${aheadMs()}`)
})

test('a list that damage wrote is marked as such and repaired; during a datastore outage damage has no effect', async (t) => {
  const fleet = await started(t, fleetPlan(2))
  await fleet.perform({ type: 'damage', damage: 'slice-emptied' })
  await fleet.advance(1_000)
  assert.deepEqual(
    fleet.listings.slice(-2).map(({ byDamage }) => byDamage),
    [true, false],
  )
  assert.deepEqual(fleet.listed, addresses(1, 2))
  await fleet.perform({ type: 'datastore', state: 'away' }, { type: 'damage', damage: 'endpoints-deleted' })
  await fleet.advance(1_000)
  assert.equal(fleet.listings.filter(({ byDamage }) => byDamage).length, 1)
})

for (const before of [
  'endpoints-deleted',
  'endpoints-emptied',
  'slice-deleted',
  'slice-emptied',
  'service-deleted',
] as const) {
  test(`every damage is accepted after ${before}`, async (t) => {
    const fleet = await started(t, fleetPlan(1))
    await fleet.perform({ type: 'kill', master: 'master-1', part: 'sidecar' })
    for (const damage of (Object.keys(damages) as DamageName[]).toReversed()) {
      await fleet.perform({ type: 'damage', damage: before }, { type: 'damage', damage })
    }
  })
}

test('a retired master is removed and cannot be started again', async (t) => {
  const fleet = await started(t, fleetPlan(3))
  await fleet.perform({ type: 'retire', master: 'master-1' }, { type: 'start', master: 'master-1', part: 'sidecar' })
  assert.ok(fleet.target.retired.has('master-1'))
  assert.deepEqual([fleet.member(1).ended, fleet.member(1).clientConnections], [true, 'refused'])
  await fleet.advance(16_000)
  assert.deepEqual(fleet.listed, addresses(2, 3))
})

test('an unknown master and a second one of the same name are refused with an error that names them', async (t) => {
  const fleet = await started(t, fleetPlan(1))
  await assert.rejects(fleet.perform({ type: 'retire', master: 'master-9' }), {
    name: 'DrillError',
    message: 'there is no master master-9',
  })
  await assert.rejects(fleet.join(masterPlan(1)), { message: 'the master master-1 already exists' })
})

test('nothing runs after close, even if the target is closed while its time advances', async () => {
  const fleet = await FleetUnderTest.started(fleetPlan(3))
  const asked = fleet.requests.length
  const endless = fleet.advance(60_000)
  endless.catch(() => {})
  await fleet.target.close()
  await assert.rejects(endless, /closed while it was being drilled/)
  await fleet.target.close()
  const { simulatorEvents } = fleet.target
  assert.ok(fleet.requests.length - asked < 5)
  assert.ok(simulatorEvents > 0)
  await fleet.perform({ type: 'start', master: 'master-1', part: 'sidecar' })
  assert.equal(fleet.member(1).lifeCount, 1)
  assert.equal(fleet.target.simulatorEvents, simulatorEvents)
})
