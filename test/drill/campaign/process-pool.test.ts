import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CampaignReport } from '../../../src/drill/campaign/campaign.ts'
import { ProcessPool } from '../../../src/drill/campaign/process-pool.ts'
import { runSchedule } from '../../../src/drill/campaign/run-schedule.ts'
import { randomScenario } from '../../../src/drill/random/random-scenario.ts'

test('a worker process returns the same result as a run in this process', async (t) => {
  const pool = new ProcessPool(1)
  t.after(() => pool.close())
  const reports: CampaignReport[] = []
  await pool.workers[0]?.perform({ type: 'run', firstSeed: 3, count: 1 }, (one) => reports.push(one))
  const { digest, simulatorEvents, flaps, violations } = await runSchedule(randomScenario(3), 3)
  const [first] = reports
  assert.ok(reports.length === 1 && first?.type === 'ran')
  const { cpuMs, fleet, ...result } = first.result
  assert.deepEqual(result, { seed: 3, digest, simulatorEvents, flaps, violations })
  assert.ok(cpuMs > 0)
  assert.equal(fleet.leaseStore, randomScenario(3).fleet.leaseStore)
})

test('the death of a worker process rejects its task with the signal; a closed pool ends its task without error', async (t) => {
  const pool = new ProcessPool(2)
  t.after(() => pool.close())
  const [dying, closed] = pool.workers
  const task = { type: 'run', firstSeed: 1, count: 1_000 } as const
  const dead = dying?.perform(task, () => {})
  process.kill(dying?.pid ?? 0, 'SIGKILL')
  await assert.rejects(dead ?? Promise.resolve(), { message: 'a process of the campaign ended by SIGKILL' })
  const quiet = closed?.perform(task, () => {})
  await pool.close()
  await quiet
})
