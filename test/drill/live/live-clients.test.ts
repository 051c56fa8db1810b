import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConnectionOutcome } from '../../../src/drill/event.ts'
import { listenAnywhere } from '../../../src/drill/live/free-port.ts'
import { type ClientTarget, LiveClients } from '../../../src/drill/live/live-clients.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'

const plan = { count: 4, intervalMs: 20, watchDelayMs: 30, timeoutMs: 100 }

test('clients connect to what the slice listed, and tell what they met', async (t) => {
  const serving = await listening(t, (server) =>
    server.on('connection', (socket) => socket.end('HTTP/1.1 403 no\r\n\r\n')),
  )
  const silent = await listening(t, () => {})
  const targets: Readonly<Record<string, readonly ClientTarget[]>> = {
    '192.0.2.1': [{ port: serving, tls: false }],
    '192.0.2.2': [{ port: silent, tls: false }],
    // Nobody listens at the first.
    '192.0.2.3': [{ port: 1, tls: false }],
    '192.0.2.4': [
      { port: 1, tls: false },
      { port: serving, tls: false },
    ],
  }
  const met = new Map<string, Set<ConnectionOutcome>>()
  const clients = new LiveClients({
    plan,
    clock: systemClock,
    random: seededRandom(1, 'clients'),
    targetsOf: (address) => targets[address] ?? [],
    connected: ({ address, outcome }) => void met.set(address, (met.get(address) ?? new Set()).add(outcome)),
  })
  const end = new AbortController()
  const running = clients.run(end.signal)
  await sleep(60)
  assert.deepEqual([...met], [['', new Set(['nobody'])]])
  clients.hear([...Object.keys(targets), '203.0.113.9'])
  for (let waited = 0; met.size < 6 && waited < 100; waited++) await sleep(50)
  end.abort()
  await running
  assert.deepEqual(
    [...met].sort(([a], [b]) => (a < b ? -1 : 1)).map(([address, outcomes]) => [address, [...outcomes].join()]),
    [
      ['', 'nobody'],
      ['192.0.2.1', 'served'],
      ['192.0.2.2', 'black-holed'],
      ['192.0.2.3', 'refused'],
      ['192.0.2.4', 'served'],
      ['203.0.113.9', 'black-holed'],
    ],
  )
})

async function listening(t: TestContext, prepare: (server: Server) => void): Promise<number> {
  const server = createServer((socket) => {
    t.after(() => void socket.destroy())
    socket.on('error', () => {})
  })
  prepare(server)
  t.after(() => void server.close())
  return listenAnywhere(server)
}
