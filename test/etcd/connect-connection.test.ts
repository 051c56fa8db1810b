import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientHttp2Stream, createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { createServer as createTcpServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { defaultTimes, EtcdConnection } from '../../src/etcd/connect-connection.ts'
import { EtcdError } from '../../src/etcd/kv.ts'
import { type EtcdEndpoint, parseEndpoint } from '../../src/etcd/options.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { openOwner } from '../peers/owner.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { failingLookup } from '../support/failing-lookup.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import { eventually, withTimeout } from '../support/with-timeout.ts'

const signal = new AbortController().signal

test('a server that accepts the TCP connection but never answers is given up after connectMs', async (t) => {
  const { endpoint, sockets } = await startSilentServer(t)
  const time = new VirtualClock()
  const opening = EtcdConnection.open(endpoint, undefined, { clock: time.view(), times: defaultTimes, signal })
  opening.catch(() => {})
  await eventually('the connection', () => sockets.size === 1)
  await time.advance(defaultTimes.connectMs - 1)
  assert.equal(sockets.size, 1)
  await time.advance(1)
  await assert.rejects(opening, new EtcdError('Unreachable', 'no connection within 2000 ms'))
  await eventually('the end of the socket', () => sockets.size === 0)
})

test('a server that does not speak HTTP/2 fails the opening of a connection', async (t) => {
  const { endpoint } = await startSilentServer(t, (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  const opening = EtcdConnection.open(endpoint, undefined, { clock: systemClock, times: defaultTimes, signal })
  await assert.rejects(opening, { code: 'ERR_HTTP2_ERROR' })
})

test('a server that closes a connection without TLS before it has answered may take TLS only', async (t) => {
  const { endpoint } = await startSilentServer(t, (socket) => socket.end())
  const opening = EtcdConnection.open(endpoint, undefined, { clock: systemClock, times: defaultTimes, signal })
  const message = 'connection closed by the server; if it takes TLS only, use https://'
  await assert.rejects(opening, new EtcdError('Unreachable', message))
})

test('while DNS fails, a connection uses the last known address of the endpoint', async (t) => {
  const { port } = await listenOnLoopback(t, createServer())
  const system = failingLookup(t)
  const open = async (): Promise<void> => {
    const endpoint = parseEndpoint(`http://fails.test:${port}`)
    const options = { clock: systemClock, times: { ...defaultTimes, connectMs: 60_000 }, signal }
    const connection = await EtcdConnection.open(endpoint, undefined, options)
    await connection.close(new Error('the test is over'))
  }
  await open()
  system.fails = true
  await open()
  assert.equal(system.asked, 2)
})

test('aborting the signal ends the opening of a connection and its socket', async (t) => {
  const { endpoint, sockets } = await startSilentServer(t)
  const stop = new AbortController()
  const reason = new Error('given up')
  const opening = EtcdConnection.open(endpoint, undefined, {
    clock: systemClock,
    times: defaultTimes,
    signal: stop.signal,
  })
  opening.catch(() => {})
  await eventually('the connection', () => sockets.size === 1)
  stop.abort(reason)
  await assert.rejects(opening, reason)
  await eventually('the end of the socket', () => sockets.size === 0)
})

test('a pending request pings the server once, and then waits as long as the server responds', async (t) => {
  const { server, connection, time } = await startConnected(t)
  const stream = await request(server, connection)
  await time.advance(defaultTimes.pingAfterMs - 1)
  await server.exchanged()
  assert.equal(server.pings, 0)
  await time.advance(1)
  await eventually('a ping', () => server.pings === 1)
  await server.exchanged()
  // The client sends no other ping until etcd allows it, even if the answer takes long.
  await time.advance(defaultTimes.silenceMs - 1)
  await server.exchanged()
  assert.equal(server.pings, 1)
  server.streams[0]?.respond({ ':status': 200 })
  server.streams[0]?.end('done')
  await read(stream)
  assert.equal(connection.usable, true)
})

test('a server that does not respond to a ping fails the connection and its requests', async (t) => {
  const { server, connection, time } = await startConnected(t)
  const stream = await request(server, connection)
  const failed = once(stream, 'error')
  server.proxy.hold(true)
  await time.advance(defaultTimes.pingAfterMs)
  await time.advance(defaultTimes.pongMs - 1)
  // Another request does not extend the time.
  const late = await connection.request('POST', '/', {})
  late.end().on('error', () => {})
  await time.advance(1)
  assert.equal(connection.failure, undefined, 'the answer may be received but not yet read')
  await time.advance(200)
  assert.deepEqual(connection.failure, new EtcdError('Unreachable', 'no response to a ping from the server'))
  assert.equal(connection.usable, false)
  await withTimeout(failed, 5_000, 'the end of the request')
  await withTimeout(connection.closed, 5_000, 'the end of the socket')
  await assert.rejects(connection.request('POST', '/', {}), /no response to a ping/)
  assert.equal(server.streams.length, 1)
})

test('a silent watch is pinged at the interval that etcd allows, and its connection fails when no response comes', async (t) => {
  const { server, connection, time } = await startConnected(t)
  const stream = await request(server, connection)
  stream.on('error', () => {})
  server.streams[0]?.respond({ ':status': 200 })
  await once(stream, 'response')
  for (let ping = 1; ping <= 5; ping++) {
    await time.advance(defaultTimes.silenceMs - 1_000)
    assert.equal(server.pings, ping - 1)
    await time.advance(2_000)
    await eventually('a ping', () => server.pings === ping)
    await server.exchanged()
  }
  server.proxy.hold(true)
  await time.advance(defaultTimes.silenceMs)
  assert.equal(connection.usable, true)
  await time.advance(defaultTimes.pongMs + 200)
  assert.equal(connection.usable, false)
})

test('a connection that receives data is not pinged', async (t) => {
  const { server, connection, time } = await startConnected(t)
  const stream = await request(server, connection)
  server.streams[0]?.respond({ ':status': 200 })
  await once(stream, 'response')
  for (let event = 0; event < 10; event++) {
    await time.advance(defaultTimes.silenceMs / 2)
    server.streams[0]?.write('event')
    await once(stream, 'data')
    connection.notifyResponseByteRead()
  }
  assert.equal(server.pings, 0)
})

test('after a GOAWAY the connection takes no new requests, and the open ones complete', async (t) => {
  const { server, connection } = await startConnected(t)
  const stream = await request(server, connection)
  server.session.goaway(0)
  await eventually('the farewell', () => !connection.usable)
  assert.equal(connection.failure, undefined)
  server.streams[0]?.respond({ ':status': 200 })
  server.streams[0]?.end('done')
  assert.equal(await read(stream), 'done')
  await withTimeout(connection.closed, 5_000, 'the end of the socket')
})

test('an idle connection closes by itself, a used one does not', async (t) => {
  const { server, connection, time } = await startConnected(t)
  await time.advance(defaultTimes.idleMs - 1)
  const stream = await request(server, connection)
  server.streams[0]?.respond({ ':status': 200 })
  server.streams[0]?.end('done')
  await read(stream)
  await eventually('the end of the request', () => stream.closed)
  await time.advance(defaultTimes.idleMs - 1)
  assert.equal(connection.usable, true)
  await time.advance(1)
  assert.equal(connection.usable, false)
  await withTimeout(connection.closed, 5_000, 'the end of the socket')
})

test('closing a connection ends its requests at once', async (t) => {
  const { server, connection } = await startConnected(t)
  const stream = await request(server, connection)
  const failed = once(stream, 'error')
  const reason = new Error('enough')
  await connection.close(reason)
  assert.equal(connection.failure, reason)
  await failed
  await assert.rejects(connection.request('POST', '/', {}), reason)
  await connection.close(new Error('again'))
})

/** The server's side of one connection. */
interface FakeServer {
  readonly session: ServerHttp2Session
  readonly streams: readonly ServerHttp2Stream[]
  readonly proxy: TcpProxy
  pings: number
  /** Resolves when the client has received everything that was sent so far. */
  exchanged(): Promise<void>
}

async function startConnected(
  t: Cleanup,
): Promise<{ readonly server: FakeServer; readonly connection: EtcdConnection; readonly time: VirtualClock }> {
  const sessions: ServerHttp2Session[] = []
  const streams: ServerHttp2Stream[] = []
  const http2 = createServer()
  http2.on('session', (session) => {
    sessions.push(session)
    session.on('error', () => {})
    session.on('ping', () => {
      server.pings++
    })
  })
  http2.on('stream', (stream) => {
    stream.on('error', () => {})
    streams.push(stream)
  })
  const { port } = await listenOnLoopback(t, http2)
  const proxy = await TcpProxy.start(openOwner(t), { target: port })
  const time = new VirtualClock()
  const endpoint = parseEndpoint(`http://127.0.0.1:${proxy.port}`)
  const connection = await EtcdConnection.open(endpoint, undefined, { clock: time.view(), times: defaultTimes, signal })
  t.after(() => connection.close(new Error('the test is over')))
  const [session] = sessions
  assert.ok(session !== undefined)
  const exchanged = (): Promise<void> =>
    new Promise((resolve, reject) => session.ping((error) => (error === null ? resolve() : reject(error))))
  const server: FakeServer = { session, streams, proxy, pings: 0, exchanged }
  return { server, connection, time }
}

async function startSilentServer(
  t: Cleanup,
  onSocket: (socket: Socket) => void = () => {},
): Promise<{ readonly endpoint: EtcdEndpoint; readonly sockets: ReadonlySet<Socket> }> {
  const server = createTcpServer((socket) => {
    socket.resume()
    onSocket(socket)
  })
  const { port, sockets } = await listenOnLoopback(t, server)
  return { endpoint: parseEndpoint(`http://127.0.0.1:${port}`), sockets }
}

/** Opens a stream, and waits until the server has it. */
async function request(server: FakeServer, connection: EtcdConnection): Promise<ClientHttp2Stream> {
  const before = server.streams.length
  const stream = await connection.request('POST', '/', {})
  stream.end()
  await eventually('the request', () => server.streams.length > before)
  return stream
}

async function read(stream: ClientHttp2Stream): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
