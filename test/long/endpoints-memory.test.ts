import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

const ROUNDS = 300
/** After so many rounds the process is fully warmed up. */
const warm = 150
const measured = 50
const mayGrowBytes = 300_000

test(`the memory of the controllers does not grow over ${ROUNDS} rounds of churn and faults`, async (t) => {
  const args = ['--expose-gc', 'test/simulation/workload-memory.ts', `${ROUNDS}`]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const used = JSON.parse(stdout) as readonly number[]
  // The memory in use at one moment depends on what the cluster contains then.
  const averageOf = (of: readonly number[]): number => of.reduce((sum, bytes) => sum + bytes, 0) / of.length
  const early = averageOf(used.slice(warm, warm + measured))
  const late = averageOf(used.slice(-measured))
  t.diagnostic(`${Math.round(early / 1024)} KiB early, ${Math.round(late / 1024)} KiB late`)
  assert.ok(late < early + mayGrowBytes, `${late} bytes, ${early} before`)
})
