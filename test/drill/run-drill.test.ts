import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { DrillEvent } from '../../src/drill/event.ts'
import { knownFailures } from '../../src/drill/report/failures.ts'
import { computeFigures } from '../../src/drill/report/figures.ts'
import type { Figures } from '../../src/drill/report/report.ts'
import { type DrillOptions, runDrill } from '../../src/drill/run-drill.ts'
import { parseScenario } from '../../src/drill/scenario/parse.ts'
import type { Step } from '../../src/drill/scenario/scenario.ts'
import { begin, dead, refused, slice, state, step } from './report/histories.ts'

const crash = parseScenario(readFileSync('config/drills/crash.yaml', 'utf8'), 'crash.yaml')

/** Options that the types allow, and the error for each. */
const wrong: readonly (readonly [options: DrillOptions, message: string])[] = [
  ...[0, -1, 1.5, Number.NaN].map((runs) => [{ runs }, `runs must be a whole number from 1 on, not ${runs}`] as const),
  ...[-1, 0.5, Number.NaN].map((seed) => [{ seed }, `seed must be a whole number from 0 on, not ${seed}`] as const),
  [{ variants: [] }, 'variants must be a list of at least one variant'],
]

test('an option out of range is refused with a one-line RangeError that names it, before anything runs', async () => {
  const createTarget = (): never => assert.fail('a fleet was opened')
  for (const [options, message] of wrong) {
    await assert.rejects(runDrill(crash, { ...options, createTarget }), { name: 'RangeError', message })
  }
})

test('a text that is not a scenario is refused with a one-line error', () => {
  for (const [text, message] of [
    ['', 'f:1:1: is empty'],
    ['crash', 'f:1:1: a drill must be a mapping of keys to values'],
    ['- a', 'f:1:1: a drill must be a mapping of keys to values'],
  ] as const) {
    assert.throws(() => parseScenario(text, 'f'), { name: 'InvalidInputError', message })
  }
})

test('writes of kube-apiservers while the last of them comes up are no violation', async () => {
  const variants = [{ name: 'kube-apiserver', fleet: {}, kubeApiservers: true }]
  const { held } = await runDrill(crash, { seed: 64, variants })
  assert.equal(held, true)
})

test('a fleet of kube-apiservers holds although a dead one stays listed beyond its lease and the margin', async () => {
  const variants = [{ name: 'kube-apiserver', fleet: {}, kubeApiservers: true }]
  const {
    held,
    variants: [{ figures } = assert.fail()],
  } = await runDrill(crash, { runs: 5, variants })
  const { deadListedTooLong, timeToRemove } = figures
  assert.deepEqual([held, deadListedTooLong > 0, (timeToRemove.maxMs ?? 0) > 17_000], [true, true, true])
})

test('a report has the history of the first three failed runs, and the seed of every run', async () => {
  const none = { name: 'none', fleet: { reconciler: 'none' } } as const
  const { held, variants } = await runDrill({ ...crash, durationMs: 40_000 }, { runs: 6, variants: [none] })
  const { runs = [], knownFailures: known = [] } = variants[0] ?? {}
  assert.equal(held, false)
  assert.deepEqual(
    runs.map(({ seed, events, violations }) => [seed, events !== undefined, violations.length > 0]),
    [1, 2, 3, 4, 5, 6].map((seed) => [seed, seed <= 3, true]),
  )
  assert.ok(known.length > 0)
})

test('a report has the history of the first run although it holds, and of no other run that holds', async () => {
  const { held, variants } = await runDrill({ ...crash, steps: [], durationMs: 5_000 }, { runs: 3 })
  assert.equal(held, true)
  assert.deepEqual(
    variants[0]?.runs.map(({ events }) => events !== undefined),
    [true, false, false],
  )
})

test('a report contains the first 500 samples and counts all of them', async () => {
  const restarts = Array.from({ length: 60 }, (_, index): Step => {
    return { atMs: 1_000 + 2_000 * index, action: 'damage', damage: 'slice-emptied' }
  })
  const scenario = { ...crash, steps: restarts, durationMs: 130_000 }
  const { variants } = await runDrill(scenario, { runs: 3 })
  const { count = 0, samples = [] } = variants[0]?.figures.timeToAddAgain ?? {}
  assert.ok(count > 500, `${count}`)
  assert.equal(samples.length, 500)
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

test('a run without known failures reports none', () => {
  for (const reconciler of ['lease', 'master-count', 'none'] as const) assert.deepEqual(seen(reconciler, calm), [])
})

test('dead masters that stay listed are counted, including those that have returned', () => {
  assert.deepEqual(seen('master-count', killed), ['3: a dead master stays listed'])
  assert.deepEqual(seen('none', killed), ['3: a dead master stays listed'])
})

test('the lease reconciler has no known failures', () => {
  assert.deepEqual(knownFailures('lease', killed), [])
})

test('master-count has the known failure that it removes living masters from the list', () => {
  const figures = figuresOf(...begin(3), slice(15_000, [1, 2, 4]))
  assert.deepEqual(seen('master-count', figures), ['1: a living master is removed from the list'])
})

test('none has the known failure that connections to a stopped master fail', () => {
  const figures = figuresOf(
    ...begin(2),
    state(1000, 2, { ...dead, sidecar: 'stopping' }),
    refused(2000, 2),
    refused(3000, 2),
  )
  assert.deepEqual(seen('none', { ...figures, deadListedTooLong: 0 }), ['2: connections to a stopped master fail'])
})

test('none has the known failures that a new master is not listed and a removed address stays out', () => {
  const figures = figuresOf(
    ...[...begin(2), step(1000, 'scale', []), state(1000, 3), step(9000, 'damage', []), slice(9000, [2], true)],
  )
  assert.deepEqual(seen('none', figures), [
    '1: a master that serves is not listed',
    '1: an address that another writer removed stays out',
  ])
  assert.deepEqual(seen('master-count', figures), [])
})

test('a removal or an addition in time is no known failure', () => {
  const figures = figuresOf(...begin(2), state(1000, 2, dead), slice(9000, [1]))
  assert.deepEqual([seen('master-count', figures), seen('none', figures)], [[], []])
  const added = figuresOf(...begin(2), state(1000, 3), slice(2000, [1, 2, 3]))
  assert.deepEqual(seen('none', added), [])
})
