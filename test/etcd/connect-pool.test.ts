import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { EtcdError } from '../../src/etcd/kv.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { eventually } from '../support/with-timeout.ts'
import { answering, fails, LIMIT_MS, late, never, noLeader, opened, refuses, throwing } from './open-pool.ts'

test('the endpoint that answered last is tried first', async (t) => {
  const { pool, asked, ask, answers } = await opened(t, 3)
  assert.equal(await ask(), 'a')
  answers.a = throwing(fails)
  assert.equal(await ask(), 'b')
  answers.b = throwing(fails)
  answers.c = throwing(fails)
  answers.a = answering
  assert.equal(await ask(), 'a')
  assert.equal(await ask(), 'a')
  assert.deepEqual(asked.splice(0), ['a', 'a', 'b', 'b', 'c', 'a', 'a'])
  assert.equal(getEventListeners(pool.closing, 'abort').length, 0)
})

test('a request that may have taken effect tries the next endpoint only if it is repeatable', async (t) => {
  const { asked, ask, answers } = await opened(t, 3)
  for (const error of [fails, late]) {
    answers.a = throwing(error)
    await assert.rejects(ask('once'), { code: error === late ? 'Timeout' : 'ServerError' })
    assert.deepEqual(asked.splice(0), ['a'])
    assert.equal(await ask('once'), 'b', 'the next request starts with the other endpoint')
    answers.b = throwing(fails)
    answers.c = throwing(fails)
    answers.a = answering
    await ask()
    answers.b = answering
    answers.c = answering
    asked.splice(0)
  }
})

test('a request that had no effect tries the next endpoint, even if it is not repeatable', async (t) => {
  const { asked, ask, answers } = await opened(t, 3)
  answers.a = throwing(noLeader)
  answers.b = throwing(noLeader)
  assert.equal(await ask('once'), 'c')
  assert.deepEqual(asked, ['a', 'b', 'c'])
})

test('a refusal that every endpoint would give ends the request, and the endpoint stays the first', async (t) => {
  const { asked, ask, answers } = await opened(t, 2)
  answers.a = throwing(refuses)
  await assert.rejects(ask(), { code: 'Refused', message: /^etcd http:\S+: etcdserver: request is too large$/ })
  await assert.rejects(ask(), { code: 'Refused' })
  assert.deepEqual(asked, ['a', 'a'])
})

test('when all endpoints fail, each is tried once and the error names them all', async (t) => {
  const { asked, ask, answers, urls } = await opened(t, 3)
  for (const name of ['a', 'b', 'c'] as const) answers[name] = throwing(name === 'b' ? late : fails)
  await assert.rejects(ask(), {
    code: 'ServerError',
    message: `etcd ${urls.a}: database is locked; ${urls.b}: no answer in time; ${urls.c}: database is locked`,
  })
  assert.deepEqual(asked, ['a', 'b', 'c'])
})

test('no attempt begins later than two request timeouts after the call', async (t) => {
  for (const [stepMs, expected] of [
    [LIMIT_MS, ['a', 'b']],
    [LIMIT_MS - 1, ['a', 'b', 'c']],
  ] as const) {
    const { asked, ask, answers, time, clock } = await opened(t, 3)
    for (const name of ['a', 'b', 'c'] as const) {
      answers[name] = async () => {
        await sleep(clock, stepMs)
        throw late
      }
    }
    const call = assert.rejects(ask(), { code: 'Timeout' })
    for (let tries = 1; tries <= expected.length; tries++) {
      await eventually('a try', () => asked.length === tries)
      await time.advance(stepMs)
    }
    await call
    assert.deepEqual(asked, expected)
  }
})

test('during an election all endpoints are retried every 200 ms, until two request timeouts have passed', async (t) => {
  const { asked, ask, answers, time } = await opened(t, 2)
  answers.a = throwing(noLeader)
  answers.b = throwing(fails)
  const call = assert.rejects(ask(), { code: 'ServerError' })
  await eventually('the first round', () => asked.length === 2)
  await time.advance(199)
  assert.deepEqual(asked, ['a', 'b'])
  await time.advance(1)
  assert.deepEqual(asked, ['a', 'b', 'a', 'b'])
  await time.advance(2 * LIMIT_MS - 400 - 1)
  assert.equal(asked.length, 2 * 29)
  await time.advance(1)
  await call
  // The last round is the 30th, after 5.8 s. The next one would begin too late.
  assert.equal(asked.length, 2 * 30)

  answers.a = throwing(noLeader)
  answers.b = throwing(noLeader)
  const second = ask('once')
  await time.advance(1_000)
  answers.a = answering
  await time.advance(200)
  assert.equal(await second, 'a')
})

test('a request is retried for an election only if a server reports that it has no leader', async (t) => {
  const { ask, answers, asked, servers, seen } = await opened(t, 2)
  answers.a = throwing(fails)
  answers.b = throwing(fails)
  await assert.rejects(ask(), { code: 'ServerError' })
  assert.equal(asked.length, 2)
  await Promise.all([servers.a.proxy.refuse(), servers.b.proxy.refuse()])
  await eventually('the end of the connections', () => seen.every(({ server }) => !server.connection.usable))
  await assert.rejects(ask(), { code: 'Unreachable' })
})

test('aborting the signal ends the wait for an election at once', async (t) => {
  const { ask, answers, asked, timers } = await opened(t, 1)
  answers.a = throwing(noLeader)
  const stop = new AbortController()
  const reason = new Error('given up')
  const call = assert.rejects(ask('repeatable', stop.signal), reason)
  // One timer is for the end of an idle connection.
  await eventually('the pause', () => timers() === 2)
  stop.abort(reason)
  await call
  assert.deepEqual([asked.length, timers()], [1, 1])
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0)
})

test('an endpoint whose open connection turns out to be broken is tried once more over a new one', async (t) => {
  const { ask, answers, asked, servers } = await opened(t, 2)
  await ask()
  let failures = 1
  answers.a = async ({ connection }) => {
    if (failures-- > 0) await connection.close(new EtcdError('Unreachable', 'connection reset'))
    if (failures >= 0) throw new ConnectError('whatever', Code.Canceled)
    return undefined
  }
  answers.b = throwing(fails)
  assert.equal(await ask(), 'a')
  assert.deepEqual(asked.splice(0), ['a', 'a', 'b', 'a'])
  await eventually('one connection of each', () => servers.a.sockets.size === 1)

  failures = 10
  answers.b = answering
  assert.equal(await ask(), 'b', 'the other endpoint is tried first')
  answers.b = throwing(fails)
  await assert.rejects(ask(), { code: 'ServerError', message: /: database is locked; .*: connection reset$/ })
  assert.deepEqual(asked.splice(0), ['a', 'b', 'b', 'a'], 'an endpoint with a new connection is tried once')
})

test('a connection that the server has closed meanwhile is replaced, and nothing is sent over it', async (t) => {
  const { ask, asked, servers, seen } = await opened(t, 2)
  await ask()
  servers.a.cut()
  await eventually('the end of the connection', () => seen[0]?.server.connection.usable === false)
  assert.equal(await ask('once'), 'a')
  assert.deepEqual(asked, ['a', 'a'])
  assert.equal(seen[1]?.server.connection.usable, true)
})

test('an aborted request rejects with the reason at once, and abandons its endpoint and connection', async (t) => {
  const { ask, answers, asked, seen } = await opened(t, 2)
  answers.a = never
  const [stop, reason] = [new AbortController(), new Error('given up')]
  const call = assert.rejects(ask('repeatable', stop.signal), reason)
  await eventually('the request', () => asked.length === 1)
  assert.equal(seen[0]?.signal.aborted, false)
  stop.abort(reason)
  await call
  assert.equal(seen[0]?.signal.reason, reason)
  assert.equal(seen[0]?.server.connection.usable, false)
  assert.equal(await ask(), 'b')
  answers.a = answering
  answers.b = throwing(fails)
  assert.equal(await ask(), 'a')
  assert.notEqual(seen.at(-1)?.server.connection, seen[0]?.server.connection)
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0)
})

test('a request whose signal is already aborted is not sent, and changes nothing', async (t) => {
  const { ask, asked, servers } = await opened(t, 2)
  const reason = new Error('given up')
  await assert.rejects(ask('once', AbortSignal.abort(reason)), reason)
  assert.deepEqual([asked, servers.a.sockets.size], [[], 0])
  assert.equal(await ask(), 'a')
})

test('after a timeout a connection gets no further requests, but stays open for its watches', async (t) => {
  const { ask, answers, asked, seen } = await opened(t, 1)
  await ask()
  const { connection } = seen[0]?.server ?? assert.fail()
  const watch = await connection.request('POST', '/watch', {})
  watch.on('error', () => {})
  answers.a = throwing(late)
  await assert.rejects(ask(), { code: 'Timeout' })
  answers.a = answering
  await ask()
  assert.deepEqual(asked, ['a', 'a', 'a'])
  assert.notEqual(seen[2]?.server.connection, connection)
  assert.equal(connection.usable, true)
  watch.destroy()
  await eventually('the end of the connection', () => !connection.usable)
})

test('of two requests that fail late on an old connection, the second does not replace the new connection', async (t) => {
  const { ask, answers, asked, seen } = await opened(t, 1)
  const stops = [new AbortController(), new AbortController()] as const
  answers.a = never
  const calls = stops.map(({ signal }) => assert.rejects(ask('once', signal)))
  await eventually('the requests', () => asked.length === 2)
  assert.equal(seen[0]?.server, seen[1]?.server, 'over the same connection')
  stops[0].abort()
  await calls[0]
  answers.a = answering
  await ask()
  stops[1].abort()
  await calls[1]
  await ask()
  assert.equal(seen[3]?.server, seen[2]?.server)
  assert.equal(seen[3]?.server.connection.usable, true)
})

test('a late failure of an abandoned endpoint does not replace the current first endpoint', async (t) => {
  const { ask, answers, asked, pool, seen } = await opened(t, 3)
  const fail = Promise.withResolvers<never>()
  answers.a = () => fail.promise
  const call = ask()
  await eventually('the request', () => asked.length === 1)
  const { server } = seen[0] ?? assert.fail()
  pool.leave(server, new EtcdError('Unreachable', 'the watch broke'))
  assert.equal(await ask(), 'b')
  pool.leave(server, new EtcdError('Unreachable', 'the watch broke'))
  fail.reject(fails)
  assert.equal(await call, 'b')
  answers.a = answering
  assert.equal(await ask(), 'b')
})

test('a switch of endpoints is logged when the new one answers, with the error of the previous one', async (t) => {
  const { ask, answers, logger, urls } = await opened(t, 3)
  for (const name of ['a', 'b'] as const) answers[name] = throwing(fails)
  await ask()
  assert.equal(logger.lines.length, 0, 'a first endpoint that answers is no switch')
  answers.c = throwing(noLeader)
  answers.a = answering
  await ask()
  await ask()
  const [line, ...more] = logger.lines
  assert.deepEqual([line?.message, line?.fields.endpoint, more], ['switched to another etcd endpoint', urls.a, []])
  assert.match(String(line?.fields.error), /etcdserver: no leader/)
  answers.a = throwing(refuses)
  await assert.rejects(ask())
  assert.equal(logger.lines.length, 1)
})

test('a late answer of an endpoint that is no longer the first is not a switch of endpoints', async (t) => {
  const { ask, answers, asked, pool, logger, seen } = await opened(t, 2)
  const answer = Promise.withResolvers<undefined>()
  answers.a = () => answer.promise
  const slow = ask()
  await eventually('the request', () => asked.length === 1)
  pool.leave(seen[0]?.server ?? assert.fail(), new EtcdError('Unreachable', 'the watch broke'))
  assert.equal(await ask(), 'b')
  answer.resolve(undefined)
  assert.equal(await slow, 'a')
  assert.equal(await ask(), 'b')
  assert.equal(logger.lines.length, 0)
})
