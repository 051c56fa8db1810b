import assert from 'node:assert/strict'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { EtcdError } from '../../src/etcd/kv.ts'
import { certificateFile } from '../kube/loopback-server.ts'
import { endReadingsOf, makeHangingFile } from '../support/hanging-file.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually, withTimeout } from '../support/with-timeout.ts'
import { CONNECT_MS, late, never, opened, throwing } from './open-pool.ts'

test('concurrent requests share an opening connection; an aborted one leaves the attempt to the others', async (t) => {
  const { ask, asked, servers, seen } = await opened(t, 1)
  servers.a.proxy.hold(true)
  const [first, second] = [new AbortController(), new AbortController()]
  const given = [first, second].map(({ signal }) => assert.rejects(ask('once', signal)))
  const other = ask()
  await eventually('an attempt', () => servers.a.proxy.connections === 1)
  first.abort()
  await given[0]
  // This request has its own connection attempt, because the first one may never succeed.
  const third = ask()
  await eventually('another attempt', () => servers.a.proxy.connections === 2)
  second.abort()
  await given[1]
  const fourth = ask()
  servers.a.proxy.hold(false)
  assert.deepEqual(await Promise.all([other, third, fourth]), ['a', 'a', 'a'])
  await eventually('one connection', () => servers.a.sockets.size === 1)
  assert.deepEqual([asked.length, servers.a.connections()], [3, 2])
  assert.equal(new Set(seen.map(({ server }) => server)).size, 1)
})

test('a request after an abandoned attempt has failed uses the newer attempt, and opens no third', async (t) => {
  const { ask, servers, time } = await opened(t, 1)
  servers.a.proxy.hold(true)
  const stop = new AbortController()
  const given = assert.rejects(ask('once', stop.signal))
  await eventually('an attempt', () => servers.a.connections() === 1)
  await time.advance(500)
  stop.abort()
  await given
  const second = ask()
  await eventually('another attempt', () => servers.a.connections() === 2)
  await time.advance(CONNECT_MS - 500)
  const third = ask()
  servers.a.proxy.hold(false)
  await Promise.all([second, third])
  assert.equal(servers.a.connections(), 2)
})

test('an endpoint abandoned during the connection attempt is no longer tried first', async (t) => {
  const { ask, servers } = await opened(t, 2)
  servers.a.proxy.hold(true)
  const stop = new AbortController()
  const given = assert.rejects(ask('once', stop.signal))
  await eventually('an attempt', () => servers.a.proxy.connections === 1)
  stop.abort()
  await given
  assert.equal(await ask('once'), 'b')
  servers.a.proxy.hold(false)
})

test('an endpoint that does not connect in time, or refuses to, is skipped even by a write', async (t) => {
  const { ask, asked, servers, time } = await opened(t, 3)
  servers.a.proxy.hold(true)
  await servers.b.proxy.refuse()
  const call = ask('once')
  await eventually('an attempt', () => servers.a.proxy.connections === 1)
  await time.advance(CONNECT_MS)
  assert.equal(await call, 'c')
  assert.deepEqual(asked, ['c'])
  servers.a.proxy.hold(false)
})

test('closing the pool ends all requests, attempts and connections, and later requests fail', async (t) => {
  const { pool, ask, answers, servers, asked, seen, timers } = await opened(t, 2)
  await ask()
  const { connection } = seen[0]?.server ?? assert.fail()
  const watch = await connection.request('POST', '/watch', {})
  watch.on('error', () => {})
  answers.a = throwing(late)
  await assert.rejects(ask('once'))
  answers.b = never
  const waiting = ask()
  await eventually('the request', () => asked.length === 3)
  servers.a.proxy.hold(true)
  const stop = new AbortController()
  pool.leave(seen[2]?.server ?? assert.fail(), new EtcdError('Unreachable', 'left'))
  const opening = ask('once', stop.signal)
  await eventually('an attempt', () => servers.a.proxy.connections === 2)
  const closed = new EtcdError('Unreachable', 'etcd: the client closed the connection')
  const ends = [waiting, opening].map((call) => assert.rejects(call, closed))
  let isClosed = false
  void connection.closed.then(() => {
    isClosed = true
  })
  await withTimeout(pool.close(), 20_000, 'closing')
  assert.equal(isClosed, true)
  await Promise.all(ends)
  servers.a.proxy.hold(false)
  assert.equal(seen[2]?.server.connection.usable, false)
  assert.equal(timers(), 0)
  await assert.rejects(ask(), closed)
  assert.equal(asked.length, 3)
  await pool.close()
  await eventually('no connection', () => servers.a.sockets.size + servers.b.sockets.size === 0)
})

test('closing the pool does not wait for a hanging certificate file', async (t) => {
  const cafile = join(await tempDir(t), 'ca.crt')
  makeHangingFile(cafile)
  const { pool, ask } = await opened(t, 1, { cafile })
  const asking = assert.rejects(ask(), /the client closed the connection/)
  try {
    await withTimeout(pool.close(), 5_000, 'closing')
    await asking
  } finally {
    await endReadingsOf(cafile)
  }
})

test('a missing certificate file fails the request, and no other endpoint is tried', async (t) => {
  const { ask, asked } = await opened(t, 2, { cafile: '/nowhere/ca.crt' })
  await assert.rejects(ask(), { code: 'NoCredentials', message: /^etcd https:\S+: \/nowhere\/ca\.crt does not exist$/ })
  assert.deepEqual(asked, [])
})

test('while a TLS connection is in use, its certificate files are read again every minute', async (t) => {
  const directory = await tempDir(t)
  const cafile = join(directory, 'ca.crt')
  await copyFile(certificateFile('ca.crt'), cafile)
  const { ask, time, logger } = await opened(t, 1, { cafile })
  await ask()
  await writeFile(cafile, '')
  await time.advance(59_999)
  await ask()
  await time.advance(1)
  assert.equal(await ask(), 'a')
  await eventually('the line', () => logger.lines.length > 0)
  assert.equal(logger.lines.length, 1)
  assert.match(logger.lines[0]?.message ?? '', /^the certificates for etcd cannot be used/)
})
