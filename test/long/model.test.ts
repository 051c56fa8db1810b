import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { WorldOptions } from '../model/cluster.ts'
import { type Exploration, type ExploreOptions, explore, figuresText } from '../model/explore.ts'
import { shipped } from '../model/machine.ts'
import { FAULTS } from '../model/moves.ts'
import { mutantMachine } from '../model/mutant-machine.ts'
import { mutants } from '../model/mutants.ts'
import { WorldModel } from '../model/world.ts'

/** How long three masters are explored. */
const minutes = Number(process.env.MODEL_MINUTES ?? 50)

function holds(
  world: Omit<WorldOptions, 'machine' | 'faults'>,
  options: Omit<ExploreOptions, 'fairEvery'>,
): Exploration {
  const model = new WorldModel({ machine: shipped, faults: FAULTS, renewals: true, ...world })
  const found = explore(model, { fairEvery: 50, ...options })
  assert.equal(found.counterexample, undefined, found.counterexample?.transcript.join('\n'))
  return found
}

for (const store of ['etcd', 'kubernetes'] as const) {
  test(`two masters on ${store} with any two faults: all that must hold holds in every state`, (t) => {
    const found = holds({ masters: 2, shared: false, store }, { faults: 2, maxStates: 100_000_000, maxMs: 55 * 60_000 })
    t.diagnostic(figuresText(found, 2))
    assert.ok(found.states >= 5_000_000)
    assert.ok(found.isFrontierEmpty)
  })
}

test('two masters behind one address with any one fault', (t) => {
  const found = holds({ masters: 2, shared: true }, { faults: 1, maxStates: 20_000_000 })
  t.diagnostic(figuresText(found, 1))
  assert.ok(found.isFrontierEmpty)
})

test('three masters with two faults, as deep as the time goes', (t) => {
  const found = holds({ masters: 3, shared: false }, { faults: 2, maxStates: 60_000_000, maxMs: minutes * 60_000 })
  t.diagnostic(figuresText(found, 2))
})

for (const [name, mutant] of Object.entries(mutants)) {
  test(`the mutant ${name} is caught`, async (t) => {
    const machine = await mutantMachine(mutant)
    const model = new WorldModel({ machine, masters: 2, shared: false, renewals: true, faults: mutant.faults })
    const { counterexample } = explore(model, { faults: mutant.budget, maxStates: 1_000_000, fairEvery: 1 })
    assert.ok(counterexample !== undefined, mutant.broken)
    t.diagnostic(`${mutant.broken}\n${counterexample.transcript.join('\n')}`)
  })
}
