import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fleet, type FleetOptions } from '../../src/drill/simulator/fleet.ts'
import type { SimulatedMaster } from '../../src/drill/simulator/master.ts'
import { parseCidr } from '../../src/net/cidr.ts'

const addresses = (...numbers: number[]): string[] => numbers.map((number) => `192.0.2.${number}`)

async function startedFleet(
  t: { after(undo: () => Promise<void>): void },
  options: Omit<FleetOptions, 'seed'>,
): Promise<Fleet> {
  const fleet = new Fleet({ seed: 1, ...options })
  t.after(() => fleet.close())
  for (const master of fleet.masters) master.start()
  await fleet.advance(5_000)
  assert.deepEqual(fleet.listed('slice'), addresses(...fleet.masters.map((_, index) => index + 1)))
  return fleet
}

function master(fleet: Fleet, number: number): SimulatedMaster {
  return fleet.masters[number - 1] as SimulatedMaster
}

function since(fleet: Fleet, atMs: number): (readonly string[] | undefined)[] {
  return fleet.listings.filter((listing) => listing.atMs > atMs).map((listing) => listing.addresses)
}

test('a killed master is removed when its lease ends, before the next reconcile', async (t) => {
  const fleet = await startedFleet(t, { masters: 2 })
  // The master renewed at 10 s and was killed half a second later: its lease ends at 25 s.
  await fleet.advance(5_500)
  master(fleet, 2).kill()
  await fleet.advance(14_400)
  assert.deepEqual(fleet.listed('slice'), addresses(1, 2))
  // The removal margin after that end has passed.
  await fleet.advance(700)
  assert.deepEqual(fleet.listed('slice'), addresses(1))
  assert.deepEqual(fleet.listed('endpoints'), addresses(1))
})

for (const readinessGate of ['startup', 'continuous'] as const) {
  test(`a master whose API server has died is removed by the end of its lease, with the ${readinessGate} gate`, async (t) => {
    const fleet = await startedFleet(t, { masters: 3, master: { readinessGate } })
    await fleet.advance(5_500)
    master(fleet, 2).server.kill()
    await fleet.advance(14_400)
    assert.deepEqual(fleet.listed('slice'), addresses(1, 2, 3))
    await fleet.advance(800)
    assert.deepEqual(fleet.listed('slice'), addresses(1, 3))
    master(fleet, 2).server.start()
    await fleet.advance(5_000)
    assert.deepEqual(fleet.listed('slice'), addresses(1, 2, 3))
  })
}

test('an unready master is removed after three seconds, and listed again within 3.5 s of its recovery', async (t) => {
  const fleet = await startedFleet(t, { masters: 2 })
  master(fleet, 1).server.ready = false
  await fleet.advance(2_900)
  assert.deepEqual(fleet.listed('slice'), addresses(1, 2))
  await fleet.advance(1_300)
  assert.deepEqual(fleet.listed('slice'), addresses(2))
  master(fleet, 1).server.ready = true
  await fleet.advance(3_500)
  assert.deepEqual(fleet.listed('slice'), addresses(1, 2))
})

test('a master terminated while its server hangs is removed before its lease ends, with an interval of one second', async (t) => {
  const fleet = await startedFleet(t, { masters: 2, master: { leaseTtlMs: 15_000, reconcileIntervalMs: 1_000 } })
  master(fleet, 2).server.silent = true
  master(fleet, 2).terminate()
  await fleet.advance(3_500)
  assert.deepEqual(fleet.listed('slice'), addresses(1))
})

test('no master is removed, even briefly, when all turn unready within a second', async (t) => {
  const fleet = await startedFleet(t, { masters: 3 })
  const turnedMs = fleet.time.nowMs
  for (const one of fleet.masters) {
    one.server.ready = false
    await fleet.advance(300)
  }
  await fleet.advance(60_000)
  assert.deepEqual(since(fleet, turnedMs), [])
})

test('when the last ready master turns unready, the masters that were removed as unready are listed again', async (t) => {
  const fleet = await startedFleet(t, { masters: 3 })
  for (const number of [1, 2]) {
    master(fleet, number).server.ready = false
    await fleet.advance(10_000)
  }
  assert.deepEqual(fleet.listed('slice'), addresses(3))
  master(fleet, 3).server.ready = false
  await fleet.advance(10_000)
  assert.deepEqual(fleet.listed('slice'), addresses(1, 2, 3))
})

test('no master is removed when all servers are down for 20 s and then unready for 8 s', async (t) => {
  const fleet = await startedFleet(t, { masters: 5 })
  const lostMs = fleet.time.nowMs
  for (const one of fleet.masters) one.server.kill()
  await fleet.advance(20_000)
  for (const one of fleet.masters) {
    one.server.start()
    one.server.ready = false
  }
  await fleet.advance(8_000)
  for (const one of fleet.masters) one.server.ready = true
  await fleet.advance(30_000)
  assert.deepEqual(since(fleet, lostMs), [])
})

test('a master that was removed while its server was down is listed again only once the server is ready', async (t) => {
  const fleet = await startedFleet(t, { masters: 2 })
  master(fleet, 2).server.kill()
  await fleet.advance(30_000)
  assert.deepEqual(fleet.listed('slice'), addresses(1))
  master(fleet, 2).server.ready = false
  master(fleet, 2).server.start()
  await fleet.advance(10_000)
  assert.deepEqual(fleet.listed('slice'), addresses(1))
  master(fleet, 2).server.ready = true
  await fleet.advance(4_000)
  assert.deepEqual(fleet.listed('slice'), addresses(1, 2))
})

test('with the default onShutdown a restart of a lone master beside a ready server does not change the list', async (t) => {
  const fleet = await startedFleet(t, { masters: 1 })
  const stoppedMs = fleet.time.nowMs
  master(fleet, 1).terminate()
  await fleet.advance(3_000)
  assert.equal(master(fleet, 1).life?.ended, true)
  assert.equal(master(fleet, 1).life?.failure, undefined)
  master(fleet, 1).start()
  await fleet.advance(60_000)
  assert.deepEqual(since(fleet, stoppedMs), [])
})

for (const onShutdown of ['withdraw', 'always'] as const) {
  test(`a restart with overlapping processes does not change the list, with ${onShutdown}`, async (t) => {
    const fleet = await startedFleet(t, { masters: 2, master: { onShutdown } })
    const startedMs = fleet.time.nowMs
    const before = master(fleet, 1).life
    master(fleet, 1).start()
    await fleet.advance(25_000)
    before?.stop.abort(new Error('SIGTERM'))
    await fleet.advance(40_000)
    assert.equal(before?.ended, true)
    assert.deepEqual(since(fleet, startedMs), [])
  })
}

test('one of two masters withdraws when it is terminated, and the other stays listed', async (t) => {
  const fleet = await startedFleet(t, { masters: 2 })
  master(fleet, 1).terminate()
  await fleet.advance(500)
  assert.deepEqual(fleet.listed('slice'), addresses(2))
  assert.deepEqual(fleet.listed('endpoints'), addresses(2))
})

test('masters that are all terminated at the same instant do not leave an empty list', async (t) => {
  const fleet = await startedFleet(t, { masters: 3 })
  for (const one of fleet.masters) one.terminate()
  await fleet.advance(30_000)
  assert.notEqual(fleet.listed('slice')?.length, 0)
  assert.equal(
    fleet.listings.some(({ addresses: listed }) => listed?.length === 0),
    false,
  )
})

test('with `always` even the last master withdraws', async (t) => {
  const fleet = await startedFleet(t, { masters: 1, master: { onShutdown: 'always' } })
  master(fleet, 1).terminate()
  await fleet.advance(500)
  assert.deepEqual(fleet.listed('slice'), [])
  assert.deepEqual(fleet.listed('endpoints'), [])
})

test('with `keep` a master that stops stays listed until its lease ends', async (t) => {
  const fleet = await startedFleet(t, { masters: 2, master: { onShutdown: 'keep' } })
  master(fleet, 1).terminate()
  await fleet.advance(5_000)
  assert.deepEqual(fleet.listed('slice'), addresses(1, 2))
  await fleet.advance(12_000)
  assert.deepEqual(fleet.listed('slice'), addresses(2))
})

test('five masters stay listed while cut off from their servers for a minute, and log the loss and the return once', async (t) => {
  const fleet = await startedFleet(t, { masters: 5 })
  const lostMs = fleet.time.nowMs
  for (const one of fleet.masters) one.server.cut = true
  await fleet.advance(60_000)
  for (const one of fleet.masters) one.server.heal()
  await fleet.advance(60_000)
  assert.deepEqual(since(fleet, lostMs), [])
  for (const one of fleet.masters) {
    const logged = one.life?.logger.lines.filter(({ message }) =>
      /API server is back|lost the API server/.test(message),
    )
    assert.deepEqual(
      logged?.map(({ message }) => message),
      ['lost the API server', 'the API server is back'],
    )
  }
})

test('after repeated crashes, cuts and broken watches of its server a master has as many watches and timers as before', async (t) => {
  const fleet = await startedFleet(t, { masters: 2 })
  const { server, life } = master(fleet, 1)
  const counts = () => ({ watches: server.openConnections, timers: life?.clock.timers })
  await fleet.advance(22_500)
  const before = counts()
  assert.deepEqual(before.watches, 7)
  for (let round = 0; round < 5; round++) {
    server.kill()
    await fleet.advance(20_000)
    server.start()
    await fleet.advance(20_000)
    server.cut = true
    await fleet.advance(20_000)
    server.heal()
    await fleet.advance(20_000)
    server.resetConnections()
    await fleet.advance(20_000)
  }
  // The same moment between two probes as before.
  await fleet.advance(100_000 - (fleet.time.nowMs % 10_000) + 7_500)
  assert.deepEqual(counts(), before)
})

for (const [fleetOf, options] of Object.entries({
  'three masters': { masters: 3 },
  'two masters with two addresses each': {
    masters: [1, 2].map((number) => ({
      name: `master-${number}`,
      addresses: [`192.0.2.${number}`, `2001:db8::${number}`],
    })),
    master: { serviceClusterIpRanges: ['10.0.0.0/24', 'fd00::/112'].map(parseCidr) },
  },
})) {
  test(`in a quiet hour each of ${fleetOf} sends at most four reads per interval besides its lease renewals, and no other write`, async (t) => {
    const fleet = await startedFleet(t, options)
    await fleet.advance(30_000)
    const startMs = fleet.time.nowMs
    await fleet.advance(3_600_000)
    const requests = fleet.requests.filter(({ atMs, request }) => atMs > startMs && request.stream !== true)
    for (const { name } of fleet.masters) {
      const own = requests.filter(({ by }) => by === name).map(({ request }) => request)
      const renewals = own.filter(({ method, path }) => method === 'PUT' && path.includes('/leases/'))
      assert.ok(renewals.length <= 361, `${renewals.length} renewals`)
      const others = own.filter((request) => !renewals.includes(request))
      assert.deepEqual([...new Set(others.map(({ method }) => method))], ['GET'])
      // The requests read the leases, and live the Service, the Endpoints and one slice.
      assert.ok(others.length <= 4 * 361, `${others.length} requests besides the renewals`)
      const slices = new Set(others.map(({ path }) => path).filter((path) => path.includes('endpointslices')))
      assert.equal(slices.size, Array.isArray(options.masters) ? 2 : 1, `each slice is read: ${[...slices]}`)
    }
  })
}
