import assert from 'node:assert/strict'
import { test } from 'node:test'
import { repairedWithin } from '../../src/bootstrap/startup-deadline.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { ReadinessMonitor } from '../../src/kubernetes-service/readiness-monitor.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

const starting: ReadinessAnswer = { answered: true, ready: false, checks: [] }
const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: 'HTTP status 401' }
const away: ReadinessAnswer = { answered: false, reason: 'connection refused' }

/** A start whose server answers with `answer`, which the test changes. */
function begin() {
  const time = new VirtualClock()
  const clock = time.view()
  const server = { answer: away, etcdAway: false }
  const readiness = { probe: async () => server.answer }
  const monitor = new ReadinessMonitor({
    readiness,
    clock,
    logger: silentLogger,
    gate: 'continuous',
    periodMs: 1_000,
  })
  const stop = new AbortController()
  const watching = monitor.run(stop.signal).catch(() => {})
  const settled = Promise.withResolvers<void>()
  let end = 'none'
  void repairedWithin(settled.promise, {
    monitor,
    clock,
    timeoutMs: 60_000,
    reason: () => 'node-port-repair: the range is full',
    away: () => server.etcdAway,
    signal: stop.signal,
  }).then(
    () => {
      end = 'settled'
    },
    (error: Error) => {
      end = error.message
    },
  )
  return {
    time,
    server,
    settle: () => settled.resolve(),
    end: () => end,
    async stop() {
      stop.abort(new Error('the test is over'))
      await time.advance(2_000)
      await watching
    },
  }
}

const message =
  'unable to perform initial IP and Port allocation check within 1m0s: node-port-repair: the range is full'

test("a start whose repairs take too long fails with upstream's message and the reason", async () => {
  const start = begin()
  start.server.answer = starting
  await start.time.advance(59_000)
  assert.equal(start.end(), 'none')
  await start.time.advance(2_000)
  assert.equal(start.end(), message)
  await start.stop()
})

test('the time counts from the first answer of the server', async () => {
  const start = begin()
  await start.time.advance(600_000)
  start.server.answer = starting
  await start.time.advance(59_000)
  assert.equal(start.end(), 'none')
  start.settle()
  await start.time.advance(1)
  assert.equal(start.end(), 'settled')
  await start.stop()
})

test('a server that is away when the time is over has the whole time again once it is back', async () => {
  const start = begin()
  start.server.answer = starting
  await start.time.advance(50_000)
  start.server.answer = away
  await start.time.advance(120_000)
  start.server.answer = starting
  await start.time.advance(58_000)
  assert.equal(start.end(), 'none')
  await start.time.advance(4_000)
  assert.equal(start.end(), message)
  await start.stop()
})

test('so has an etcd that is away', async () => {
  const start = begin()
  start.server.answer = starting
  start.server.etcdAway = true
  await start.time.advance(600_000)
  start.server.etcdAway = false
  await start.time.advance(58_000)
  assert.equal(start.end(), 'none')
  await start.time.advance(4_000)
  assert.equal(start.end(), message)
  await start.stop()
})

test('a server that refuses to tell its readiness is waited for, and has its time anew when it tells', async () => {
  const start = begin()
  start.server.answer = refused
  await start.time.advance(600_000)
  assert.equal(start.end(), 'none')
  start.server.answer = starting
  await start.time.advance(59_000)
  assert.equal(start.end(), 'none')
  await start.time.advance(3_000)
  assert.equal(start.end(), message)
  await start.stop()
})
