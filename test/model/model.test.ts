import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inUnitOrFloor } from '../support/tier.ts'
import { type Exploration, explore, figuresText } from './explore.ts'
import { shipped } from './machine.ts'
import { FAULTS, type Fault } from './moves.ts'
import { mutantMachine } from './mutant-machine.ts'
import { mutants } from './mutants.ts'
import { WorldModel } from './world.ts'

const stores = ['etcd', 'kubernetes'] as const

function exploreShipped(
  store: (typeof stores)[number],
  faults: readonly Fault[],
  budget: number,
  fairEvery: number,
): Exploration {
  const model = new WorldModel({ machine: shipped, masters: 2, shared: false, store, renewals: true, faults })
  return explore(model, { faults: budget, maxStates: 2_000_000, fairEvery })
}

for (const store of stores) {
  test(`no state of two masters on ${store} with any one fault violates an invariant, and the fleet recovers after it`, (t) => {
    const found = exploreShipped(store, FAULTS, 1, 4)
    assert.equal(found.counterexample, undefined, found.counterexample?.transcript.join('\n'))
    t.diagnostic(figuresText(found, 1))
    assert.ok(found.isFrontierEmpty)
    assert.ok(found.states > 40_000)
  })
}

if (inUnitOrFloor(false, true)) {
  test('no state of two masters on etcd with any two withdrawals or readiness failures violates an invariant', (t) => {
    const found = exploreShipped('etcd', ['withdraw', 'failing'], 2, 20)
    assert.equal(found.counterexample, undefined, found.counterexample?.transcript.join('\n'))
    t.diagnostic(figuresText(found, 2))
    assert.ok(found.isFrontierEmpty)
    assert.ok(found.states > 100_000)
  })
}

// Mutants that few states show; test/long/model.test.ts runs all of them.
for (const name of [
  'believe-while-recovering',
  'never-prove',
  'forget-a-time-out',
  'say-nothing-when-asked',
  'turn-unready-alone',
]) {
  test(`exploration finds a counterexample for the mutant ${name}`, async (t) => {
    const mutant = mutants[name]
    assert.ok(mutant !== undefined)
    const model = new WorldModel({
      machine: await mutantMachine(mutant),
      masters: 2,
      shared: false,
      renewals: true,
      faults: mutant.faults,
    })
    const { counterexample } = explore(model, { faults: mutant.budget, maxStates: 100_000, fairEvery: 1 })
    assert.ok(counterexample !== undefined, mutant.broken)
    t.diagnostic(`${mutant.broken}\n${counterexample.transcript.join('\n')}`)
  })
}

test('a counterexample is a transcript from the start, with its one fault, to the violation', async () => {
  const model = new WorldModel({
    machine: await mutantMachine(mutants['never-ready-again'] as never),
    masters: 2,
    shared: false,
    renewals: true,
    faults: ['failing'],
  })
  const { counterexample } = explore(model, { faults: 1, maxStates: 100_000, fairEvery: 1 })
  const lines = counterexample?.transcript ?? []
  assert.equal(counterexample?.faults, 1)
  assert.equal(lines.filter((line) => line.includes(' failing   ')).length, 1)
  assert.match(
    lines[0] as string,
    /^ {2}0 {2}a start +list \[\]; store \[\]; a joining, server ok; b not started, server ok$/,
  )
  assert.match(lines.at(-1) as string, /^VIOLATION becomes-right: faults have ended, but for ever a lives and serves/)
})

test('the text that each mutant replaces occurs once in the code', async () => {
  assert.ok(Object.keys(mutants).length >= 15)
  for (const mutant of Object.values(mutants)) await mutantMachine(mutant)
})
