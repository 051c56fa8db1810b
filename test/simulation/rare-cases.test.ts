import assert from 'node:assert/strict'
import { test } from 'node:test'
import { damages } from '../../src/drill/scenario/scenario.ts'
import { Fleet, type FleetOptions } from '../../src/drill/simulator/fleet.ts'
import type { Host, SimulatedMaster } from '../../src/drill/simulator/master.ts'
import { inUnitOrFloor } from '../support/tier.ts'

// Two events at nearly the same moment. Each test tries several moments around it, each with its own fleet.

const stores = { kubernetes: undefined, etcd: 'etcd', kine: 'kine' } as const

const ttlMs = 15_000
/** The time between two of the moments. */
const STEP_MS = inUnitOrFloor(2_000, 500)
const all = ['192.0.2.1', '192.0.2.2', '192.0.2.3']

async function startedFleet(options: Omit<FleetOptions, 'seed'>): Promise<Fleet> {
  const fleet = new Fleet({ seed: 1, ...options })
  for (const master of fleet.masters) master.start()
  await fleet.advance(6_000)
  assert.deepEqual(fleet.listed('slice'), [...new Set(fleet.masters.map(({ address }) => address))].sort())
  return fleet
}

function at(fleet: Fleet, index: number): SimulatedMaster {
  const master = fleet.masters[index]
  assert.ok(master)
  return master
}

function since(fleet: Fleet, atMs: number): (readonly string[] | undefined)[] {
  return fleet.listings.filter((listing) => listing.atMs > atMs).map(({ addresses }) => addresses)
}

function moments(fromMs: number, toMs: number): readonly number[] {
  return Array.from({ length: Math.floor((toMs - fromMs) / STEP_MS) + 1 }, (_, index) => fromMs + index * STEP_MS)
}

for (const [store, etcd] of Object.entries(stores)) {
  test(`leases in ${store}: a master restarted near the end of its old lease, with its clock set back an hour, is listed`, async () => {
    for (const afterMs of moments(ttlMs - 7_000, ttlMs + 3_000)) {
      const fleet = await startedFleet({ masters: 3, etcd })
      const master = at(fleet, 1)
      master.kill()
      await fleet.advance(afterMs)
      master.setWallClock(-3_600_000)
      master.start()
      await fleet.advance(4_000)
      assert.deepEqual(fleet.listed('slice'), all, `${afterMs}`)
      const backMs = fleet.time.nowMs
      await fleet.advance(40_000)
      assert.deepEqual(since(fleet, backMs), [], `${afterMs}`)
      fleet.abandon()
    }
  })

  test(`leases in ${store}: when all sidecars stop while one server hangs, an address whose server answers stays listed`, async () => {
    for (const hangsMs of moments(-4_000, 4_000)) {
      const fleet = await startedFleet({ masters: 3, etcd })
      const events = [
        { atMs: 4_000, happen: () => void fleet.masters.map((master) => master.terminate()) },
        {
          atMs: 4_000 + hangsMs,
          happen: () => {
            at(fleet, 2).server.silent = true
          },
        },
      ].sort((a, b) => a.atMs - b.atMs)
      for (const [index, { atMs, happen }] of events.entries()) {
        await fleet.advance(atMs - (events[index - 1]?.atMs ?? 0))
        happen()
      }
      await fleet.advance(60_000)
      for (const addresses of since(fleet, 6_000)) {
        assert.ok(
          addresses?.some((address) => address !== '192.0.2.3'),
          `${hangsMs}: ${addresses}`,
        )
      }
      fleet.abandon()
    }
  })

  for (const fault of etcd === undefined ? (['is away'] as const) : (['is away', 'is full'] as const)) {
    test(`leases in ${store}: no master is removed when the store ${fault} for about as long as leases last`, async () => {
      for (const lengthMs of moments(4_000, ttlMs + 4_000)) {
        const fleet = await startedFleet({ masters: 3, etcd })
        const lostMs = fleet.time.nowMs
        for (const isFaulty of [true, false]) {
          if (fleet.etcd !== undefined && fault === 'is full') fleet.etcd.full = isFaulty
          else if (isFaulty) fleet.etcd?.stop()
          else fleet.etcd?.start()
          if (fault === 'is away') for (const { server } of fleet.masters) server.store.own = isFaulty ? 'fails' : 'ok'
          if (isFaulty) await fleet.advance(lengthMs)
        }
        await fleet.advance(40_000)
        assert.deepEqual(since(fleet, lostMs), [], `${lengthMs}`)
        fleet.abandon()
      }
    })
  }

  test(`leases in ${store}: an address shared by two masters with different TTLs stays listed when either dies`, async () => {
    const host = (name: string, address: string, leaseTtlMs = ttlMs): Host => ({
      name,
      addresses: [address],
      options: { leaseTtlMs, reconcileIntervalMs: Math.floor(leaseTtlMs / 3) },
    })
    for (const atMs of moments(0, 6_000)) {
      for (const dying of [0, 1]) {
        const masters = [host('a', '192.0.2.1', 3_000), host('b', '192.0.2.1'), host('c', '192.0.2.2')]
        const fleet = await startedFleet({ masters, etcd })
        await fleet.advance(atMs)
        const killedMs = fleet.time.nowMs
        at(fleet, dying).kill()
        await fleet.advance(40_000)
        assert.deepEqual(since(fleet, killedMs), [], `${dying} at ${atMs}`)
        fleet.abandon()
      }
    }
  })

  test(`leases in ${store}: a master that turns ready while each request takes a second is listed within six seconds`, async () => {
    const fleet = new Fleet({ seed: 1, masters: 3, etcd })
    const slow = at(fleet, 2)
    for (const master of fleet.masters) if (master !== slow) master.start()
    await fleet.advance(6_000)
    slow.server.ready = false
    slow.server.slowMs = 500
    if (slow.etcd !== undefined) slow.etcd.slowMs = 500
    slow.start()
    await fleet.advance(10_000)
    slow.server.ready = true
    await fleet.advance(6_000)
    assert.deepEqual(fleet.listed('slice'), all)
    fleet.abandon()
  })

  test(`leases in ${store}: two overlapping processes of a master do not change the list, whenever the overlap begins`, async () => {
    for (const atMs of moments(0, 10_000)) {
      const fleet = await startedFleet({ masters: 2, etcd })
      await fleet.advance(atMs)
      const begunMs = fleet.time.nowMs
      const master = at(fleet, 1)
      if (master.etcd !== undefined) master.etcd.slowMs = 150
      master.start()
      await fleet.advance(12_000)
      master.terminateEarlier()
      await fleet.advance(40_000)
      assert.deepEqual(since(fleet, begunMs), [], `${atMs}`)
      fleet.abandon()
    }
  })
}

for (const etcd of ['etcd', 'kine'] as const) {
  for (const servers of ['that serve', 'whose etcd fails too'] as const) {
    test(`leases in ${etcd}: no master is removed by a cut of 20 s and a sidecar restart, with servers ${servers}`, async () => {
      const fleet = await startedFleet({ masters: 3, etcd })
      const lostMs = fleet.time.nowMs
      for (const { server, etcd: route } of fleet.masters) {
        server.etcdCheck = servers === 'that serve'
        if (route !== undefined) route.cut = true
      }
      await fleet.advance(10_000)
      at(fleet, 1).kill()
      at(fleet, 1).start()
      await fleet.advance(10_000)
      for (const { etcd: route } of fleet.masters) route?.heal()
      for (const index of [1, 0, 2]) {
        await fleet.advance(2_000)
        at(fleet, index).server.etcdCheck = true
      }
      await fleet.advance(40_000)
      assert.deepEqual(since(fleet, lostMs), [])
      fleet.abandon()
    })
  }
}

for (const [store, etcd] of Object.entries({ kubernetes: undefined, etcd: 'etcd' } as const)) {
  const outage = async (fleet: Fleet): Promise<void> => {
    for (const isAway of [true, false]) {
      for (const { server, etcd: route } of fleet.masters) {
        if (route === undefined) server.store.own = isAway ? 'fails' : 'ok'
        else route.refused = isAway
      }
      await fleet.advance(isAway ? 20_000 : 40_000)
    }
  }

  test(`leases in ${store}: a master that dies after a store outage, while no master is ready, is removed`, async () => {
    const fleet = await startedFleet({ masters: 3, etcd })
    for (const { server } of fleet.masters) server.ready = false
    await fleet.advance(10_000)
    await outage(fleet)
    assert.deepEqual(fleet.listed('slice'), all)
    at(fleet, 1).kill()
    at(fleet, 1).server.kill()
    await fleet.advance(40_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.1', '192.0.2.3'])
    fleet.abandon()
  })

  test(`leases in ${store}: after a store outage an unready master is listed alone when the only ready one dies`, async () => {
    const fleet = await startedFleet({ masters: 2, etcd })
    at(fleet, 1).server.ready = false
    await fleet.advance(10_000)
    await outage(fleet)
    at(fleet, 0).kill()
    at(fleet, 0).server.kill()
    await fleet.advance(40_000)
    assert.deepEqual(fleet.listed('slice'), ['192.0.2.2'])
    fleet.abandon()
  })
}

test('no master is removed when all servers hang longer than leases last, a sidecar restarts, and they recover in turn', async () => {
  for (const etcd of ['etcd', 'kine'] as const) {
    const fleet = await startedFleet({ masters: 3, etcd })
    const frozenMs = fleet.time.nowMs
    for (const { server } of fleet.masters) server.silent = true
    await fleet.advance(16_000)
    at(fleet, 1).kill()
    at(fleet, 1).start()
    await fleet.advance(4_000)
    for (const index of [1, 0, 2]) {
      at(fleet, index).server.silent = false
      await fleet.advance(2_000)
    }
    await fleet.advance(40_000)
    assert.deepEqual(since(fleet, frozenMs), [], etcd)
    fleet.abandon()
  }
})

test('addresses of dead masters that a restarted master finds after a total failure are gone after the recovery time', async () => {
  const master = { leaseTtlMs: 60_000, reconcileIntervalMs: 40_000 }
  const fleet = await startedFleet({ masters: 3, etcd: 'etcd', master })
  for (const one of fleet.masters) {
    one.kill()
    one.server.kill()
  }
  await fleet.advance(65_000)
  assert.ok(fleet.etcd)
  fleet.etcd.full = true
  at(fleet, 1).server.start()
  at(fleet, 1).start()
  await fleet.advance(5_000)
  fleet.etcd.full = false
  await fleet.advance(62_000)
  assert.deepEqual(fleet.listed('slice'), ['192.0.2.2'])
  fleet.abandon()
})

for (const [store, etcd] of Object.entries(stores)) {
  test(`leases in ${store}: a sidecar restart while all servers report not ready does not change the list`, async () => {
    for (const fails of ['readyz', 'etcd check'] as const) {
      const fleet = await startedFleet({ masters: 3, etcd })
      await fleet.advance(15_000)
      const failsMs = fleet.time.nowMs
      for (const { server } of fleet.masters) {
        if (fails === 'readyz') server.ready = false
        else server.etcdCheck = false
      }
      await fleet.advance(5_000)
      at(fleet, 1).kill()
      at(fleet, 1).start()
      await fleet.advance(30_000)
      for (const { server } of fleet.masters) server.ready = server.etcdCheck = true
      await fleet.advance(30_000)
      assert.deepEqual(since(fleet, failsMs), [], fails)
      fleet.abandon()
    }
  })

  test(`leases in ${store}: masters never list a foreign address that was added to Endpoints during an outage`, async () => {
    const fleet = await startedFleet({ masters: 3, etcd })
    await fleet.advance(15_000)
    for (const { server } of fleet.masters) server.cut = true
    await damages['endpoints-with-a-foreign-address'](fleet.api)
    const spoiltMs = fleet.time.nowMs
    at(fleet, 1).kill()
    at(fleet, 1).start()
    await fleet.advance(30_000)
    for (const index of [1, 0, 2]) {
      at(fleet, index).server.cut = false
      await fleet.advance(2_000)
    }
    await fleet.advance(30_000)
    assert.deepEqual([fleet.listed('slice'), fleet.listed('endpoints')], [all, all])
    assert.ok(since(fleet, spoiltMs).every((addresses) => !addresses?.includes('203.0.113.7')))
    fleet.abandon()
  })
}
