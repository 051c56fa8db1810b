import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { ConnectionOutcome } from '../../../src/drill/event.ts'
import { type ClientTarget, LiveClients } from '../../../src/drill/live/live-clients.ts'
import { listenAnywhere } from '../../../src/drill/live/tcp-proxy.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { eventually } from '../../support/with-timeout.ts'

const plan = { count: 4, intervalMs: 20, watchDelayMs: 30, timeoutMs: 100 }

test('clients connect to the listed addresses and report the outcome of each connection', async (t) => {
  const serving = await listening(t, (server) =>
    server.on('connection', (socket) => socket.end('HTTP/1.1 403 no\r\n\r\n')),
  )
  const silent = await listening(t, () => {})
  const targets: Readonly<Record<string, readonly ClientTarget[]>> = {
    '192.0.2.1': [{ port: serving, tls: false }],
    '192.0.2.2': [{ port: silent, tls: false }],
    // No server listens at port 1.
    '192.0.2.3': [{ port: 1, tls: false }],
    '192.0.2.4': [
      { port: 1, tls: false },
      { port: serving, tls: false },
    ],
  }
  const met = new Map<string, Set<ConnectionOutcome>>()
  // The connections that end when a server acts, not when time passes.
  let underWay = 0
  const isAnswered = (address: string): boolean => address !== '192.0.2.2' && targets[address] !== undefined
  const time = new VirtualClock()
  const clients = new LiveClients({
    plan,
    clock: time.view(),
    random: seededRandom(1, 'clients'),
    targetsOf: (address) => {
      if (isAnswered(address)) underWay++
      return targets[address] ?? []
    },
    connected: ({ address, outcome }) => {
      if (isAnswered(address)) underWay--
      met.set(address, (met.get(address) ?? new Set()).add(outcome))
    },
  })
  const end = new AbortController()
  const running = clients.run(end.signal)
  await time.advance(60)
  assert.deepEqual([...met], [['', new Set(['nobody'])]])
  clients.listed([...Object.keys(targets), '203.0.113.9'])
  for (let step = 0; step < 200; step++) {
    await time.advance(5)
    await eventually('the answers', () => underWay === 0)
  }
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
