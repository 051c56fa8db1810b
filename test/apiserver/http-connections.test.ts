import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectPlain } from 'node:net'
import { type TestContext, test } from 'node:test'
import { connect, type TLSSocket } from 'node:tls'
import { serveApi } from '../../src/apiserver/http-api-server.ts'
import { selfSignedCertificate } from '../../src/apiserver/http-certificate.ts'
import { type StartApiServerOptions, type StartedApiServer, startApiServer } from '../../src/apiserver/http-start.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { withTimeout } from '../support/with-timeout.ts'

async function started(t: TestContext, options: StartApiServerOptions = {}): Promise<StartedApiServer> {
  const server = await startApiServer(options)
  t.after(() => server.close())
  return server
}

type Served = Pick<StartedApiServer, 'port' | 'certificate' | 'token'>

async function connected(t: TestContext, { port, certificate: ca }: Served): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', ca }).on('error', () => {})
  t.after(() => socket.destroy())
  await once(socket, 'secureConnect')
  return socket
}

function requestOf(server: Served, path: string, headers = ''): string {
  return `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${server.token}\r\n${headers}\r\n`
}

/** What the server sends until it ends the connection. */
async function received(socket: TLSSocket): Promise<string> {
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  return text
}

test('a client that pipelines requests is disconnected; another client is served afterwards', async (t) => {
  const server = await started(t, { limits: { requests: 5, watches: 5, answerMs: 200 } })
  for (const first of ['/api/v1/namespaces?watch=true', '/readyz']) {
    const socket = await connected(t, server)
    socket.resume().write(requestOf(server, first) + requestOf(server, '/api/v1/namespaces?watch=true').repeat(50))
    await once(socket, 'close')
  }
  const other = await connected(t, server)
  other.write(requestOf(server, '/api/v1/namespaces', 'connection: close\r\n'))
  assert.match(await received(other), /^HTTP\/1.1 200 /)
})

test('requests of one connection are answered one after the other', async (t) => {
  const server = await started(t)
  const socket = await connected(t, server)
  for (const path of ['/readyz', '/api/v1/namespaces', '/nothing', '/api/v1/namespaces?watch=true&timeoutSeconds=1']) {
    socket.write(requestOf(server, path))
    let text = ''
    while (!/\r\n\r\n/.test(text)) text += String((await once(socket, 'data'))[0])
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN)
    while (!(length >= 0 ? text.length >= text.indexOf('\r\n\r\n') + 4 + length : text.endsWith('\r\n0\r\n\r\n')))
      text += String((await once(socket, 'data'))[0])
    assert.match(text, /^HTTP\/1.1 (200|404) /)
  }
})

test('a client that never begins its TLS handshake does not prevent the server from closing', async (t) => {
  // No limit of the handshake ends the connection first.
  const server = await started(t, { limits: { closeMs: 50, headersMs: 3_600_000 } })
  const socket = connectPlain(server.port, '127.0.0.1').on('error', () => {})
  const cut = once(socket.resume(), 'close')
  await once(socket, 'connect')
  // The server has accepted the connection by now.
  await connected(t, server)
  try {
    await withTimeout(Promise.all([server.close(), cut]), 60_000, 'the end of both')
  } finally {
    socket.destroy()
  }
})

test('a client that never begins its TLS handshake is disconnected, and so is a connection over the limit', async (t) => {
  const slow = await started(t, { limits: { headersMs: 50 } })
  const small = await started(t, { limits: { connections: 1, headersMs: 3_600_000 } })
  const first = await connected(t, small)
  for (const { port } of [slow, small]) {
    const socket = connectPlain(port, '127.0.0.1').on('error', () => {})
    t.after(() => socket.destroy())
    await withTimeout(once(socket.resume(), 'close'), 60_000, 'the end of the connection')
    assert.equal(socket.bytesRead, 0)
  }
  first.write(requestOf(small, '/readyz', 'connection: close\r\n'))
  assert.match(await received(first), /^HTTP\/1.1 200 /)
})

test('a closing server ends the connection of a watch after the watch, and answers no further request on it', async (t) => {
  const server = await started(t, { limits: { closeMs: 3_600_000 } })
  const socket = await connected(t, server)
  socket.write(requestOf(server, '/api/v1/namespaces?watch=true'))
  const [first] = await once(socket, 'data')
  let text = String(first)
  socket.on('data', (chunk) => {
    text += String(chunk)
    if (text.endsWith('\r\n0\r\n\r\n')) socket.write(requestOf(server, '/api/v1/namespaces'))
  })
  const cut = new Promise((resolve) => socket.once('close', resolve))
  await withTimeout(Promise.all([server.close(), cut]), 60_000, 'the end of both')
  assert.match(text, /^HTTP\/1.1 200 [\s\S]*\r\n0\r\n\r\n$/)
  assert.equal(text.split('HTTP/1.1').length, 2, text)
})

test('a closing server answers the running requests, and each answer ends its connection', async (t) => {
  const tls = selfSignedCertificate(['127.0.0.1'])
  const token = 'secret'
  const arrived = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  const bodies = new Map<string, unknown>([
    ['/short', 'short'],
    ['/long', { items: Array.from({ length: 50 }, () => 'long') }],
  ])
  let running = 0
  const send = async ({ path }: { readonly path: string }) => {
    if (++running === bodies.size) arrived.resolve()
    await answered.promise
    return { status: 200, headers: {}, body: bodies.get(path) }
  }
  const limits = { closeMs: 3_600_000 }
  const serving = await serveApi({ send, host: '127.0.0.1', port: 0, tls, token, limits, logger: silentLogger })
  t.after(() => serving.close())
  const server = { port: serving.port, certificate: tls.certificate, token }
  const answers: Promise<string>[] = []
  for (const path of bodies.keys()) {
    const socket = await connected(t, server)
    socket.write(requestOf(server, path))
    answers.push(received(socket))
  }
  await arrived.promise
  const closed = serving.close()
  answered.resolve()
  const [short = '', long = ''] = await withTimeout(Promise.all(answers), 60_000, 'the answers')
  assert.match(short, /^HTTP\/1.1 200 OK\r\n(?:.*\r\n)*connection: close\r\n(?:.*\r\n)*\r\nshort$/i)
  assert.match(long, /^HTTP\/1.1 200 OK\r\n(?:.*\r\n)*connection: close\r\n[\s\S]*\r\n0\r\n\r\n$/i)
  await withTimeout(closed, 60_000, 'the end of the server')
})

test('a watch does not count towards the limit of requests', async (t) => {
  const server = await started(t, { limits: { requests: 1 } })
  const watch = await connected(t, server)
  watch.write(requestOf(server, '/api/v1/namespaces?watch=true'))
  assert.match(String((await once(watch, 'data'))[0]), /^HTTP\/1.1 200 /)
  const other = await connected(t, server)
  other.write(requestOf(server, '/api/v1/namespaces', 'connection: close\r\n'))
  assert.match(await received(other), /^HTTP\/1.1 200 /)
})

test('the server answers a public path without reading the body of an unauthenticated client', async (t) => {
  const server = await started(t)
  const socket = await connected(t, server)
  socket.write('GET /readyz HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{')
  assert.match(await received(socket), /^HTTP\/1.1 200 OK\r\n(?:.*\r\n)*connection: close\r\n/i)
})

test('a body that arrives byte by byte is read whole', async (t) => {
  const server = await started(t)
  const socket = await connected(t, server)
  const body = JSON.stringify({ metadata: { name: 'a' }, data: { text: 'x'.repeat(2500) } })
  socket.write(
    `POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${server.token}\r\n` +
      'content-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n' +
      `${[...body].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`,
  )
  const text = await received(socket)
  assert.match(text, /^HTTP\/1.1 201 /)
  assert.match(text, /"x{2500}"/)
})
