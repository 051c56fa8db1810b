import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fleet, type FleetOptions } from '../../src/drill/simulator/fleet.ts'
import { SimulatedKubeApiserver } from '../../src/drill/simulator/kube-apiserver.ts'
import type { Host, SimulatedMaster } from '../../src/drill/simulator/master.ts'
import { endpoints } from '../../src/kube/resources.ts'

// What must have the same result in every lease store.

const stores = { kubernetes: undefined, etcd: 'etcd', kine: 'kine' } as const

interface TestEnd {
  after(undo: () => Promise<void>): void
}

async function startedFleet(t: TestEnd, options: Omit<FleetOptions, 'seed'>): Promise<Fleet> {
  const fleet = new Fleet({ seed: 1, ...options })
  t.after(() => fleet.close())
  for (const master of fleet.masters) master.start()
  await fleet.advance(5_000)
  assert.deepEqual(fleet.listed('slice'), [...new Set(fleet.masters.map(({ address }) => address))].sort())
  return fleet
}

function host(name: string, address: string): Host {
  return { name, addresses: [address] }
}

function master(fleet: Fleet, name: string): SimulatedMaster {
  const found = fleet.masters.find((one) => one.name === name)
  assert.ok(found)
  return found
}

function since(fleet: Fleet, atMs: number): (readonly string[] | undefined)[] {
  return fleet.listings.filter((listing) => listing.atMs > atMs).map(({ addresses }) => addresses)
}

async function restart(fleet: Fleet, one: SimulatedMaster): Promise<void> {
  one.terminate()
  await fleet.advance(3_000)
  assert.equal(one.life?.ended, true)
  one.start()
  await fleet.advance(3_000)
}

for (const [store, etcd] of Object.entries(stores)) {
  test(`leases in ${store}: a killed master is removed when its lease ends, and no other is`, async (t) => {
    const fleet = await startedFleet(t, { masters: 3, etcd })
    await fleet.advance(5_500)
    const killedMs = fleet.time.nowMs
    master(fleet, 'master-2').kill()
    await fleet.advance(14_400)
    assert.deepEqual(since(fleet, killedMs), [])
    // The removal margin after the lease's end, and the longest delay of the store.
    await fleet.advance(900)
    assert.deepEqual(since(fleet, killedMs), Array(2).fill(['192.0.2.1', '192.0.2.3']))
  })

  test(`leases in ${store}: a terminated master is removed within a second, by one write to each object`, async (t) => {
    const fleet = await startedFleet(t, { masters: 3, etcd })
    const stoppedMs = fleet.time.nowMs
    master(fleet, 'master-1').terminate()
    await fleet.advance(1_000)
    assert.deepEqual(since(fleet, stoppedMs), Array(2).fill(['192.0.2.2', '192.0.2.3']))
  })

  test(`leases in ${store}: rolling restarts of two masters behind one address do not change the list`, async (t) => {
    const masters = [host('a', '192.0.2.1'), host('b', '192.0.2.1')]
    const fleet = await startedFleet(t, { masters, etcd })
    const startedMs = fleet.time.nowMs
    for (const name of ['a', 'b', 'a', 'b']) await restart(fleet, master(fleet, name))
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, startedMs), [])
  })

  test(`leases in ${store}: an address shared by two masters stays listed when one dies, and is removed after both have died`, async (t) => {
    const masters = [host('a', '192.0.2.1'), host('b', '192.0.2.1'), host('c', '192.0.2.3')]
    const fleet = await startedFleet(t, { masters, etcd })
    const killedMs = fleet.time.nowMs
    master(fleet, 'a').kill()
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, killedMs), [])
    master(fleet, 'b').kill()
    await fleet.advance(17_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.3'])
  })

  test(`leases in ${store}: an address stays listed when a new host takes it before the lease of its dead host ends`, async (t) => {
    const fleet = await startedFleet(t, { masters: [host('a', '192.0.2.1'), host('old', '192.0.2.2')], etcd })
    await fleet.advance(5_500)
    const diedMs = fleet.time.nowMs
    master(fleet, 'old').kill()
    await fleet.advance(5_000)
    fleet.add(host('new', '192.0.2.2')).start()
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, diedMs), [])
  })

  test(`leases in ${store}: an address is listed again when a new host takes it after the lease of its dead host has ended`, async (t) => {
    const fleet = await startedFleet(t, { masters: [host('a', '192.0.2.1'), host('old', '192.0.2.2')], etcd })
    master(fleet, 'old').kill()
    await fleet.advance(30_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1'])
    const reusedMs = fleet.time.nowMs
    fleet.add(host('new', '192.0.2.2')).start()
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, reusedMs), Array(2).fill(['192.0.2.1', '192.0.2.2']))
  })

  test(`leases in ${store}: an unready master is removed after three seconds, and listed again within five of its recovery`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, etcd })
    const turnedMs = fleet.time.nowMs
    const { server } = master(fleet, 'master-1')
    server.ready = false
    await fleet.advance(2_900)
    assert.deepEqual(since(fleet, turnedMs), [])
    await fleet.advance(1_300)
    assert.deepEqual(since(fleet, turnedMs), Array(2).fill(['192.0.2.2']))
    const recoveredMs = fleet.time.nowMs
    server.ready = true
    await fleet.advance(5_000)
    assert.deepEqual(since(fleet, recoveredMs), Array(2).fill(['192.0.2.1', '192.0.2.2']))
  })

  test(`leases in ${store}: a master whose server returns unready from an outage is not listed, even briefly`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, etcd })
    const { server, etcd: route } = master(fleet, 'master-2')
    server.kill()
    if (route !== undefined) route.refused = true
    await fleet.advance(30_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1'])
    const backMs = fleet.time.nowMs
    server.ready = false
    server.start()
    route?.heal()
    await fleet.advance(20_000)
    assert.deepEqual(since(fleet, backMs), [])
  })

  test(`leases in ${store}: no master is removed when all turn unready within a second`, async (t) => {
    const fleet = await startedFleet(t, { masters: 3, etcd })
    const turnedMs = fleet.time.nowMs
    for (const { server } of fleet.masters) {
      server.ready = false
      await fleet.advance(300)
    }
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, turnedMs), [])
  })

  test(`leases in ${store}: a sidecar restart while no master is ready does not change the list`, async (t) => {
    const fleet = await startedFleet(t, { masters: 3, etcd })
    const turnedMs = fleet.time.nowMs
    for (const { server } of fleet.masters) server.ready = false
    await fleet.advance(20_000)
    master(fleet, 'master-2').kill()
    master(fleet, 'master-2').start()
    await fleet.advance(8_000)
    assert.deepEqual(since(fleet, turnedMs), [])
  })

  test(`leases in ${store}: failing etcd checks of all servers remove no master, not even one whose sidecar restarts`, async (t) => {
    const fleet = await startedFleet(t, { masters: 3, etcd })
    const turnedMs = fleet.time.nowMs
    for (const { server } of fleet.masters) server.etcdCheck = false
    await fleet.advance(60_000)
    master(fleet, 'master-2').kill()
    master(fleet, 'master-2').start()
    await fleet.advance(4_000)
    for (const { server } of fleet.masters) server.etcdCheck = true
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, turnedMs), [])
  })

  test(`leases in ${store}: a master whose own etcd fails is removed, and listed again when etcd recovers`, async (t) => {
    const fleet = await startedFleet(t, { masters: 3, etcd })
    const { server } = master(fleet, 'master-2')
    server.etcdCheck = false
    await fleet.advance(5_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1', '192.0.2.3'])
    server.etcdCheck = true
    await fleet.advance(4_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
  })

  test(`leases in ${store}: a restart of a master with its clock set back an hour does not change the list`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, etcd })
    const startedMs = fleet.time.nowMs
    const one = master(fleet, 'master-2')
    one.setWallClock(-3_600_000)
    one.kill()
    one.start()
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, startedMs), [])
  })

  test(`leases in ${store}: a master whose server hangs before a renewal is due is removed within 16 s`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, etcd, master: { readinessGate: 'startup' } })
    await fleet.advance(2_000)
    master(fleet, 'master-2').server.silent = true
    await fleet.advance(16_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1'])
  })
}

for (const etcd of ['etcd', 'kine'] as const) {
  test(`masters and kube-apiservers on one ${etcd} list each other, and write nothing for five minutes`, async (t) => {
    const fleet = new Fleet({ seed: 1, masters: 3, etcd })
    t.after(() => fleet.close())
    const stock = ['198.51.100.1', '198.51.100.2'].map(
      (address, index) =>
        new SimulatedKubeApiserver(fleet.surroundings, { name: `kube-apiserver-${index + 1}`, address }),
    )
    t.after(async () => {
      for (const one of stock) one.terminate()
    })
    for (const one of [...fleet.masters, ...stock]) one.start()
    await fleet.advance(20_000)
    const all = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '198.51.100.1', '198.51.100.2']
    assert.deepEqual(fleet.listed('endpoints'), all)
    assert.deepEqual(fleet.listed('slice'), all)
    const startedMs = fleet.time.nowMs
    await fleet.advance(300_000)
    assert.deepEqual(since(fleet, startedMs), [])
    const written = fleet.requests.filter(({ atMs, request }) => atMs > startedMs && request.method !== 'GET')
    assert.deepEqual(written, [])
  })

  test(`five masters stay listed during a minute without ${etcd}`, async (t) => {
    const fleet = await startedFleet(t, { masters: 5, etcd })
    const lostMs = fleet.time.nowMs
    fleet.etcd?.stop()
    for (const { server } of fleet.masters) server.store.own = 'fails'
    await fleet.advance(60_000)
    fleet.etcd?.start()
    for (const { server } of fleet.masters) server.store.own = 'ok'
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, lostMs), [])
  })

  test(`a master whose server hangs while ${etcd} is unreachable gets no other lease, and is not listed afterwards`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, etcd, master: { readinessGate: 'startup' } })
    const { server, etcd: route } = master(fleet, 'master-2')
    assert.ok(route)
    await fleet.advance(4_000)
    route.refused = true
    await fleet.advance(2_000)
    server.silent = true
    await fleet.advance(10_000)
    const leased: (readonly string[])[] = []
    fleet.observe({ listed() {}, requested() {}, objects() {}, leases: (addresses) => leased.push(addresses) })
    await fleet.advance(100)
    assert.deepEqual(leased, [['192.0.2.1']])
    route.heal()
    await fleet.advance(1_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1'])
    await fleet.advance(20_000)
    assert.deepEqual([leased, fleet.listed('slice')], [[['192.0.2.1']], ['192.0.2.1']])
  })

  test(`a master that reaches ${etcd} only after its server has died is not listed until the server returns`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, etcd })
    const restarted = master(fleet, 'master-2')
    assert.ok(restarted.etcd)
    restarted.kill()
    restarted.etcd.refused = true
    restarted.start()
    await fleet.advance(20_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1'])
    const backMs = fleet.time.nowMs
    restarted.server.kill()
    await fleet.advance(5_000)
    restarted.etcd.heal()
    await fleet.advance(30_000)
    assert.deepEqual(since(fleet, backMs), [])
    restarted.server.start()
    await fleet.advance(4_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1', '192.0.2.2'])
  })

  test(`a master whose API server answers only /readyz stays listed with its lease in ${etcd}`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, etcd })
    // A renewal is due shortly after this.
    await fleet.advance(4_500)
    const damagedMs = fleet.time.nowMs
    master(fleet, 'master-2').server.hanging = true
    await fleet.damage(() => fleet.api.delete(endpoints, { namespace: 'default', name: 'kubernetes' }))
    await fleet.advance(60_000)
    const listed = since(fleet, damagedMs)
    assert.ok(listed.length > 0)
    for (const addresses of listed) assert.deepEqual(addresses, ['192.0.2.1', '192.0.2.2'])
  })

  test(`a shared address stays listed while ${etcd} is full and one of its two masters is unready`, async (t) => {
    const masters = [host('a', '192.0.2.1'), host('b', '192.0.2.1'), host('c', '192.0.2.3')]
    const fleet = await startedFleet(t, { masters, etcd })
    master(fleet, 'a').server.ready = false
    await fleet.advance(10_000)
    const lostMs = fleet.time.nowMs
    assert.ok(fleet.etcd)
    fleet.etcd.full = true
    await fleet.advance(30_000)
    fleet.etcd.full = false
    await fleet.advance(30_000)
    assert.deepEqual(since(fleet, lostMs), [])
  })

  test(`five masters stay listed during a minute in which ${etcd} is full`, async (t) => {
    const fleet = await startedFleet(t, { masters: 5, etcd })
    const lostMs = fleet.time.nowMs
    assert.ok(fleet.etcd)
    fleet.etcd.full = true
    await fleet.advance(60_000)
    fleet.etcd.full = false
    await fleet.advance(60_000)
    assert.deepEqual(since(fleet, lostMs), [])
  })
}
