import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { runScenario } from './scenario.ts'

const SEEDS = 200
const UNDER_TRIPWIRE = 50
/** The Node that the project brings: where this test runs on another one, both must come to the same. */
const node = 'node_modules/.bin/node'

test(`${SEEDS} random schedules: never an empty list, no dead master listed for long, the same in two processes`, async () => {
  const other = promisify(execFile)(node, ['test/simulation/digests.ts', '1', String(SEEDS)])
  const lines: string[] = []
  const failures: string[] = []
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { schedule, violations, digest } = await runScenario(seed)
    lines.push(`${seed} ${digest}`)
    if (violations.length > 0) failures.push([`seed ${seed}:`, ...violations, ...schedule].join('\n  '))
  }
  assert.equal(failures.length, 0, failures.slice(0, 3).join('\n'))
  assert.deepEqual((await other).stdout.trim().split('\n'), lines)
})

test(`in ${UNDER_TRIPWIRE} of them simulated code waits only for what the simulator settles`, async () => {
  const settling = ['PROMISE', 'Immediate', 'TickObject', 'Microtask']
  const foreign = new Set<string>()
  const tripwire = createHook({
    init(_id, type) {
      if (!settling.includes(type)) foreign.add(type)
    },
  }).enable()
  try {
    for (let seed = 1; seed <= UNDER_TRIPWIRE; seed++) await runScenario(seed)
  } finally {
    tripwire.disable()
  }
  assert.deepEqual([...foreign], [])
})
