import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fittingScenario, shrinkScenario } from '../../../src/drill/campaign/run-schedule.ts'
import { randomScenario } from '../../../src/drill/random/random-scenario.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import { renderScenario } from '../../../src/drill/scenario/render.ts'
import type { Scenario, Step } from '../../../src/drill/scenario/scenario.ts'

/** The seed of a schedule that has damage and a freeze. */
const SEED = 3

/**
 * Takes the first step of each kind in `needed`, and fails one second after the last of them. Holds if a kind is
 * missing.
 */
function failsWith(...needed: readonly Step['action'][]): (scenario: Scenario) => Promise<number | undefined> {
  return async ({ steps, durationMs }) => {
    const firsts = needed.map(
      (action) => steps.find((step) => step.action === action)?.atMs ?? Number.POSITIVE_INFINITY,
    )
    const atMs = Math.max(...firsts) + 1_000
    return atMs <= durationMs ? atMs : undefined
  }
}

test('shrinking leaves only the needed steps, moved to the start, in a small fleet with default settings', async () => {
  const { scenario, tries } = await shrinkScenario(randomScenario(SEED), failsWith('damage', 'freeze'))
  assert.deepEqual(scenario.steps.map(({ action }) => action).sort(), ['damage', 'freeze'])
  assert.ok((scenario.steps.at(-1)?.atMs ?? 0) <= 2_000, JSON.stringify(scenario.steps))
  assert.ok(scenario.durationMs < 45_000)
  assert.equal(scenario.fleet.masters.length, 1)
  assert.equal(scenario.fleet.spikes, false)
  assert.equal(scenario.fleet.leaseTtlMs, 15_000)
  assert.ok(tries <= 300)
})

test('shrinking preserves a master that the failure needs', async () => {
  const needs = async ({ fleet, steps }: Scenario): Promise<number | undefined> => {
    const there = fleet.masters.some(({ name }) => name === 'master-2')
    return there && steps.some(({ action }) => action === 'damage') ? 5_000 : undefined
  }
  const { scenario } = await shrinkScenario(randomScenario(SEED), needs)
  assert.deepEqual(
    scenario.fleet.masters.map(({ name }) => name),
    ['master-2'],
  )
})

test('shrinking ends after the given tries with the best schedule so far, and leaves one that holds unchanged', async () => {
  let asked = 0
  const counting = (scenario: Scenario): Promise<number | undefined> => {
    asked++
    return failsWith('damage', 'freeze')(scenario)
  }
  const whole = randomScenario(SEED)
  const { scenario, tries } = await shrinkScenario(whole, counting, 10)
  assert.equal(tries, 10)
  assert.equal(asked, 10)
  assert.ok(scenario.steps.length < whole.steps.length)
  assert.notEqual(await failsWith('damage', 'freeze')(scenario), undefined)

  const holds = await shrinkScenario(whole, async () => undefined, 20)
  assert.deepEqual(holds.scenario, whole)
})

test('a shrunk scenario is rendered to a file and parsed back unchanged', async () => {
  for (let seed = 1; seed <= 10; seed++) {
    const { scenario } = await shrinkScenario(randomScenario(seed), failsWith('partition', 'damage'), 120)
    assert.deepEqual(parseScenario(renderScenario(scenario), 'shrunk.yaml'), scenario)
  }
})

test('fittingScenario removes the names of masters that only a dropped step would have added', () => {
  const whole = randomScenario(SEED)
  const kill = (atMs: number, ...masters: readonly string[]): Step => ({ atMs, action: 'kill', masters, part: 'both' })
  const kills = [kill(9_000, 'master-1', 'master-1-anew'), kill(10_000, 'master-1-anew')]
  const replace: Step = { atMs: 1_000, action: 'replace', masters: ['master-1'], pauseMs: 0 }
  assert.deepEqual(fittingScenario({ ...whole, steps: [replace, ...kills] }).steps, [replace, ...kills])
  assert.deepEqual(fittingScenario({ ...whole, steps: kills }).steps, [kill(9_000, 'master-1')])
})
