import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spawnChild } from './spawn-child.ts'

test('a run fails for leaks, late errors, skipped tests and a file without tests, but not for a clean file', async (t) => {
  const names = ['leaves-things', 'leaves-an-idle-connection', 'skips', 'is-empty', 'is-clean', 'throws-later']
  const files = names.map((name) => `test/support/samples/${name}.ts`)
  const args = ['scripts/test.ts', 'unit', ...files]
  const child = await spawnChild(t, process.execPath, args, { env: { TEST_GRACE_MS: '5000' } })
  const { code } = await child.exited
  const output = child.stdout() + child.stderr()

  assert.equal(code, 1, output)
  assert.match(output, /leaves-things\.ts: left open after the last test: .*process \d+ .* in state \w.*1 Timeout/)
  assert.match(output, /leaves-things\.ts: left open after the last test: .*1 TCPServerWrap/)
  assert.match(output, /unhandled rejection: Error: nobody listens/)
  assert.match(output, /nobody catches/)
  assert.match(output, /leaves-an-idle-connection\.ts: left open after the last test: socket/)
  assert.match(output, /skipped or todo: is skipped \(test\/support\/samples\/skips\.ts\)/)
  assert.match(output, /skipped or todo: is to be done/)
  assert.match(output, /no test in test\/support\/samples\/is-empty\.ts/)
  assert.doesNotMatch(output, /is-clean/)
  assert.match(output, /^unit: 8 passed, 3 failed, 6 files/m)
})

test('a run of a file that does not exist fails', async (t) => {
  const child = await spawnChild(t, process.execPath, ['scripts/test.ts', 'unit', 'test/support/samples/missing.ts'])
  assert.deepEqual(await child.exited, { code: 1, signal: null })
  assert.match(child.stderr(), /no test file in test\/support\/samples\/missing\.ts/)
})

test('a run whose pattern matches no test fails; otherwise only the matching tests count', async (t) => {
  const files = ['test/support/samples/is-clean.ts', 'test/support/samples/skips.ts']
  const run = (pattern: string) =>
    spawnChild(t, process.execPath, ['scripts/test.ts', 'unit', ...files, '--test-name-pattern', pattern])
  const nothing = await run('no such test')
  assert.deepEqual(await nothing.exited, { code: 1, signal: null })
  assert.match(nothing.stderr(), /no test ran/)
  const one = await run('leaves nothing')
  assert.deepEqual(await one.exited, { code: 0, signal: null })
  assert.match(one.stdout(), /^unit: 1 passed, 0 failed/m)
})
