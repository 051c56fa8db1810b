import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderJunit } from '../../src/drill/report/junit.ts'
import { renderPage } from '../../src/drill/report/page/page.ts'
import type { DrillReport } from '../../src/drill/report/report.ts'
import { renderText } from '../../src/drill/report/text.ts'
import { runDrill, type Variant } from '../../src/drill/run-drill.ts'
import type { FleetPlan, Scenario, Step } from '../../src/drill/scenario/scenario.ts'
import { scenarioOf } from './drilled.ts'
import { fleetPlan } from './simulator/fleet-under-test.ts'

type Failing = Extract<Step, { readonly action: 'requests-fail' }>

const kill: Step = { atMs: 5_000, action: 'kill', masters: ['master-1'], part: 'both' }

/** A fleet that never removes its dead master, with a fault of requests of all masters. */
function neglecting(fault: Pick<Failing, 'how'> & Partial<Failing>, plan: Partial<FleetPlan> = {}): Scenario {
  const times = { leaseTtlMs: 6_000, reconcileIntervalMs: 3_000 }
  const fleet = fleetPlan(3, { reconciler: 'none', leaseStore: 'kubernetes', ...times, ...plan })
  return scenarioOf(fleet, [{ atMs: 2_000, action: 'requests-fail', masters: 'all', ...fault }, kill])
}

function brokenIn({ variants }: DrillReport): readonly string[] {
  return variants.flatMap(({ runs }) => runs.flatMap(({ violations }) => violations.map(({ invariant }) => invariant)))
}

const harmless: Readonly<Record<string, Scenario>> = {
  'a delay of one millisecond': neglecting({ how: 'delay', byMs: 1 }),
  'a delay of requests that no master makes': neglecting({ how: 'delay', byMs: 5_000, resource: 'pods' }),
  'a refusal of Leases while the leases are in etcd': neglecting(
    { how: 'status', status: 403, resource: 'leases', verb: 'delete' },
    { leaseStore: 'etcd' },
  ),
  'a single cut of watches': neglecting({ how: 'cut-watches' }),
  'one request that hangs': neglecting({ how: 'hang', requests: 1 }),
}

for (const [what, scenario] of Object.entries(harmless)) {
  test(`${what} at all masters does not hide that a dead master stays listed`, async () => {
    const report = await runDrill(scenario)
    assert.ok(brokenIn(report).includes('dead-master-removed'), renderText(report))
    assert.equal(report.unchecked, undefined)
  })
}

test('if no running master is healthy, each report states that a dead and listed address was not judged', async () => {
  const report = await runDrill(neglecting({ how: 'hang' }))
  assert.deepEqual([report.held, brokenIn(report)], [true, []])
  const sentence =
    'Not everything could be judged: dead at the end and still listed: 192.0.2.1, but no running master counted as healthy, so dead-master-removed and in-sync-after-the-last-fault could not be judged;'
  assert.ok(report.unchecked?.startsWith(sentence), report.unchecked)
  const text = renderText(report)
  assert.ok(text.replaceAll('\n', ' ').includes(sentence))
  assert.match(text, /\n\nheld, but not everything could be judged: seed 1$/)
  assert.ok(renderPage(report).includes(`<p>${sentence}`))
  assert.ok(renderJunit(report).includes(`<property name="unchecked" value="${sentence}`))
})

test('a dead fleet that stays listed leaves nothing unjudged, because nobody is left who could remove it', async () => {
  const fleet = fleetPlan(3, { reconciler: 'none' })
  const report = await runDrill(scenarioOf(fleet, [{ ...kill, masters: 'all' }]))
  assert.deepEqual([report.held, report.unchecked], [true, undefined])
})

test('reports name the steps of failing requests that hit nothing, for each variant', async () => {
  const fault = { how: 'status', status: 403, resource: 'leases' } as const
  const variants: readonly Variant[] = [
    { name: 'lease (kubernetes)', fleet: { reconciler: 'lease' } },
    { name: 'lease (etcd)', fleet: { reconciler: 'lease', leaseStore: 'etcd' } },
    { name: 'kube-apiserver', fleet: {}, kubeApiservers: true },
  ]
  const report = await runDrill({ ...neglecting({ ...fault, forMs: 5_000 }), durationMs: 60_000 }, { variants })
  const step = 'requests-fail all status 403 leases for 5s at 2s hit no request with'
  assert.equal(report.idle, `${step} lease (etcd); ${step} kube-apiserver.`)
  assert.ok(
    renderText(report)
      .replaceAll('\n', ' ')
      .includes(report.idle ?? assert.fail()),
  )
  assert.ok(renderPage(report).includes(`<p>${report.idle}</p>`))
  assert.ok(renderJunit(report).includes(`<property name="idle" value="${report.idle}"/>`))
})
