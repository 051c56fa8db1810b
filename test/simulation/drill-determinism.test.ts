import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { drillBytes } from './drill-bytes.ts'
import { foreignResources } from './tripwire.ts'

/** The Node.js version that the project pins. If another version runs this test, both must produce the same report. */
const node = 'node_modules/.bin/node'

test('drills of seven fleets use no timer or I/O outside the simulator, and another process computes the same reports', async () => {
  let lines: readonly string[] = []
  const foreign = await foreignResources(async () => {
    lines = await drillBytes()
  })
  assert.deepEqual(foreign, [])
  assert.ok(
    lines.every((line) => Number(line.split(' ')[1]) > 100),
    lines.join('\n'),
  )
  const { stdout } = await promisify(execFile)(node, ['test/simulation/drill-bytes.ts'])
  assert.deepEqual(stdout.trim().split('\n'), lines)
})
