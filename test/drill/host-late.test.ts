import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderJunit } from '../../src/drill/report/junit.ts'
import { renderPage } from '../../src/drill/report/page/page.ts'
import { renderText } from '../../src/drill/report/text.ts'
import { runDrill } from '../../src/drill/run-drill.ts'
import type { Scenario } from '../../src/drill/scenario/scenario.ts'
import { SimulatedTarget } from '../../src/drill/simulator/target.ts'
import { scenario } from './report/reports.ts'

class OnLateHost extends SimulatedTarget {
  readonly latenessMs: number

  constructor(scenario: Scenario, seed: number, latenessMs: number) {
    super(scenario.fleet, seed)
    this.latenessMs = latenessMs
  }
}

test('reports state how late timers on the host fired only if that exceeds what invariants and leases allow', async () => {
  const short = { ...scenario, durationMs: 10_000 }
  const drillOn = (...latenessesMs: readonly number[]) =>
    runDrill(short, {
      runs: latenessesMs.length,
      createTarget: async (varied, seed) => new OnLateHost(varied, seed, latenessesMs[seed - 1] ?? 0),
    })
  const inTime = await drillOn(375)
  assert.equal(inTime.hostLate, undefined)
  assert.doesNotMatch(renderText(inTime), /host/)

  const late = await drillOn(10, 3_210, 500)
  const sentence = late.hostLate ?? ''
  assert.match(
    sentence,
    /^Timers on this host fired up to 3\.2 s late, but the invariants and the leases allow 375ms: /,
  )
  assert.ok(renderText(late).replaceAll('\n', ' ').includes(sentence))
  assert.ok(renderJunit(late).includes('<property name="hostLate" value="Timers on this host fired up to 3.2 s late'))
  assert.ok(renderPage(late).includes('<p>Timers on this host fired up to 3.2 s late'))
})
