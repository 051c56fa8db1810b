import assert from 'node:assert/strict'
import { test } from 'node:test'
import { campaignReport } from '../../src/commands/drill-campaign-report.ts'
import { summarize } from '../../src/drill/campaign/campaign-summary.ts'
import type { ScheduleResult } from '../../src/drill/campaign/schedule-result.ts'
import { parseScenario } from '../../src/drill/parse-scenario.ts'
import { randomScenario } from '../../src/drill/random/random-scenario.ts'

const results = [1, 2, 3].map((seed): ScheduleResult => {
  const violations = seed === 1 ? [] : [{ atMs: 1_000, invariant: 'never-empty', detail: 'slice' }]
  const fleet = { leaseStore: 'etcd', leaseTtlMs: 15_000, reconcileIntervalMs: 10_000 } as const
  return { seed, violations, cpuMs: 1, simulatorEvents: 1, flaps: 0, fleet, digest: '' }
})
// Not for every schedule that fails the shortest one is looked for.
const outcome = { results, shrunk: [{ seed: 3, scenario: randomScenario(3), tries: 7 }] }
const summary = { ...summarize(outcome, 1_000), interrupted: false }
const options = { seed: 1, runs: 3, version: '1.2.3' }

test('campaign.json names the scenario files that are of this campaign, and no other', () => {
  const { files, json } = campaignReport(outcome, summary, { ...options, report: 'out' })
  const { failures } = JSON.parse(json)
  assert.deepEqual(
    failures.map(({ seed, file }: { readonly seed: number; readonly file?: string }) => [seed, file]),
    [
      [2, undefined],
      [3, 'seed-3.yaml'],
    ],
  )
  assert.deepEqual(Object.keys(files).sort(), ['campaign.json', 'seed-3.yaml'])
  assert.equal(files['campaign.json'], json)
  assert.deepEqual(parseScenario(files['seed-3.yaml'] ?? '', 'seed-3.yaml'), randomScenario(3))
})

test('without a directory it has no files to name; the text has the shortest schedules all the same', () => {
  const { json, text } = campaignReport(outcome, summary, { ...options, report: undefined })
  assert.equal(json.includes('seed-3.yaml'), false)
  assert.match(text, /^3 random schedules of ten minutes: 2 did not hold$/m)
  assert.match(text, /of 7 tried: apiserver-bootstrap drill seed-3\.yaml --seed 3$/m)
})

test('the text names the files where they are', () => {
  const { text } = campaignReport(outcome, summary, { ...options, report: 'out' })
  assert.match(text, /apiserver-bootstrap drill out\/seed-3\.yaml --seed 3$/m)
})
