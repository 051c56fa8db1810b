import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'

// Run by leaks.test.ts: every test here passes, and leaves something behind.

test('leaves a server', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
})

test('leaves a timer', () => {
  setTimeout(() => {}, 60_000)
})

test('leaves a process', () => {
  spawn(process.execPath, ['--eval', 'setTimeout(() => {}, 60_000)'], { stdio: 'ignore' }).unref()
})

test('leaves a rejection', () => {
  void Promise.reject(new Error('nobody listens'))
})
