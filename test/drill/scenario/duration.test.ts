import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatDuration } from '../../../src/documents/duration.ts'
import { randomScenario } from '../../../src/drill/random/random-scenario.ts'
import { renderJunit } from '../../../src/drill/report/junit.ts'
import { renderPage } from '../../../src/drill/report/page/page.ts'
import { renderText } from '../../../src/drill/report/text.ts'
import { runDrill, vary } from '../../../src/drill/run-drill.ts'
import { whyUnchecked } from '../../../src/drill/scenario/duration.ts'
import { builtInScenarios } from '../../../src/drill/scenario/load-scenario.ts'
import type { FleetPlan, MasterPlan, Scenario, Step } from '../../../src/drill/scenario/scenario.ts'
import { scenario } from '../report/reports.ts'

const short: Scenario = { ...scenario, durationMs: 10_000 }
const sentence =
  'Not everything could be judged: the effects of the last step are due by 25s, and the drill ended at 10s; lengthen its duration.'

test('a drill that ends before the effects of its last step are due holds, and each report states that', async () => {
  const report = await runDrill(short)
  assert.deepEqual([report.held, report.unchecked], [true, sentence])
  assert.ok(renderText(report).replaceAll('\n', ' ').includes(sentence))
  assert.ok(renderPage(report).includes(`<p>${sentence}</p>`))
  assert.ok(renderJunit(report).includes(`<property name="unchecked" value="${sentence}"/>`))
})

test('the effects of the last step are due after the recovery, or at the end of the longest lease', () => {
  const { steps, fleet } = short
  const long = { ...fleet, leaseTtlMs: 60_000 }
  const roll = { atMs: 5_000, action: 'rolling-restart', masters: 'all', part: 'both', pauseMs: 1_000 } as const
  const dueMs: readonly (readonly [changed: Partial<Scenario>, ms: number])[] = [
    [{}, 25_000],
    [{ fleet: long }, 67_000],
    [{ steps: steps.map((step) => ({ ...step, jitterMs: 2_000 })) }, 27_000],
    // A rolling restart lasts at least as long as its pauses.
    [{ steps: [roll] }, 28_000],
  ]
  for (const [changed, ms] of dueMs) {
    assert.equal(whyUnchecked({ ...short, ...changed, durationMs: ms }), undefined)
    assert.notEqual(whyUnchecked({ ...short, ...changed, durationMs: ms - 1 }), undefined)
  }
  assert.equal(whyUnchecked({ ...short, steps: [] }), undefined)
})

const slow = (byMs: number, over: object = {}): Step => {
  return { atMs: 5_000, action: 'slow', masters: ['master-1', 'master-2'], from: 'api', byMs, ...over }
}
const replace = (atMs: number, masters: 'all' | readonly string[]): Step => {
  return { atMs, action: 'replace', masters, pauseMs: 0 }
}
const heal = (atMs: number, masters: 'all' | readonly string[]): Step => ({ atMs, action: 'heal', masters })

test('a slow connection delays the time at which effects are due in proportion to its delay', () => {
  const dueMs: readonly (readonly [steps: readonly Step[], ms: number])[] = [
    // Twelve delayed messages count once if the slowness ends. If it lasts, they count twice: for the affected master
    // and for the one that reacts.
    [[slow(1_000, { forMs: 5_000 })], 10_000 + 20_000 + 12_000],
    [[slow(250)], 5_000 + 20_000 + 6_000],
    [[slow(1_000), heal(8_000, 'all')], 8_000 + 20_000 + 12_000],
    [[slow(1_000), heal(9_000, ['master-2', 'master-1'])], 9_000 + 20_000 + 12_000],
    // The masters recover one by one, each by another step. A replaced master is no longer slow.
    [[slow(1_000), heal(8_000, ['master-1']), heal(9_000, ['master-2'])], 9_000 + 20_000 + 12_000],
    [[slow(1_000, { masters: 'all' }), ...['1', '3', '2'].map((one) => heal(9_000, [`master-${one}`]))], 41_000],
    [[slow(1_000), replace(8_000, ['master-2']), heal(9_000, ['master-1'])], 41_000],
    [[replace(1_000, 'all'), slow(1_000), heal(9_000, ['master-1-anew', 'master-2-anew'])], 41_000],
    [[slow(1_000, { masters: ['master-3'] }), { atMs: 9_000, action: 'scale', to: 2 }], 41_000],
  ]
  for (const [steps, ms] of dueMs) {
    assert.equal(whyUnchecked({ ...short, steps, durationMs: ms }), undefined)
    const why = whyUnchecked({ ...short, steps, durationMs: ms - 1 })
    assert.ok(why?.includes(`due by ${formatDuration(ms)}`), why)
  }
})

const tooSlow = /a master that stays too slow/

function uncheckedFor(steps: readonly Step[], fleet = short.fleet): string {
  return whyUnchecked({ ...short, steps, fleet, durationMs: 3_600_000 }) ?? ''
}

test('the delay that is too slow for a lease depends on the TTL and kind of each master', () => {
  const { fleet } = short
  const [first = assert.fail(), ...others] = fleet.masters
  const withFirst = (own: Partial<MasterPlan>, rest: Partial<FleetPlan> = {}): FleetPlan => {
    return { ...fleet, ...rest, masters: [{ ...first, ...own }, ...others] }
  }
  const one = (name: string): readonly Step[] => [slow(500, { masters: [name] })]
  const long = withFirst({ settings: { leaseTtlMs: 60_000 } })
  assert.equal(uncheckedFor(one('master-1'), long), '')
  assert.match(uncheckedFor(one('master-2'), long), tooSlow)
  const upstream = withFirst({ kind: 'kube-apiserver' }, { leaseTtlMs: 60_000 })
  assert.match(uncheckedFor(one('master-1'), upstream), tooSlow)
  assert.equal(uncheckedFor(one('master-2'), upstream), '')
})

test('a slow path to the lease store matters only with leases in etcd or kine', () => {
  const steps = [slow(1_000, { from: 'store' })]
  for (const leaseStore of ['kubernetes', 'memory'] as const) {
    assert.equal(uncheckedFor(steps, { ...short.fleet, leaseStore }), '')
  }
  for (const leaseStore of ['etcd', 'kine'] as const) {
    assert.match(uncheckedFor(steps, { ...short.fleet, leaseStore }), tooSlow)
  }
})

test('effects in a fleet of kube-apiservers are due at their next reconcile, and every variant is checked', async () => {
  const kubeApiservers = { name: 'kube-apiserver', fleet: {}, kubeApiservers: true }
  const { fleet } = vary(short, kubeApiservers)
  assert.equal(whyUnchecked({ ...short, fleet, durationMs: 5_000 + 15_000 + 2_000 + 10_000 }), undefined)
  assert.match(whyUnchecked({ ...short, fleet, durationMs: 31_999 }) ?? '', /due by 32s/)
  const { unchecked } = await runDrill(
    { ...short, durationMs: 30_000 },
    { variants: [{ name: 'lease', fleet: {} }, kubeApiservers] },
  )
  assert.match(unchecked ?? '', /due by 32s/)
})

test('no effect is due for a master that stays too slow for its lease, and the report is marked as unchecked', async () => {
  for (const steps of [
    [slow(417)],
    [slow(417), heal(8_000, ['master-1'])],
    [heal(1_000, 'all'), slow(417)],
    // The heal happens at the same time but before the fault, or perhaps before it.
    [heal(5_000, 'all'), slow(417)],
    [slow(417, { jitterMs: 60_000 }), heal(8_000, 'all')],
  ]) {
    assert.match(uncheckedFor(steps), tooSlow)
  }
  const steps: readonly Step[] = [slow(1_000), { atMs: 6_000, action: 'kill', masters: ['master-3'], part: 'both' }]
  const fleet: FleetPlan = { ...scenario.fleet, reconciler: 'none' }
  const { held, unchecked } = await runDrill({ ...scenario, fleet, steps, durationMs: 120_000 })
  assert.deepEqual([held, unchecked !== undefined], [true, true])
})

test('built-in scenarios and random schedules are long enough for all effects to be due', async () => {
  const seeds = Array.from({ length: 100 }, (_, index) => index + 1)
  for (const one of [...(await builtInScenarios()), ...seeds.map(randomScenario)]) {
    assert.equal(whyUnchecked(one), undefined, one.name)
  }
})
