import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { WorldOptions } from '../model/cluster.ts'
import { type Exploration, type ExploreOptions, explore, figuresText } from '../model/explore.ts'
import { shipped } from '../model/machine.ts'
import { costOf, FAULTS, type Fault } from '../model/moves.ts'
import { mutantMachine } from '../model/mutant-machine.ts'
import { mutants } from '../model/mutants.ts'
import { WorldModel } from '../model/world.ts'

const minute = 60_000
/** How long three masters are explored with two faults. */
const minutes = Number(process.env.MODEL_MINUTES ?? 50)

type Setting = Pick<WorldOptions, 'masters' | 'shared' | 'store'>
type Pair = readonly Fault[]

/**
 * A history of two faults contains at most two kinds of faults. So exploring each pair of kinds by itself covers all
 * these histories. Such an exploration ends soon; one with all kinds at once does not. A pair also covers two faults of
 * the same kind. A fault that counts as two is explored alone.
 */
const pairs: readonly Pair[] = [
  ...FAULTS.filter((fault) => costOf(fault) === 2).map((fault) => [fault]),
  ...pairsOf(FAULTS.filter((fault) => costOf(fault) === 1)),
]

function pairsOf(kinds: readonly Fault[]): readonly Pair[] {
  return kinds.flatMap((one, index) => kinds.slice(index + 1).map((other) => [one, other].sort()))
}

function nameOf(pair: Pair): string {
  return pair.join(' and ')
}

function explored(setting: Setting, faults: Pair, limits: Omit<ExploreOptions, 'fairEvery'>): Exploration {
  const model = new WorldModel({ machine: shipped, renewals: true, ...setting, faults })
  return explore(model, { fairEvery: 50, ...limits })
}

/** Explores two faults of each of these pairs, until the time is over. */
function exploredPairs(
  setting: Setting,
  among: readonly Pair[],
  { maxStates, untilMs }: { readonly maxStates: number; readonly untilMs: number },
): Map<Pair, Exploration> {
  const found = new Map<Pair, Exploration>()
  for (const pair of among) {
    const maxMs = untilMs - performance.now()
    if (maxMs <= 0) break
    found.set(pair, explored(setting, pair, { faults: 2, maxStates, maxMs }))
  }
  return found
}

function assertHolds({ counterexample }: Exploration, setting = ''): void {
  assert.equal(counterexample, undefined, `${setting}\n${counterexample?.transcript.join('\n')}`)
}

function statesOf(found: ReadonlyMap<Pair, Exploration>): number {
  return [...found.values()].reduce((sum, { states }) => sum + states, 0)
}

/** The results of all pairs, on one line. */
function pairsText(found: ReadonlyMap<Pair, Exploration>): string {
  const all = [...found.values()]
  const exhausted = all.filter(({ isFrontierEmpty }) => isFrontierEmpty).length
  const seconds = all.reduce((sum, one) => sum + one.seconds, 0)
  return (
    `explored ${found.size} of ${pairs.length} pairs of faults, ${exhausted} with an empty frontier, ` +
    `${statesOf(found).toLocaleString('en')} states, each counted for every pair that leads to it, ` +
    `${Math.max(...all.map(({ states }) => states)).toLocaleString('en')} at most with one pair, ` +
    `depth ${Math.max(...all.map(({ depth }) => depth))}, ${Math.round(seconds)} s`
  )
}

for (const store of ['etcd', 'kubernetes'] as const) {
  test(`two masters on ${store} with any two faults violate no invariant in any state`, (t) => {
    const limits = { maxStates: 10_000_000, untilMs: performance.now() + 60 * minute }
    const found = exploredPairs({ masters: 2, shared: false, store }, pairs, limits)
    t.diagnostic(pairsText(found))
    for (const [pair, one] of found) assertHolds(one, nameOf(pair))
    const exhausted = pairs.filter((pair) => found.get(pair)?.isFrontierEmpty).map(nameOf)
    assert.deepEqual(exhausted, pairs.map(nameOf))
    assert.ok(statesOf(found) >= 5_000_000)
  })
}

test('two masters behind one address with any one fault violate no invariant', (t) => {
  const found = explored({ masters: 2, shared: true }, FAULTS, { faults: 1, maxStates: 20_000_000 })
  assertHolds(found)
  t.diagnostic(figuresText(found, 1))
  assert.ok(found.isFrontierEmpty)
})

test('three masters with any one fault violate no invariant', (t) => {
  const found = explored({ masters: 3, shared: false }, FAULTS, { faults: 1, maxStates: 20_000_000 })
  assertHolds(found)
  t.diagnostic(figuresText(found, 1))
  assert.ok(found.isFrontierEmpty)
})

test('three masters with two faults violate no invariant, explored as deep as time allows', (t) => {
  const untilMs = performance.now() + minutes * minute
  const found = new Map<Pair, Exploration>()
  // Begins with the pairs that few states exhaust. A later exploration of another pair repeats its earlier states: a
  // tenth at most.
  for (const maxStates of [300_000, 3_000_000, 20_000_000]) {
    const open = pairs.filter((pair) => !found.get(pair)?.isFrontierEmpty)
    const deeper = exploredPairs({ masters: 3, shared: false }, open, { maxStates, untilMs })
    for (const [pair, one] of deeper) {
      if (one.states > (found.get(pair)?.states ?? 0)) found.set(pair, one)
    }
  }
  assert.ok(found.size > 0, 'MODEL_MINUTES is a number above 0')
  t.diagnostic(pairsText(found))
  for (const [pair, one] of found) {
    assertHolds(one, nameOf(pair))
    if (!one.isFrontierEmpty) t.diagnostic(`${nameOf(pair)}: ${figuresText(one, 2)}`)
  }
})

for (const [name, mutant] of Object.entries(mutants)) {
  test(`the exploration finds a counterexample for the mutant ${name}`, async (t) => {
    const machine = await mutantMachine(mutant)
    const model = new WorldModel({ machine, masters: 2, shared: false, renewals: true, faults: mutant.faults })
    const { counterexample } = explore(model, { faults: mutant.budget, maxStates: 1_000_000, fairEvery: 1 })
    assert.ok(counterexample !== undefined, mutant.broken)
    t.diagnostic(`${mutant.broken}\n${counterexample.transcript.join('\n')}`)
  })
}
