import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { test } from 'node:test'
import type { PeerCertificate } from 'node:tls'
import { isKubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import { HttpTransport, type HttpTransportOptions, identityOfAny } from '../../src/kube/http-transport.ts'
import type { ApiRequest } from '../../src/kube/transport.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { failingLookup } from '../support/failing-lookup.ts'
import { eventually } from '../support/with-timeout.ts'
import { bodyOf, certificate, serverTls, startServer } from './loopback-server.ts'

const never = new AbortController().signal
const get = (path: string, more: Partial<ApiRequest> = {}): ApiRequest => ({
  method: 'GET',
  path,
  query: [],
  headers: { accept: 'application/json' },
  ...more,
})

function transportTo(t: Cleanup, server: URL, more: Partial<HttpTransportOptions> = {}): HttpTransport {
  const transport = new HttpTransport({ server, ...more })
  t.after(() => transport.close())
  return transport
}

async function bodyFrom(transport: HttpTransport, request: ApiRequest): Promise<unknown> {
  const response = await transport.send(request, never)
  assert.ok('body' in response)
  return response.body
}

const failsWith = (code: KubeErrorCode, words: RegExp) => (error: unknown) =>
  isKubeError(error, code) && words.test(error.message)

test('two hundred sequential requests use at most two connections', async (t) => {
  const server = await startServer(
    t,
    (_, response) => {
      response.setHeader('content-type', 'application/json').end('{}')
    },
    { tls: serverTls('loopback') },
  )
  const transport = transportTo(t, server.url, { tls: { ca: certificate('ca.crt') } })
  for (let i = 0; i < 200; i++) await transport.send(get('/'), never)
  assert.equal(server.asked.length, 200)
  assert.ok(server.connections() <= 2, `${server.connections()} connections`)
})

test('a new connection goes to the last known address of the server while DNS fails', async (t) => {
  const server = await startServer(t, ({ url }, response) => {
    if (url !== '/hangs') response.setHeader('content-type', 'application/json').end('{}')
  })
  const system = failingLookup(t)
  const transport = transportTo(t, new URL(`http://fails.test:${server.url.port}`))
  await transport.send(get('/'), never)
  system.fails = true
  await assert.rejects(transport.send(get('/hangs', { timeoutMs: 100 }), never), failsWith('Timeout', /within 100 ms/))
  await transport.send(get('/'), never)
  assert.ok(system.asked >= 2)
  assert.equal(server.connections(), system.asked)
})

test('the server receives a request exactly as it was made, below the path of the server URL', async (t) => {
  let seen: unknown
  const server = await startServer(t, async (request, response) => {
    const { method, url, headers } = request
    seen = { method, url, headers, body: await bodyOf(request) }
    response.end()
  })
  const transport = transportTo(t, new URL('/k8s/clusters/c-1/', server.url))
  await transport.send(
    {
      method: 'PATCH',
      path: '/api/v1/namespaces/x%20y',
      query: [
        ['labelSelector', 'a in (b,c),!d'],
        ['force', 'true'],
      ],
      headers: { accept: 'application/json', 'content-type': 'application/merge-patch+json' },
      body: { text: 'ä\u2028' },
    },
    never,
    { authorization: 'Bearer t', 'impersonate-group': ['a', 'b'] },
  )
  assert.deepEqual(seen, {
    method: 'PATCH',
    url: '/k8s/clusters/c-1/api/v1/namespaces/x%20y?labelSelector=a%20in%20(b%2Cc)%2C!d&force=true',
    headers: {
      host: server.url.host,
      connection: 'keep-alive',
      'user-agent': 'apiserver-bootstrap',
      accept: 'application/json',
      'content-type': 'application/merge-patch+json',
      authorization: 'Bearer t',
      'impersonate-group': 'a, b',
      'content-length': '16',
    },
    body: '{"text":"ä\u2028"}',
  })
})

test('answers of any status are returned with lower-case headers, JSON parsed and other bodies as text', async (t) => {
  const server = await startServer(t, (request, response) => {
    response.statusCode = request.url === '/json' ? 409 : 500
    response.setHeader('Warning', ['299 - "a"', '299 - "b"'])
    response.setHeader('Content-Type', request.url === '/json' ? 'application/json;stream=watch' : 'text/plain')
    response.end('{"a":"ä"}')
  })
  const transport = transportTo(t, server.url)
  const json = await transport.send(get('/json'), never)
  assert.equal(json.status, 409)
  assert.equal(json.headers.warning, '299 - "a", 299 - "b"')
  assert.deepEqual('body' in json && json.body, { a: 'ä' })
  const text = await transport.send(get('/text', { stream: true }), never)
  assert.deepEqual('body' in text && text.body, '{"a":"ä"}')
})

test('a body in a thousand pieces is put together', async (t) => {
  const piece = 'x'.repeat(1000)
  const server = await startServer(t, async (_, response) => {
    response.setHeader('content-type', 'application/json').write('"')
    for (let i = 0; i < 1000; i++) response.write(piece)
    response.end('"')
  })
  assert.equal(await bodyFrom(transportTo(t, server.url), get('/')), piece.repeat(1000))
})

test('invalid JSON is a bad response, and the error does not quote it', async (t) => {
  const server = await startServer(t, (_, response) => {
    response.setHeader('content-type', 'application/json').end('{"password":"hunter2"')
  })
  const sent = transportTo(t, server.url).send(get('/'), never)
  await assert.rejects(sent, failsWith('BadResponse', /^the answer is not JSON$/))
})

test('a body that breaks off is an Unreachable error', async (t) => {
  const server = await startServer(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 }).write('{"a":')
    setTimeout(() => response.destroy(), 10)
  })
  await assert.rejects(transportTo(t, server.url).send(get('/'), never), failsWith('Unreachable', /connection/))
})

for (const [name, listener] of [
  ['the headers', () => {}],
  [
    'the end of the body',
    (_: unknown, response: { writeHead(status: number): { write(text: string): void } }) =>
      response.writeHead(200).write('{'),
  ],
] as const) {
  test(`a request to a server that withholds ${name} times out, and its connection is closed`, async (t) => {
    const server = await startServer(t, listener as never)
    const { signal } = new AbortController()
    const sent = transportTo(t, server.url).send(get('/', { timeoutMs: 50 }), signal)
    await assert.rejects(sent, failsWith('Timeout', /no answer within 50 ms$/))
    assert.equal(getEventListeners(signal, 'abort').length, 0)
    await eventually('the connection closes', () => server.open() === 0)
  })
}

test('an abort rejects with its reason and leaves neither connection nor listener', async (t) => {
  const server = await startServer(t, () => {})
  const transport = transportTo(t, server.url)
  const controller = new AbortController()
  const sent = Array.from({ length: 20 }, () => transport.send(get('/'), controller.signal))
  await eventually('all are asked', () => server.asked.length === 20)
  controller.abort('enough')
  for (const { status, reason } of (await Promise.allSettled(sent)) as PromiseRejectedResult[]) {
    assert.deepEqual([status, reason], ['rejected', 'enough'])
  }
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  await eventually('the connections close', () => server.open() === 0)
  await assert.rejects(transport.send(get('/'), controller.signal), (reason) => reason === 'enough')
  assert.equal(server.connections(), 20)
})

test('an abort does not wait for a connection that is never made', async (t) => {
  const { port, open } = await silentServer(t)
  const transport = transportTo(t, new URL(`https://127.0.0.1:${port}`), { connectTimeoutMs: 3_600_000 })
  const controller = new AbortController()
  const sent = transport.send(get('/', { timeoutMs: 3_600_000 }), controller.signal)
  await eventually('it connects', () => open() === 1)
  controller.abort('enough')
  await assert.rejects(sent, (reason) => reason === 'enough')
})

test('a connection that is not made in time is given up', async (t) => {
  const { port } = await silentServer(t)
  const transport = transportTo(t, new URL(`https://127.0.0.1:${port}`), { connectTimeoutMs: 50 })
  const sent = transport.send(get('/', { timeoutMs: 3_600_000 }), never)
  await assert.rejects(sent, failsWith('Unreachable', /connecting took too long$/))
})

test('closing ends a connection that is being made', async (t) => {
  const { port, open } = await silentServer(t)
  const transport = new HttpTransport({ server: new URL(`https://127.0.0.1:${port}`) })
  const rejected = assert.rejects(transport.send(get('/'), never), failsWith('Unreachable', /the transport is closed$/))
  await eventually('it connects', () => open() === 1)
  await transport.close()
  await rejected
  await eventually('the connection closes', () => open() === 0, { timeoutMs: 4_000 })
})

test('the error for a failed connection names the cause in few words', async (t) => {
  const free = await startServer(t, () => {}, { tls: serverTls('loopback') })
  const { port } = await silentServer(t, 'SSH-2.0-server\r\n')
  const cases: [URL, Partial<HttpTransportOptions>, KubeErrorCode, RegExp][] = [
    [new URL('http://127.0.0.1:1'), {}, 'Unreachable', /^http:\/\/127\.0\.0\.1:1: connection refused$/],
    [free.url, {}, 'Unreachable', /: the server certificate is signed by an unknown authority$/],
    [free.url, { tls: { ca: certificate('other-ca.crt') } }, 'Unreachable', /signed by an unknown authority$/],
    [free.url, { tls: { ca: certificate('ca.crt'), serverName: 'other.test' } }, 'Unreachable', /is for another name$/],
    [new URL(`http://127.0.0.1:${port}`), {}, 'BadResponse', /did not send a valid HTTP response/],
    [new URL(`https://127.0.0.1:${port}`), {}, 'Unreachable', /does not speak TLS on this port$/],
  ]
  for (const [server, options, code, words] of cases) {
    const transport = transportTo(t, server, options)
    await assert.rejects(transport.send(get('/'), never), failsWith(code, words), `${server} ${code}`)
  }
})

test('the server certificate is checked against the configured name, any of several names, or not at all', async (t) => {
  const server = await startServer(t, (_, response) => response.end('ok') as never, { tls: serverTls('cluster') })
  const ca = certificate('ca.crt')
  for (const tls of [
    { ca, serverName: 'cluster.example.test' },
    { ca, serverNames: ['127.0.0.1', '[2001:db8::1]', '192.0.2.1'] },
    { skipVerify: true },
  ]) {
    assert.equal(await bodyFrom(transportTo(t, server.url, { tls }), get('/')), 'ok')
  }
  const others = transportTo(t, server.url, { tls: { ca, serverNames: ['127.0.0.1', 'other.test'] } })
  await assert.rejects(others.send(get('/'), never), failsWith('Unreachable', /is for another name$/))
})

test('an IPv6 address in brackets, as in a URL, matches the address in a certificate', () => {
  const certificate = { subject: { CN: 'x' }, subjectaltname: 'IP Address:2001:DB8:0:0:0:0:0:1' } as PeerCertificate
  assert.equal(identityOfAny(['192.0.2.1', '[2001:db8::1]'])('', certificate), undefined)
  assert.match(String(identityOfAny(['[2001:db8::2]'])('', certificate)), /not in the cert/)
})

test('a client certificate is sent to a server that requests one', async (t) => {
  const tls = { ...serverTls('loopback'), ca: certificate('ca.crt'), requestCert: true, rejectUnauthorized: true }
  const server = await startServer(
    t,
    (request, response) => {
      const { subject } = (
        request.socket as unknown as { getPeerCertificate(): { subject: { CN: string } } }
      ).getPeerCertificate()
      response.end(subject.CN)
    },
    { tls },
  )
  const own = { ca: certificate('ca.crt'), cert: certificate('client-1.crt'), key: certificate('client-1.key') }
  assert.equal(await bodyFrom(transportTo(t, server.url, { tls: own }), get('/')), 'client-1')
})

test('closing fails the requests under way and all later ones', async (t) => {
  const server = await startServer(t, () => {})
  const transport = transportTo(t, server.url)
  const sent = transport.send(get('/'), never)
  await eventually('it is asked', () => server.asked.length === 1)
  const rejected = assert.rejects(sent, failsWith('Unreachable', /the transport is closed$/))
  await transport.close()
  await rejected
  await assert.rejects(transport.send(get('/'), never), failsWith('Unreachable', /the transport is closed$/))
  await eventually('the connection closes', () => server.open() === 0)
})

test('a retired transport finishes the requests under way, then closes its connections', async (t) => {
  const answers: (() => void)[] = []
  const server = await startServer(t, (_, response) => {
    answers.push(() => response.end('done'))
  })
  const transport = transportTo(t, server.url)
  const sent = bodyFrom(transport, get('/'))
  await eventually('it is asked', () => answers.length === 1)
  const retired = transport.retire()
  answers[0]?.()
  assert.equal(await sent, 'done')
  await retired
  await eventually('the connection closes', () => server.open() === 0)
})

for (const [how, limit] of [
  ['has taken too long', (signal: AbortSignal) => ({ signal, timeoutMs: 100 })],
  ['was given up', () => ({ signal: AbortSignal.timeout(100), timeoutMs: 60_000 })],
] as const) {
  test(`after a request that ${how} the next ones use a new connection instead of idle ones; a watch continues`, async (t) => {
    const old = new Set<Socket>()
    const together: (() => void)[] = []
    let emit = (_event: string): void => {}
    const server = await startServer(t, ({ socket, url }, response) => {
      if (url === '/watch') {
        response.writeHead(200, { 'content-type': 'application/json' })
        emit = (event) => void response.write(event)
        emit('{"n":1}\n')
      } else if (url === '/together') {
        old.add(socket)
        together.push(() => response.end())
      } else if (url === '/next' && !old.has(socket)) {
        response.end()
      }
    })
    const transport = transportTo(t, server.url)
    const stop = new AbortController()
    const watch = await transport.send(get('/watch', { stream: true }), stop.signal)
    assert.ok('stream' in watch)
    const events = watch.stream[Symbol.asyncIterator]()
    assert.deepEqual((await events.next()).value, { n: 1 })
    const sent = Array.from({ length: 4 }, () => transport.send(get('/together'), never))
    await eventually('four requests at once', () => together.length === 4)
    for (const answer of together) answer()
    await Promise.all(sent)

    const { signal, timeoutMs } = limit(never)
    await assert.rejects(transport.send(get('/lost', { timeoutMs }), signal))
    for (let request = 0; request < 3; request++) await transport.send(get('/next', { timeoutMs: 5_000 }), never)
    await eventually('the idle connections close', () => [...old].every((socket) => socket.destroyed))
    emit('{"n":2}\n')
    assert.deepEqual((await events.next()).value, { n: 2 })
    stop.abort()
    await events.return?.()
  })
}

test('after reconnectMs without an answer the next requests use a new connection; the late answer still arrives', async (t) => {
  const late: (() => void)[] = []
  const server = await startServer(t, ({ url }, response) => {
    if (url === '/late') late.push(() => response.end('late'))
    else response.end()
  })
  const transport = transportTo(t, server.url)
  await Promise.all([transport.send(get('/'), never), transport.send(get('/'), never)])
  const before = server.connections()
  const sent = bodyFrom(transport, get('/late', { timeoutMs: 60_000, reconnectMs: 50 }))
  await eventually('a request uses a new connection', async () => {
    await transport.send(get('/next'), never)
    return server.connections() > before
  })
  late[0]?.()
  assert.equal(await sent, 'late')
})

/** Accepts connections, and sends `greeting` or nothing: it does not speak TLS. */
async function silentServer(t: Cleanup, greeting?: string): Promise<{ port: number; open: () => number }> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket
      .on('error', () => {})
      .on('close', () => sockets.delete(socket))
      .resume()
    if (greeting !== undefined) socket.end(greeting)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return { port: (server.address() as AddressInfo).port, open: () => sockets.size }
}

test('the refusal of plain HTTP by a TLS server is an Unreachable error that quotes its sentence', async (t) => {
  const answer = 'Client sent an HTTP request to an HTTPS server.'
  const server = await startServer(t, (_, response) => {
    response.writeHead(400).end(`${answer}\n`)
  })
  const words = new RegExp(`accepts only https \\("${answer}"\\): use https://`)
  await assert.rejects(transportTo(t, server.url).send(get('/'), never), failsWith('Unreachable', words))
})
