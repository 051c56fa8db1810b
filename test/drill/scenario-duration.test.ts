import assert from 'node:assert/strict'
import { test } from 'node:test'
import { builtInScenarios } from '../../src/drill/load-scenario.ts'
import { randomScenario } from '../../src/drill/random/random-scenario.ts'
import { renderJunit } from '../../src/drill/report/junit.ts'
import { renderPage } from '../../src/drill/report/page.ts'
import { renderText } from '../../src/drill/report/text.ts'
import { runDrill } from '../../src/drill/run-drill.ts'
import type { Scenario } from '../../src/drill/scenario.ts'
import { whyUnjudged } from '../../src/drill/scenario-duration.ts'
import { scenario } from './reports.ts'

const short: Scenario = { ...scenario, durationMs: 10_000 }
const sentence =
  'Not everything could be judged: what the last step leads to is due by 25s, and the drill ended at 10s; lengthen its duration.'

test('a drill that ends before what its last step leads to is due holds, and each report says so', async () => {
  const report = await runDrill(short)
  assert.deepEqual([report.held, report.unjudged], [true, sentence])
  assert.ok(renderText(report).replaceAll('\n', ' ').includes(sentence))
  assert.ok(renderPage(report).includes(`<p>${sentence}</p>`))
  assert.ok(renderJunit(report).includes(`<property name="unjudged" value="${sentence}"/>`))
})

test('what the last step leads to is due when everything has recovered, or the longest lease has ended', () => {
  const { steps, fleet } = short
  const long = { ...fleet, leaseTtlMs: 60_000 }
  const roll = { atMs: 5_000, action: 'rolling-restart', masters: 'all', part: 'both', pauseMs: 1_000 } as const
  const dueMs: readonly (readonly [changed: Partial<Scenario>, ms: number])[] = [
    [{}, 25_000],
    [{ fleet: long }, 67_000],
    [{ steps: steps.map((step) => ({ ...step, jitterMs: 2_000 })) }, 27_000],
    // At least its pauses.
    [{ steps: [roll] }, 28_000],
  ]
  for (const [changed, ms] of dueMs) {
    assert.equal(whyUnjudged({ ...short, ...changed, durationMs: ms }), undefined)
    assert.notEqual(whyUnjudged({ ...short, ...changed, durationMs: ms - 1 }), undefined)
  }
  assert.equal(whyUnjudged({ ...short, steps: [] }), undefined)
})

test('the built-in scenarios and random schedules are long enough for everything', async () => {
  const seeds = Array.from({ length: 100 }, (_, index) => index + 1)
  for (const one of [...(await builtInScenarios()), ...seeds.map(randomScenario)]) {
    assert.equal(whyUnjudged(one), undefined, one.name)
  }
})
