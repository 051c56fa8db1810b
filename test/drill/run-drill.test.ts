import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { DrillEvent } from '../../src/drill/event.ts'
import { computeFigures } from '../../src/drill/report/figures.ts'
import type { Figures } from '../../src/drill/report/report.ts'
import { type DrillOptions, knownFailures, runDrill } from '../../src/drill/run-drill.ts'
import { parseScenario } from '../../src/drill/scenario/parse.ts'
import type { Scenario } from '../../src/drill/scenario/scenario.ts'
import { begin, dead, refused, slice, state, step } from './report/histories.ts'

const crash = parseScenario(readFileSync('config/drills/crash.yaml', 'utf8'), 'crash.yaml')

/** Wrong arguments, as JavaScript lets them through, and what is said of them. */
const wrong: readonly (readonly [scenario: unknown, options: unknown, message: string])[] = [
  [undefined, undefined, 'scenario must be a scenario, as parseScenario reads it, not nothing'],
  ['crash', undefined, 'scenario must be a scenario, as parseScenario reads it, not "crash"'],
  [{ ...crash, fleet: {} }, undefined, 'scenario.fleet must be an object with masters'],
  [
    { ...crash, steps: 'kill' },
    undefined,
    'scenario.steps must be a list of steps, each with atMs and action, not "kill"',
  ],
  [
    { ...crash, steps: [{ action: 'kill' }] },
    undefined,
    'scenario.steps must be a list of steps, each with atMs and action',
  ],
  [{ ...crash, bounds: undefined }, undefined, 'scenario.bounds must be an object, not nothing'],
  [{ ...crash, durationMs: '95s' }, undefined, 'scenario.durationMs must be a number from 0 on, not "95s"'],
  [crash, null, 'options must be an object, not nothing'],
  [crash, 7, 'options must be an object, not 7'],
  ...[0, -1, 1.5, Number.NaN].map(
    (runs) => [crash, { runs }, `runs must be a whole number from 1 on, not ${runs}`] as const,
  ),
  ...[-1, 0.5, Number.NaN].map(
    (seed) => [crash, { seed }, `seed must be a whole number from 0 on, not ${seed}`] as const,
  ),
  [crash, { seed: '1' }, 'seed must be a whole number from 0 on, not "1"'],
  [crash, { variants: [] }, 'variants must be a list of at least one variant, each with name and fleet'],
  [crash, { variants: ['lease'] }, 'variants must be a list of at least one variant, each with name and fleet'],
  [crash, { createMaster: {} }, 'createMaster must be a function'],
  [crash, { openTarget: 'live' }, 'openTarget must be a function, not "live"'],
  [crash, { onEvent: true }, 'onEvent must be a function, not true'],
  [crash, { signal: {} }, 'signal must be an AbortSignal'],
  [crash, { version: 1 }, 'version must be text, not 1'],
  [crash, { seed: () => 1 }, 'seed must be a whole number from 0 on, not a function'],
  [crash, { sed: 7 }, 'options has no "sed"; did you mean seed?'],
  [
    crash,
    { colour: 'red' },
    'options has no "colour"; it takes seed, runs, variants, createMaster, openTarget, command, version, signal, onEvent',
  ],
]

test('what is no scenario, or no such option, is refused in one line that names it, before anything runs', async () => {
  for (const [scenario, options, message] of wrong) {
    await assert.rejects(runDrill(scenario as Scenario, options as DrillOptions), { name: 'RangeError', message })
  }
})

test('what is no text of a scenario is refused in one line', () => {
  const parse = parseScenario as (...given: readonly unknown[]) => unknown
  for (const [given, message] of [
    [[], 'text: must be text, not nothing'],
    [[5, 'f'], 'text: must be text, not 5'],
    [['a: b'], 'file: must be text, not nothing'],
    [['', 'f'], 'f:1:1: is empty'],
    [['crash', 'f'], 'f:1:1: a drill must be a mapping of keys to values'],
    [['- a', 'f'], 'f:1:1: a drill must be a mapping of keys to values'],
  ] as const) {
    assert.throws(() => parse(...given), { name: 'InvalidInputError', message })
  }
})

test('what kube-apiservers write as the last of them comes up is not held against them', async () => {
  const variants = [{ name: 'kube-apiserver', fleet: {}, kubeApiservers: true }]
  const { held } = await runDrill(crash, { seed: 64, variants })
  assert.equal(held, true)
})

test('kube-apiservers alone may keep a dead one beyond its lease and the margin, until their next look, and hold', async () => {
  const variants = [{ name: 'kube-apiserver', fleet: {}, kubeApiservers: true }]
  const {
    held,
    variants: [{ figures } = assert.fail()],
  } = await runDrill(crash, { runs: 5, variants })
  const { deadListedTooLong, timeToRemove } = figures
  assert.deepEqual([held, deadListedTooLong > 0, (timeToRemove.maxMs ?? 0) > 17_000], [true, true, true])
})

const figuresOf = (...events: readonly DrillEvent[]): Figures =>
  computeFigures([{ events, untilMs: 60_000 }], { deadUntilMs: 17_000 })
const seen = (reconciler: 'lease' | 'master-count' | 'none', figures: Figures): readonly string[] =>
  knownFailures(reconciler, figures).map(({ sentence, count }) => `${count}: ${sentence.split(':')[0]}`)

const calm = figuresOf(...begin(3))
const killed = figuresOf(
  ...begin(4),
  ...[state(1000, 2, dead), state(2000, 3, dead), state(20_000, 3), state(30_000, 4, dead)],
)

test('nothing is said of what did not happen', () => {
  for (const reconciler of ['lease', 'master-count', 'none'] as const) assert.deepEqual(seen(reconciler, calm), [])
})

test('dead masters that stay listed are counted, also those that have come back', () => {
  assert.deepEqual(seen('master-count', killed), ['3: a dead master stays listed'])
  assert.deepEqual(seen('none', killed), ['3: a dead master stays listed'])
})

test('nothing is known of lease', () => {
  assert.deepEqual(knownFailures('lease', killed), [])
})

test('master-count is known to take living masters off the list', () => {
  const figures = figuresOf(...begin(3), slice(15_000, [1, 2, 4]))
  assert.deepEqual(seen('master-count', figures), ['1: a living master is taken off the list'])
})

test('none is known to leave clients with masters that have been told to stop', () => {
  const figures = figuresOf(
    ...begin(2),
    state(1000, 2, { ...dead, sidecar: 'stopping' }),
    refused(2000, 2),
    refused(3000, 2),
  )
  assert.deepEqual(seen('none', { ...figures, deadListedTooLong: 0 }), ['2: connections to a stopped master fail'])
})

test('none is known to list nobody who comes, and to mend nothing', () => {
  const figures = figuresOf(
    ...[...begin(2), step(1000, 'scale', []), state(1000, 3), step(9000, 'damage', []), slice(9000, [2], true)],
  )
  assert.deepEqual(seen('none', figures), [
    '1: a master that serves is not listed',
    '1: an address that another writer removed stays out',
  ])
  assert.deepEqual(seen('master-count', figures), [])
})

test('a removal and an addition in time are no failure', () => {
  const figures = figuresOf(...begin(2), state(1000, 2, dead), slice(9000, [1]))
  assert.deepEqual([seen('master-count', figures), seen('none', figures)], [[], []])
  const added = figuresOf(...begin(2), state(1000, 3), slice(2000, [1, 2, 3]))
  assert.deepEqual(seen('none', added), [])
})
