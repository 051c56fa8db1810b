import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Child, spawnChild } from '../support/spawn-child.ts'

const cli = join(import.meta.dirname, '../../dist/cli.js')

function start(t: Parameters<typeof spawnChild>[0], ...args: readonly string[]): Promise<Child> {
  return spawnChild(t, process.execPath, [cli, ...args])
}

test('these tests run on the oldest supported Node, 22.19.0', () => {
  assert.equal(process.versions.node, '22.19.0')
})

test('the built command line prints its version and its commands', async (t) => {
  const version = await start(t, '--version')
  assert.deepEqual(await version.exited, { code: 0, signal: null })
  assert.match(version.stdout(), /^apiserver-bootstrap \d+\.\d+\.\d+ \(Node 22\.19\.0\)\n$/)

  const help = await start(t, '--help')
  assert.deepEqual(await help.exited, { code: 0, signal: null })
  for (const command of ['run', 'withdraw', 'config']) assert.match(help.stdout(), new RegExp(`^ +${command} `, 'm'))
})

test('an invalid flag gives one line on stderr and exit code 2', async (t) => {
  const child = await start(t, 'run', '--embedded', '--advertise-address', '010.0.0.1')
  assert.deepEqual(await child.exited, { code: 2, signal: null })
  assert.match(child.stderr(), /^[^\n]*--advertise-address[^\n]*010\.0\.0\.1[^\n]*\n$/)
})

test('the built program runs with its embedded API server and exits with 0 on SIGTERM', async (t) => {
  const child = await start(
    t,
    'run',
    '--embedded',
    '--advertise-address',
    '192.0.2.1',
    '--health-bind-address',
    '127.0.0.1:0',
  )
  await child.output(/192\.0\.2\.1/)
  child.kill('SIGTERM')
  assert.deepEqual(await child.exited, { code: 0, signal: null }, child.stderr())
})
