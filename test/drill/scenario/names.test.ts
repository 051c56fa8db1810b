import assert from 'node:assert/strict'
import { test } from 'node:test'
import { drawSteps, randomScenario } from '../../../src/drill/random/random-scenario.ts'
import { runDrill } from '../../../src/drill/run-drill.ts'
import { builtInScenarios } from '../../../src/drill/scenario/load-scenario.ts'
import { namesIn, Roster } from '../../../src/drill/scenario/names.ts'
import type { MasterPlan, Scenario, Step } from '../../../src/drill/scenario/scenario.ts'
import { parseAddress } from '../../../src/net/address.ts'
import { scenario } from '../report/reports.ts'
import { masterPlan } from '../simulator/fleet-under-test.ts'

const replaced: Step = { atMs: 7_000, action: 'replace', masters: ['master-1'], pauseMs: 5_000 }
const scaled = (atMs: number, to: number): Step => ({ atMs, action: 'scale', to })
const healed = (atMs: number, ...masters: readonly string[]): Step => ({ atMs, action: 'reset-connections', masters })

/** Names in steps that no master of the drill has at any time. */
function unknownNames(scenario: Scenario): readonly string[] {
  const known = namesIn(scenario)
  const named = scenario.steps.flatMap((step) => ('masters' in step && step.masters !== 'all' ? step.masters : []))
  return named.filter((name) => !known.includes(name))
}

/** Steps for three masters, and the names in them that no master has at any time. */
const stories: readonly (readonly [title: string, steps: readonly Step[], unknown: readonly string[]])[] = [
  ['a successor before its start', [replaced, healed(8_000, 'master-1-anew')], []],
  ['a successor', [replaced, healed(12_001, 'master-1-anew')], []],
  ['a successor of a master that is not replaced', [healed(8_000, 'master-1-anew')], ['master-1-anew']],
  [
    'a successor before its predecessor is replaced',
    [healed(8_000, 'master-1-anew'), { ...replaced, atMs: 9_000 }],
    [],
  ],
  ['a replaced master after its end', [replaced, healed(8_000, 'master-1')], []],
  [
    'a successor of a successor',
    [replaced, { ...replaced, atMs: 20_000 }, healed(26_000, 'master-1-anew', 'master-1-anew-anew')],
    [],
  ],
  ['the successor of an unknown master', [{ ...replaced, masters: ['b'] }, healed(30_000, 'b-anew')], ['b', 'b-anew']],
  ['a master of a scaled fleet', [scaled(7_000, 5), healed(7_000, 'master-4', 'master-5')], []],
  ['a master of a scaled fleet, before the fleet is scaled', [healed(7_000, 'master-5'), scaled(8_000, 5)], []],
  [
    'a master whose name a scaled fleet does not use',
    [replaced, scaled(20_000, 4), healed(21_000, 'master-4', 'master-5')],
    ['master-4'],
  ],
  ['a master that a scaled fleet has removed', [scaled(7_000, 2), healed(40_000, 'master-3')], []],
  [
    'a new master after a fleet was scaled down and up',
    [scaled(7_000, 2), scaled(40_000, 3), healed(50_000, 'master-4')],
    [],
  ],
  [
    'a successor that a scaled fleet has removed',
    [{ ...replaced, masters: ['master-3'] }, scaled(20_000, 2), healed(60_000, 'master-3', 'master-3-anew')],
    [],
  ],
]
for (const [title, steps, names] of stories) {
  test(`a step that names ${title}: unknown masters: ${names.join(', ') || 'nobody'}; the drill runs`, async () => {
    const story: Scenario = { ...scenario, steps }
    assert.deepEqual(unknownNames(story), names)
    await runDrill(story)
  })
}

test('random schedules and built-in scenarios name only masters that exist at some time', async () => {
  const seeds = Array.from({ length: 300 }, (_, index) => index + 1)
  const all = [...seeds.map(randomScenario), ...(await builtInScenarios()).map((one) => drawSteps(one, 1))]
  for (const one of all) assert.deepEqual(unknownNames(one), [], one.name)
})

function rosterOf(...plans: readonly MasterPlan[]): Roster {
  const roster = new Roster()
  for (const plan of plans) roster.add(plan)
  return roster
}

/** Puts a successor in its place, as the conductor does. */
function replace(roster: Roster, name: string): MasterPlan {
  const plan = roster.plan(name)
  assert.ok(plan !== undefined)
  roster.retire(name)
  const successor = roster.successorOf(plan)
  roster.add(successor)
  return successor
}

test('a name resolves to the latest successor of its master, and to nothing if the master has none', () => {
  const roster = rosterOf(masterPlan(1), masterPlan(2))
  assert.equal(replace(roster, 'master-1').name, 'master-1-anew')
  assert.equal(replace(roster, 'master-1-anew').name, 'master-1-anew-anew')
  roster.retire('master-2')
  assert.deepEqual(roster.resolve(['master-1', 'master-1-anew', 'master-2']), ['master-1-anew-anew'])
  assert.deepEqual(roster.resolve('all'), ['master-1-anew-anew'])
})

test('a successor has the address and settings of its predecessor, and a clock that is a minute ahead', () => {
  const roster = rosterOf(masterPlan(1, { skewMs: -500 }))
  roster.configure('master-1', { leaseTtlMs: 6_000 })
  const settings = { leaseTtlMs: 6_000 }
  assert.deepEqual(replace(roster, 'master-1'), masterPlan(1, { name: 'master-1-anew', skewMs: 59_500, settings }))
})

test('an additional master gets the next number whose name and addresses are unused', () => {
  const dual = (number: number, over: Partial<MasterPlan> = {}): MasterPlan =>
    masterPlan(number, { addresses: [`192.0.2.${number}`, `2001:db8::${number.toString(16)}`], ...over })
  const roster = rosterOf(dual(1), masterPlan(3, { name: 'master-4' }))
  const next = roster.another(dual(1, { skewMs: 5, settings: { onShutdown: 'keep', addresses: ['192.0.2.200'] } }))
  assert.deepEqual(next, masterPlan(5, { settings: { onShutdown: 'keep' } }))
  assert.deepEqual(roster.another(dual(1)).addresses, ['192.0.2.5', '2001:db8::5'])
})

test('an address that a master was reconfigured to is not given to an additional master', () => {
  const roster = rosterOf(masterPlan(1), masterPlan(2))
  roster.configure('master-1', { addresses: ['192.0.2.3'] })
  assert.equal(roster.another(masterPlan(1)).name, 'master-4')
})

test('a thousand masters have distinct valid addresses', () => {
  const roster = rosterOf(masterPlan(1))
  const first = roster.plan('master-1') as MasterPlan
  for (let count = 1; count < 1000; count++) roster.add(roster.another(first))
  const addresses = roster.present.flatMap((plan) => plan.addresses)
  assert.equal(new Set(addresses).size, 1000)
  for (const address of addresses) assert.doesNotThrow(() => parseAddress(address))
})
