import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DrillEvent } from '../../src/drill/event.ts'
import { computeFigures } from '../../src/drill/figures.ts'
import { knownFailures } from '../../src/drill/known-failures.ts'
import type { Figures } from '../../src/drill/report.ts'
import { begin, dead, refused, slice, state, step } from './histories.ts'

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
  assert.deepEqual(seen('none', { ...figures, keptDead: 0 }), ['2: connections to a master that was told to stop fail'])
})

test('none is known to list nobody who comes, and to mend nothing', () => {
  const figures = figuresOf(
    ...[...begin(2), step(1000, 'scale', []), state(1000, 3), step(9000, 'damage', []), slice(9000, [2], true)],
  )
  assert.deepEqual(seen('none', figures), [
    '1: a master that serves is not listed',
    '1: an address that somebody took out stays out',
  ])
  assert.deepEqual(seen('master-count', figures), [])
})

test('a removal and an addition in time are no failure', () => {
  const figures = figuresOf(...begin(2), state(1000, 2, dead), slice(9000, [1]))
  assert.deepEqual([seen('master-count', figures), seen('none', figures)], [[], []])
  const added = figuresOf(...begin(2), state(1000, 3), slice(2000, [1, 2, 3]))
  assert.deepEqual(seen('none', added), [])
})
