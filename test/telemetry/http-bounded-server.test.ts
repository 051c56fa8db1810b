import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import {
  type BoundedServerOptions,
  createServer,
  ListenError,
  listen,
  oneAtATime,
  serveBounded,
  serverLimits,
} from '../../src/telemetry/http-bounded-server.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

type Respond = BoundedServerOptions['respond']
const ok = { status: 200, contentType: 'text/plain', body: 'né' }
const get = (path = '/', more = ''): string => `GET ${path} HTTP/1.1\r\nhost: x\r\n${more}\r\n`

async function setUp(t: TestContext, respond: Respond = async () => ok, host = '127.0.0.1') {
  const logger = memoryLogger()
  const server = await serveBounded({ host, port: 0, logger, respond })
  t.after(() => server.close())
  /** A connection, and everything that it received. */
  const open = async (): Promise<{ readonly socket: Socket; readonly received: () => string }> => {
    const socket = connect(server.port, host).setEncoding('utf8')
    t.after(() => socket.destroy())
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', () => {})
    await once(socket, 'connect')
    return { socket, received: () => text }
  }
  /** Everything that the server answers to these requests until it closes the connection. */
  const exchange = async (...requests: readonly string[]): Promise<string> => {
    const { socket, received } = await open()
    for (const request of requests) socket.write(request)
    await once(socket, 'close')
    return received()
  }
  return { server, logger, open, exchange }
}

const closing = 'connection: close\r\n'

test('an answer has its content-length in bytes, and HEAD gets the headers without the body', async (t) => {
  const { exchange } = await setUp(t)
  const before = timers()
  const answer = await exchange(get('/', closing))
  assert.equal(timers(), before)
  assert.match(answer, /^HTTP\/1.1 200 OK\r\n/)
  assert.match(answer, /content-type: text\/plain\r\ncontent-length: 3\r\nx-content-type-options: nosniff\r\n/)
  assert.match(answer, /cache-control: no-cache, private\r\n/)
  assert.match(answer, /\r\n\r\nné$/)
  const head = await exchange(get('/', closing).replace('GET', 'HEAD'))
  assert.match(head, /content-length: 3\r\n[\s\S]*\r\n\r\n$/)
})

test('headers set by the handler override the defaults', async (t) => {
  const { exchange } = await setUp(t, async () => ({ ...ok, headers: { 'cache-control': 'max-age=1' } }))
  assert.match(await exchange(get('/', closing)), /cache-control: max-age=1\r\n/)
})

test('a connection serves several requests in turn, and closes after a request that announces a body', async (t) => {
  const { open, exchange } = await setUp(t)
  const { socket, received } = await open()
  for (let answers = 1; answers <= 3; answers++) {
    socket.write(get('/', answers === 3 ? closing : 'content-length: 0\r\n'))
    await once(socket, 'data')
    assert.equal(received().split('HTTP/1.1 200').length - 1, answers)
  }
  for (const body of ['content-length: 9\r\n', 'transfer-encoding: chunked\r\n'])
    assert.match(await exchange(get('/', body)), /connection: close/i)
})

test('a client that sends the next request before its answer is cut off, and other clients are not', async (t) => {
  const waiting = Promise.withResolvers<typeof ok>()
  let asked = 0
  const { exchange, open } = await setUp(t, () => (++asked === 1 ? waiting.promise : Promise.resolve(ok)))
  assert.equal(await exchange(get(), get()), '')
  assert.equal(asked, 1)
  const { socket } = await open()
  socket.write(get())
  await once(socket, 'data')
  waiting.resolve(ok)
})

test('oneAtATime allows one open answer per connection, and the next request after that answer is closed', () => {
  const [first, second] = [{ destroyed: 0 }, { destroyed: 0 }].map((state) =>
    Object.assign(state, { destroy: () => state.destroyed++ }),
  )
  let answered = 0
  const answer = oneAtATime(() => void answered++)
  const ask = (socket: unknown): EventEmitter => {
    const response = new EventEmitter()
    answer({ socket } as IncomingMessage, response as ServerResponse)
    return response
  }
  const response = ask(first)
  ask(second)
  assert.deepEqual([answered, first?.destroyed, second?.destroyed], [2, 0, 0])
  ask(first)
  assert.deepEqual([answered, first?.destroyed, second?.destroyed], [2, 1, 0])
  response.emit('close')
  ask(first)
  assert.deepEqual([answered, first?.destroyed], [3, 1])
})

test('a handler that rejects is answered with 500 without the reason, and logged with its path', async (t) => {
  const { exchange, logger } = await setUp(t, () => Promise.reject(new Error('secret')))
  const answer = await exchange(get('/path', closing))
  assert.match(answer, /^HTTP\/1.1 500 [\s\S]*\r\n\r\ninternal server error\n$/)
  assert.deepEqual(
    logger.lines.map(({ level, message, fields }) => [level, message, fields.path]),
    [['error', 'a request failed', '/path']],
  )
})

test('a request with an Expect header is answered like any other', async (t) => {
  const { exchange } = await setUp(t)
  for (const expected of ['100-continue', 'the-moon']) {
    const more = `expect: ${expected}\r\ncontent-length: 5\r\n`
    assert.match(await exchange(get('/', more)), /^HTTP\/1.1 200 OK\r\n/, expected)
  }
})

test('headers longer than the limit get 431; shorter ones may arrive in any pieces', async (t) => {
  const { exchange } = await setUp(t)
  const header = (length: number): string => `x-long: ${'y'.repeat(length)}\r\n`
  assert.match(await exchange(get('/', `${header(15_000)}${closing}`)), /^HTTP\/1.1 200 /)
  assert.match(await exchange(...get('/', closing)), /^HTTP\/1.1 200 /)
  assert.match(await exchange(get('/', header(serverLimits.headerBytes))), /^HTTP\/1.1 431 /)
})

test('one connection above the limit closes only the oldest open connection', async (t) => {
  const { open } = await setUp(t)
  const all = [await open(), await open()]
  all.pop()?.socket.destroy()
  while (all.length < serverLimits.connections) all.push(await open())
  const [oldest, next] = all
  // A connection that has ended does not count.
  oldest?.socket.write(get())
  await once(oldest?.socket as Socket, 'data')
  const closed = once(oldest?.socket as Socket, 'close')
  const last = await open()
  await closed
  for (const one of [next, last]) {
    one?.socket.write(get())
    await once(one?.socket as Socket, 'data')
  }
})

test('an answer for a disconnected client is dropped: it leaves no timer and starts no stream', async (t) => {
  let streams = 0
  for (const answer of [ok, { stream: () => void streams++ }, undefined]) {
    const asked = Promise.withResolvers<void>()
    const answered = Promise.withResolvers<void>()
    let gone: Promise<unknown> | undefined
    const { open } = await setUp(t, async (request) => {
      gone = once(request.socket, 'close')
      asked.resolve()
      await answered.promise
      if (answer === undefined) throw new Error('late')
      return answer
    })
    const { socket } = await open()
    socket.write(get())
    await asked.promise
    socket.destroy()
    await gone
    const before = timers()
    answered.resolve()
    await new Promise(setImmediate)
    assert.equal(timers(), before)
  }
  assert.equal(streams, 0)
})

function timers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
}

test('a client that does not read its answer within ten seconds is cut off', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const body = Buffer.alloc(64 * 1024 * 1024)
  const { open, server } = await setUp(t, async () => ({ ...ok, body }))
  const { socket } = await open()
  socket.pause().write(get())
  await once(socket, 'readable')
  const closed = once(socket, 'close')
  t.mock.timers.tick(serverLimits.answerMs - 1)
  await new Promise(setImmediate)
  assert.equal(socket.destroyed, false)
  t.mock.timers.tick(1)
  socket.resume()
  await closed
  assert.ok(socket.bytesRead < body.length)
  await server.close()
})

test('close waits up to a second for running answers, then cuts them off; it may be called twice', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  for (const late of [false, true]) {
    const asked = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<typeof ok>()
    const { open, server } = await setUp(t, ({ url }) => {
      if (url !== '/busy') return Promise.resolve(ok)
      asked.resolve()
      return answer.promise
    })
    const [idle, busy] = [await open(), await open()]
    idle.socket.write(get())
    await once(idle.socket, 'data')
    busy.socket.write(get('/busy'))
    await asked.promise
    const ended = Promise.all([once(idle.socket, 'close'), once(busy.socket, 'close')])
    let closed = 0
    const closings = [server.close(), server.close()].map((one) => one.then(() => closed++))
    t.mock.timers.tick(999)
    await new Promise(setImmediate)
    assert.deepEqual([closed, busy.socket.destroyed], [0, false])
    if (late) t.mock.timers.tick(1)
    else answer.resolve(ok)
    await Promise.all([ended, ...closings])
    assert.equal(/^HTTP\/1.1 200 OK[\s\S]*connection: close/i.test(busy.received()), !late)
    const refused = connect(server.port, '127.0.0.1')
    assert.equal((await once(refused, 'error'))[0].code, 'ECONNREFUSED')
    answer.resolve(ok)
  }
})

test('a port in use and an unassigned address each give a one-line error; IPv6 hosts are in brackets', async (t) => {
  const { server } = await setUp(t)
  assert.equal(server.address, `127.0.0.1:${server.port}`)
  const at = (host: string, port: number) =>
    serveBounded({ host, port, logger: memoryLogger(), respond: async () => ok }).then(
      () => assert.fail('listens'),
      (error: unknown) => {
        assert.ok(error instanceof ListenError)
        return error.message
      },
    )
  assert.equal(await at('127.0.0.1', server.port), `cannot listen on 127.0.0.1:${server.port}: the port is in use`)
  assert.equal(await at('2001:db8::1', 1), 'cannot listen on [2001:db8::1]:1: the address is not assigned to this host')
})

test('repeated accept errors are logged once, and the server continues to serve', async (t) => {
  const logger = memoryLogger()
  const server = createServer((_, response) => response.end('served'))
  t.after(() => server.close())
  const { port } = await listen(server, '127.0.0.1', 0, logger)
  // What Node does when accept(2) fails.
  for (const error of [new Error('accept ENFILE'), new Error('accept ENFILE')]) server.emit('error', error)
  assert.deepEqual(
    logger.lines.map(({ level, message }) => [level, message]),
    [['warn', 'a connection cannot be accepted']],
  )
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  socket.write(get('/', closing))
  const pieces: string[] = await socket.toArray()
  assert.match(pieces.join(''), /served/)
})
