import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { foreignResources } from '../simulation/tripwire.ts'
import { inUnitOrFloor } from '../support/tier.ts'
import { describeShortFailure, runShortSchedule } from './short-schedule.ts'

const SEEDS = inUnitOrFloor(16, 60)
const UNDER_TRIPWIRE = inUnitOrFloor(8, 16)
const COMPARED = inUnitOrFloor(6, 16)
/** The Node.js version that the project pins. If another version runs this test, both must produce the same digests. */
const node = 'node_modules/.bin/node'

test(`the first minutes of ${SEEDS} random schedules violate no invariant, and ${COMPARED} of them have the same digest in two processes`, async (t) => {
  const lines: string[] = []
  const failures: string[] = []
  const run = async (first: number, last: number): Promise<void> => {
    for (let seed = first; seed <= last; seed++) {
      const { digest, violations } = await runShortSchedule(seed)
      lines.push(`${seed} ${digest}`)
      if (violations.length > 0) failures.push(describeShortFailure(seed, violations))
    }
  }
  await t.test(
    `simulated code of ${UNDER_TRIPWIRE} schedules creates no timer, socket or other resource outside the simulator`,
    async () => {
      assert.deepEqual(await foreignResources(() => run(1, UNDER_TRIPWIRE)), [])
    },
  )
  // Not earlier: the tripwire would attribute the child's resources to a schedule.
  const other = promisify(execFile)(node, ['test/drill/schedule-digests.ts', '1', String(COMPARED)])
  other.catch(() => {})
  t.after(() => other.child.kill())
  await run(UNDER_TRIPWIRE + 1, SEEDS)
  assert.equal(failures.length, 0, failures.slice(0, 3).join('\n'))
  // The other process ran with answers that share their parts.
  assert.deepEqual((await other).stdout.trim().split('\n'), lines.slice(0, COMPARED))
})
