import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fittingScenario, runSchedule } from '../../../src/drill/campaign/run-schedule.ts'
import { drawSteps, randomScenario } from '../../../src/drill/random/random-scenario.ts'
import { lastStepEndMs } from '../../../src/drill/scenario/duration.ts'
import { successorName } from '../../../src/drill/scenario/names.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import { renderScenario } from '../../../src/drill/scenario/render.ts'
import { damages, type Step } from '../../../src/drill/scenario/scenario.ts'

const seeds = Array.from({ length: 300 }, (_, index) => index + 1)
const scenarios = seeds.map(randomScenario)

const lasting = [
  ...['kill', 'terminate', 'freeze', 'partition', 'slow', 'readyz-fails', 'requests-fail', 'own-etcd-dead'],
]

test('the same seed gives the same scenario, and each seed another', () => {
  assert.deepEqual(randomScenario(7), randomScenario(7))
  assert.equal(new Set(scenarios.map(({ fleet, steps }) => JSON.stringify([fleet, steps]))).size, seeds.length)
})

test('every scenario has three to seven masters and ten minutes, the last of them without faults', () => {
  for (const { fleet, durationMs, steps } of scenarios) {
    assert.ok(fleet.masters.length >= 3 && fleet.masters.length <= 7)
    assert.equal(durationMs, 600_000)
    assert.ok(lastStepEndMs(steps, fleet) <= durationMs - 60_000, 'all faults end a minute before the end')
    assert.deepEqual(
      steps.map(({ atMs }) => atMs),
      steps.map(({ atMs }) => atMs).sort((a, b) => a - b),
    )
    for (const step of steps) {
      if (lasting.includes(step.action)) {
        assert.ok('forMs' in step && (step.forMs ?? 0) > 0, `${step.action} has a limited duration`)
      }
    }
  }
})

test('300 seeds cover every action, damage, lease store and kind of fleet', () => {
  const steps = scenarios.flatMap((scenario) => scenario.steps)
  const seen = (of: (step: Step) => unknown): readonly unknown[] => [...new Set(steps.map(of))]
  const actions = seen(({ action }) => action)
  const all: readonly Step['action'][] = [
    ...(['kill', 'terminate', 'freeze', 'restart', 'partition', 'slow', 'reset-connections', 'replace'] as const),
    ...(['clock-skew', 'datastore-outage', 'apiserver-outage', 'readyz-fails', 'compact', 'damage'] as const),
    ...(['rolling-restart', 'roll-config', 'scale', 'requests-fail', 'own-etcd-dead'] as const),
  ]
  assert.deepEqual(
    all.filter((action) => !actions.includes(action)),
    [],
  )
  assert.deepEqual(
    Object.keys(damages).filter((name) => !seen((step) => step.action === 'damage' && step.damage).includes(name)),
    [],
  )
  const requests = ['status', 'hang', 'delay', 'cut-watches', 'lose-event', 'expired']
  for (const how of ['away', 'full', 'unready', 'hangs', 'etcd', 'fails', ...requests]) {
    assert.ok(seen((step) => 'how' in step && step.how).includes(how), how)
  }
  for (const from of ['api', 'store', 'clients', 'all']) {
    assert.ok(seen((step) => 'from' in step && step.from).includes(from), from)
  }
  for (const part of ['sidecar', 'server', 'both']) {
    assert.ok(seen((step) => 'part' in step && step.part).includes(part), part)
  }
  assert.ok(steps.some((step) => step.action === 'restart' && step.overlapMs !== undefined))
  assert.ok(
    steps.some((step) => step.action === 'partition' && step.masters.length === 2),
    'two masters are cut off together',
  )
  const crashes = scenarios.flatMap((scenario) =>
    scenario.steps
      .filter((step) => step.action === 'restart' && step.signal === 'kill')
      .map(({ atMs }) => scenario.steps.some((step) => step.action === 'readyz-fails' && step.atMs === atMs)),
  )
  const together = crashes.filter((isTogether) => isTogether).length
  assert.ok(together > 0 && together < crashes.length / 2, 'less than half of the crashes come with a failing check')
  const fleets = scenarios.map(({ fleet }) => fleet)
  const among = (of: (fleet: (typeof fleets)[number]) => unknown): readonly unknown[] =>
    [...new Set(fleets.map(of))].sort()
  assert.deepEqual(
    among(({ leaseStore }) => leaseStore),
    ['etcd', 'kine', 'kubernetes', 'memory'],
  )
  assert.deepEqual(
    among(({ onShutdown }) => onShutdown),
    ['always', 'keep', 'withdraw'],
  )
  assert.deepEqual(
    among(({ readinessGate }) => readinessGate),
    ['continuous', 'startup'],
  )
  assert.deepEqual(
    among(({ spikes }) => spikes),
    [false, true],
  )
  assert.ok(fleets.some(({ leaseTtlMs, reconcileIntervalMs }) => leaseTtlMs === 3_000 && reconcileIntervalMs === 1_000))
  assert.ok(fleets.some(({ masters }) => masters.some(({ kind }) => kind === 'kube-apiserver')))
  assert.ok(fleets.some(({ masters }) => masters[0]?.addresses[0] === masters[1]?.addresses[0]))
  assert.ok(fleets.some(({ masters }) => masters.some(({ skewMs }) => Math.abs(skewMs) > 3_600_000)))
  assert.ok(fleets.some(({ masters }) => masters.some(({ driftPpm }) => driftPpm !== 0)))
})

test('a random scenario is rendered to a file and parsed back unchanged', () => {
  for (const scenario of scenarios.slice(0, 15)) {
    assert.deepEqual(parseScenario(renderScenario(scenario), 'random.yaml'), scenario)
  }
})

test('a schedule of every third step runs without violations', async () => {
  const whole = randomScenario(3)
  const half = fittingScenario({ ...whole, steps: whole.steps.filter((_, index) => index % 3 === 0) })
  const { violations } = await runSchedule(half, 3)
  assert.deepEqual(violations, [])
})

test('a random step is expanded to steps within its time, by its own seed or that of the drill', () => {
  const scenario = {
    ...randomScenario(1),
    steps: [{ atMs: 60_000, action: 'random', forMs: 240_000, seed: 5 }] as const,
  }
  const drawn = drawSteps(scenario, 1)
  assert.ok(drawn.steps.length > 5)
  assert.ok(drawn.steps.every(({ action, atMs }) => action !== 'random' && atMs >= 60_000))
  assert.ok(lastStepEndMs(drawn.steps, drawn.fleet) <= 300_000)
  assert.deepEqual(drawSteps(scenario, 2), drawn)

  const unseeded = { ...scenario, steps: [{ atMs: 60_000, action: 'random', forMs: 240_000 }] as const }
  assert.notDeepEqual(drawSteps(unseeded, 1), drawSteps(unseeded, 2))
})

test('no step stops or freezes a master while its overlapping restart is under way', () => {
  let overlaps = 0
  for (const { steps } of scenarios) {
    for (const [index, step] of steps.entries()) {
      if (step.action !== 'restart' || step.overlapMs === undefined) continue
      overlaps++
      const untilMs = step.atMs + step.overlapMs + 1_500
      const others = steps.slice(index + 1).filter(({ atMs }) => atMs < untilMs)
      for (const other of others) {
        if (!['kill', 'terminate', 'freeze', 'restart'].includes(other.action) || !('masters' in other)) continue
        const names: readonly string[] = typeof other.masters === 'string' ? [] : other.masters
        assert.ok(!names.some((name) => step.masters.includes(name)), JSON.stringify([step, other]))
      }
    }
  }
  assert.ok(overlaps > 10)
})

test('a replacement starts before the faults end, and no step names it until a second after its start', () => {
  let replacements = 0
  for (const { steps, durationMs } of scenarios) {
    for (const step of steps) {
      if (step.action !== 'replace' || step.masters === 'all') continue
      const startMs = step.atMs + step.pauseMs
      assert.ok(startMs + 1_000 <= durationMs - 60_000, JSON.stringify(step))
      const names = step.masters.map(successorName)
      const named = steps.filter((other) => 'masters' in other && names.some((name) => other.masters.includes(name)))
      replacements += named.length
      for (const other of named) assert.ok(other.atMs >= startMs + 1_000, JSON.stringify([step, other]))
    }
  }
  assert.ok(replacements > 10)
})

test('every schedule has at least two pauses of 20 seconds or more between faults', () => {
  for (const { steps } of scenarios) {
    const gaps = steps.slice(1).map(({ atMs }, index) => atMs - (steps[index]?.atMs ?? 0))
    assert.ok(gaps.filter((gapMs) => gapMs >= 20_000).length >= 2, JSON.stringify(gaps))
  }
})
