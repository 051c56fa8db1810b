import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { spawnChild } from '../spawn-child.ts'

// Run by leaks.test.ts: all is undone, some of it a moment after the test's end.

test('leaves nothing', async (t) => {
  await spawnChild(t, process.execPath, ['--eval', 'setTimeout(() => {}, 60_000)'])
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  setTimeout(() => server.close(), 100)
  assert.ok(server.listening)
})
