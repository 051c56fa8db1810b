import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DamageName, damages } from '../../src/drill/scenario/scenario.ts'
import { Fleet } from '../../src/drill/simulator/fleet.ts'
import type { SimulatedMaster } from '../../src/drill/simulator/master.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'

const SEEDS = 30
const all = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
/** Without leases no reconciler can distinguish an address that another client added from a master's. */
const corrected = (Object.keys(damages) as DamageName[]).filter((name) => name !== 'endpoints-with-a-foreign-address')

test(`in ${SEEDS} random schedules master-count never empties the list, and lists all masters at the end`, async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const fleet = new Fleet({ seed, masters: 3, master: { endpointReconcilerType: 'master-count', apiserverCount: 3 } })
    const done: string[] = []
    for (const master of fleet.masters) master.start()
    await fleet.advance(5_000)
    while (fleet.time.nowMs < 60_000) {
      done.push(`${fleet.time.nowMs} ${await disturb(fleet, fleet.random)}`)
      await fleet.advance(500 * (1 + randomInteger(fleet.random, 10)))
    }
    for (const master of fleet.masters) repair(master)
    await fleet.advance(30_000)
    const story = [`seed ${seed}:`, ...done].join('\n  ')
    assert.deepEqual(fleet.listed('endpoints'), all, story)
    assert.deepEqual(fleet.listed('slice'), all, story)
    const empty = fleet.listings.filter(({ addresses = [], byDamage }) => addresses.length === 0 && !byDamage)
    assert.deepEqual(empty, [], story)
    const quietSinceMs = fleet.time.nowMs - 10_000
    const late = fleet.requests.filter(({ atMs, request }) => atMs > quietSinceMs && request.method !== 'GET')
    assert.deepEqual(late, [], story)
    await fleet.close()
  }
})

async function disturb(fleet: Fleet, random: Random): Promise<string> {
  const master = fleet.masters[randomInteger(random, 3)] as SimulatedMaster
  const { name, server } = master
  switch (randomInteger(random, 6)) {
    case 0:
      master.kill()
      return `kill ${name}`
    case 1:
      if (master.running) master.terminate()
      else repair(master)
      return `terminate or repair ${name}`
    case 2:
      server.cut = true
      return `cut ${name} off from its server`
    case 3:
      server.ready = !server.ready
      return `turn the readiness of ${name}`
    default: {
      const damage = corrected[randomInteger(random, corrected.length)] as DamageName
      await fleet.damage(async () => damages[damage](fleet.api).catch(() => {}))
      return damage
    }
  }
}

function repair(master: SimulatedMaster): void {
  if (master.server.cut) master.server.heal()
  master.server.ready = true
  if (!master.running) master.start()
}
