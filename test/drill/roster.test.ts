import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Roster } from '../../src/drill/roster.ts'
import type { MasterPlan } from '../../src/drill/scenario.ts'
import { masterPlan } from './simulator/fleet-under-test.ts'

function rosterOf(...plans: readonly MasterPlan[]): Roster {
  const roster = new Roster()
  for (const plan of plans) roster.add(plan)
  return roster
}

/** Somebody else in its place, as the conductor does. */
function replace(roster: Roster, name: string): MasterPlan {
  const plan = roster.plan(name)
  assert.ok(plan !== undefined)
  roster.retire(name)
  const successor = roster.successorOf(plan)
  roster.add(successor)
  return successor
}

test('a name means whoever came in its place, however often, and nobody when nobody came', () => {
  const roster = rosterOf(masterPlan(1), masterPlan(2))
  assert.equal(replace(roster, 'master-1').name, 'master-1-anew')
  assert.equal(replace(roster, 'master-1-anew').name, 'master-1-anew-anew')
  roster.retire('master-2')
  assert.deepEqual(roster.resolve(['master-1', 'master-1-anew', 'master-2']), ['master-1-anew-anew'])
  assert.deepEqual(roster.resolve('all'), ['master-1-anew-anew'])
})

test('a successor has the address and the settings of before, and a clock that is ahead', () => {
  const roster = rosterOf(masterPlan(1, { skewMs: -500 }))
  roster.configure('master-1', { leaseTtlMs: 6_000 })
  const settings = { leaseTtlMs: 6_000 }
  assert.deepEqual(replace(roster, 'master-1'), masterPlan(1, { name: 'master-1-anew', skewMs: 59_500, settings }))
})

test('another one has the next number whose name and addresses nobody has', () => {
  const dual = (number: number, over: Partial<MasterPlan> = {}): MasterPlan =>
    masterPlan(number, { addresses: [`192.0.2.${number}`, `2001:db8::${number.toString(16)}`], ...over })
  const roster = rosterOf(dual(1), masterPlan(3, { name: 'master-4' }))
  const next = roster.another(dual(1, { skewMs: 5, settings: { onShutdown: 'keep', addresses: ['192.0.2.200'] } }))
  assert.deepEqual(next, masterPlan(5, { settings: { onShutdown: 'keep' } }))
  assert.deepEqual(roster.another(dual(1)).addresses, ['192.0.2.5', '2001:db8::5'])
})

test('addresses that masters were rolled to are taken too', () => {
  const roster = rosterOf(masterPlan(1), masterPlan(2))
  roster.configure('master-1', { addresses: ['192.0.2.3'] })
  assert.equal(roster.another(masterPlan(1)).name, 'master-4')
})
