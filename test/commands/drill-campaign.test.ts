import assert from 'node:assert/strict'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { campaignReport } from '../../src/commands/drill-campaign.ts'
import { type ScheduleResult, summarize } from '../../src/drill/campaign/campaign.ts'
import { randomScenario } from '../../src/drill/random/random-scenario.ts'
import { parseScenario } from '../../src/drill/scenario/parse.ts'
import { isAlive } from '../support/is-alive.ts'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram, startProgram } from './command-line.ts'

test('a campaign of three seeds in two processes succeeds and reports its cost', async (t) => {
  const directory = join(await tempDir(t), 'report')
  const args = ['drill', 'random', '--seed=1', '--runs=3', '--jobs=2', '--output=json', `--report=${directory}`]
  const { code, stdout } = await runProgram(t, args)
  assert.equal(code, 0, stdout)
  const { summary, failures } = JSON.parse(stdout)
  assert.deepEqual([summary.schedules, summary.failed, summary.interrupted, failures], [3, 0, false, []])
  assert.ok(summary.cpuMs.mean > 0 && summary.simulatorEvents.max > 1_000)
  assert.equal(await readFile(join(directory, 'campaign.json'), 'utf8'), stdout)
})

/** The process ids of the children of a process, on Linux. */
async function childrenOf(pid: number): Promise<readonly number[]> {
  const pids = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return pids.trim().split(' ').map(Number)
}

test('SIGINT ends a campaign and its processes; the results are printed even without a writable file', async (t) => {
  const directory = await tempDir(t)
  const file = join(directory, 'campaign.json')
  await mkdir(file)
  const child = await startProgram(t, ['drill', 'random', '--runs=100000', '--jobs=2', `--report=${directory}`])
  await child.output(/^0 of 100000 schedules, no failure so far$/m)
  const isLinux = process.platform === 'linux'
  const workers = isLinux ? await childrenOf(child.pid) : []
  assert.equal(workers.length, isLinux ? 2 : 0)
  child.kill('SIGINT')
  const { code } = await child.exited
  assert.deepEqual(workers.filter(isAlive), [])
  assert.equal(code, 1)
  assert.match(child.stdout(), /^interrupted: \d+ random schedules of ten minutes: no failure$/m)
  const message = `cannot write ${file}: it is a directory; correct that, or give --report another directory`
  assert.equal(child.stderr(), `apiserver-bootstrap: ${message}\n`)
})

const results = [1, 2, 3].map((seed): ScheduleResult => {
  const violations = seed === 1 ? [] : [{ atMs: 1_000, invariant: 'never-empty', detail: 'slice' }]
  const fleet = { leaseStore: 'etcd', leaseTtlMs: 15_000, reconcileIntervalMs: 10_000 } as const
  return { seed, violations, cpuMs: 1, simulatorEvents: 1, flaps: 0, fleet, digest: '' }
})
// A campaign does not shrink every schedule that fails.
const outcome = { results, shrunk: [{ seed: 3, scenario: randomScenario(3), tries: 7 }] }
const summary = { ...summarize(outcome, 1_000), interrupted: false }
const options = { seed: 1, runs: 3, version: '1.2.3' }

test('campaign.json names only the scenario files of its own campaign', () => {
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

test('without a report directory the JSON names no files, but the text still has the shortest schedules', () => {
  const { json, text } = campaignReport(outcome, summary, { ...options, report: undefined })
  assert.equal(json.includes('seed-3.yaml'), false)
  assert.match(text, /^3 random schedules of ten minutes: 2 failed$/m)
  assert.match(text, /\(7 tried\): apiserver-bootstrap drill seed-3\.yaml --seed 3$/m)
})

test('the text names scenario files with their directory', () => {
  const { text } = campaignReport(outcome, summary, { ...options, report: 'out' })
  assert.match(text, /apiserver-bootstrap drill out\/seed-3\.yaml --seed 3$/m)
})

test('the text has ten failures in full, and of the rest only the seeds', () => {
  const failing = Array.from({ length: 12 }, (_, index) => ({ ...(results[1] as ScheduleResult), seed: index + 1 }))
  const of = { results: failing, shrunk: [] }
  const { text } = campaignReport(
    of,
    { ...summarize(of, 1_000), interrupted: false },
    { ...options, report: undefined },
  )
  for (let seed = 1; seed <= 10; seed++) assert.match(text, new RegExp(`^seed ${seed} violates:$`, 'm'))
  assert.match(text, /^these seeds also failed: 11, 12$/m)
})
