import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect as connectTcp } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type TLSSocket } from 'node:tls'
import { FaultProxy, type FaultProxyOptions } from '../../../src/drill/live/fault-proxy.ts'
import { listenAnywhere } from '../../../src/drill/live/tcp-proxy.ts'
import { HttpTransport } from '../../../src/kube/http-transport.ts'
import type { ApiRequest, ApiResponse } from '../../../src/kube/transport.ts'
import { trimIpAddress } from '../../../src/repair/ip-address/ip-address.ts'
import { CertificateAuthority } from '../../peers/certificates.ts'
import { untilPasses } from '../../peers/until.ts'

/**
 * Far longer than any request takes on loopback. The tests wait this long before they conclude that something hangs.
 */
const awhileMs = 150
const endpoints = '/api/v1/namespaces/default/endpoints'
const never = new AbortController().signal
const soon = { withinMs: 10_000 }

test('the proxy forwards request and response unchanged, with the token', async (t) => {
  const { send, seen } = await open(t)
  const response = await send({ method: 'PUT', path: `${endpoints}/kubernetes`, body: { kind: 'Endpoints' } })
  assert.equal(response.status, 200)
  assert.deepEqual(bodyOf(response), { method: 'PUT', body: { kind: 'Endpoints' } })
  assert.equal(seen.at(-1)?.headers.authorization, 'Bearer mine')
})

test('the proxy reports each request, also one that it answers itself', async (t) => {
  const reported: string[] = []
  const { proxy, send } = await open(t, { onRequest: ({ method, path }) => reported.push(`${method} ${path}`) })
  await send({ method: 'PUT', path: `${endpoints}/kubernetes`, query: [['a', 'b']], body: {} })
  proxy.apply({ fault: { type: 'status', status: 503 } })
  await send({ method: 'DELETE', path: `${endpoints}/kubernetes` })
  assert.deepEqual(reported, [`PUT ${endpoints}/kubernetes`, `DELETE ${endpoints}/kubernetes`])
})

test('a status rule answers matching requests with Retry-After until it is lifted; the server receives none of them', async (t) => {
  const { proxy, send, seen } = await open(t)
  const rule = {
    fault: { type: 'status', status: 429, retryAfterMs: 6_000 },
    resource: 'endpoints',
    verb: 'update',
  } as const
  proxy.apply(rule)
  const refused = await send({ method: 'PUT', path: `${endpoints}/kubernetes`, body: {} })
  assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '6'])
  assert.equal(seen.length, 0)
  assert.equal((await send({ path: `${endpoints}/kubernetes` })).status, 200, 'another verb')
  proxy.lift(rule)
  assert.equal((await send({ method: 'PUT', path: `${endpoints}/kubernetes`, body: {} })).status, 200)
})

test('a request that hangs is not answered, even after the rule is lifted; a delayed request is answered', async (t) => {
  const { proxy, send, seen } = await open(t)
  proxy.apply({ fault: { type: 'hang' }, only: 'api' })
  const hung = send({ path: endpoints, timeoutMs: 4 * awhileMs }).then(
    () => 'answered',
    () => 'no answer',
  )
  assert.equal(await Promise.race([hung, sleep(awhileMs, 'nothing')]), 'nothing')
  assert.equal((await send({ path: '/readyz' })).status, 200)
  proxy.lift({ fault: { type: 'hang' }, only: 'api' })
  assert.equal(await hung, 'no answer')
  assert.deepEqual(
    seen.map(({ path }) => path),
    ['/readyz'],
  )
  proxy.apply({ fault: { type: 'delay', byMs: awhileMs } })
  const late = send({ path: endpoints })
  assert.equal(await Promise.race([late, sleep(awhileMs / 2, 'nothing')]), 'nothing')
  assert.equal((await late).status, 200)
})

test('lose-event drops one event of a watch; cut-watches breaks open watches, and new ones at the age limit', async (t) => {
  const { proxy, send, sendEvent, sendText, seen } = await open(t)
  const { protobuf } = trimIpAddress
  const watch = () => follow(send({ path: endpoints, query: [['watch', 'true']], stream: true, protobuf }))
  const first = watch()
  await untilPasses('the watch to be established', () => assert.equal(sendEvent({ type: 'ADDED', object: 1 }), 1), soon)
  await untilPasses('the first event', () => assert.deepEqual(first.received, [1]), soon)
  assert.equal(seen.at(-1)?.headers.accept, 'application/json', 'protobuf has no lines that can be lost')
  sendText('{"type":"ADDED",')
  await sleep(awhileMs)
  sendText('"object":9}\n')
  await untilPasses('an event in two pieces', () => assert.deepEqual(first.received, [1, 9]), soon)
  proxy.apply({ fault: { type: 'lose-event' } })
  for (const event of [2, 3]) sendEvent({ type: 'MODIFIED', object: event })
  await untilPasses('the third event', () => assert.deepEqual(first.received, [1, 9, 3]), soon)
  proxy.apply({ fault: { type: 'cut-watches', everyMs: awhileMs }, resource: 'endpoints' })
  assert.equal(await first.end, 'broken')
  const second = watch()
  assert.equal(await second.end, 'broken')
})

test('a request without the issued token is refused; the server receives the configured credentials instead', async (t) => {
  const { proxy, send, seen } = await open(t, { credential: { token: 'mine', authorization: 'Bearer drill' } })
  assert.equal((await send({ path: endpoints })).status, 200)
  assert.equal(seen.at(-1)?.headers.authorization, 'Bearer drill')
  proxy.issue({ token: 'next' })
  assert.equal((await send({ path: endpoints })).status, 401)
  assert.equal((await send({ path: endpoints, token: 'next' })).status, 200)
  assert.equal(seen.at(-1)?.headers.authorization, undefined)
})

test('the proxy serves TLS with its own certificate, and presents its client certificate to the server', async (t) => {
  const authority = new CertificateAuthority()
  const own = new CertificateAuthority('authority of the proxy')
  const { certificate: cert, key } = authority.issue({ commonName: 'server', ips: ['127.0.0.1'] })
  const client = authority.issue({ commonName: 'drill' })
  const names: string[] = []
  const server = createTlsServer(
    { cert, key, ca: authority.certificate, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      names.push((request.socket as TLSSocket).getPeerCertificate().subject.CN as string)
      response.setHeader('content-type', 'application/json').end('{}')
    },
  )
  const port = await listenAnywhere(server)
  t.after(() => server.close())
  const proxy = await FaultProxy.open({
    server: {
      url: new URL(`https://127.0.0.1:${port}`),
      tls: { ca: authority.certificate, cert: client.certificate, key: client.key },
    },
    tls: own.issue({ commonName: 'proxy', ips: ['127.0.0.1'] }),
  })
  t.after(() => proxy.close())
  const url = new URL(`https://127.0.0.1:${proxy.port}`)
  const transport = new HttpTransport({ server: url, tls: { ca: own.certificate } })
  t.after(() => transport.close())
  const request: ApiRequest = { method: 'GET', path: endpoints, query: [], headers: {} }
  assert.equal((await transport.send(request, never)).status, 200)
  assert.deepEqual(names, ['drill'])
  const stranger = connect({ host: '127.0.0.1', port: proxy.port, ca: authority.certificate })
  const [error] = await once(stranger, 'error')
  assert.match((error as Error).message, /self-signed|unable to verify/)
})

test('a request to a server that is gone fails as if the server had closed the connection', async (t) => {
  const { send, stop } = await open(t)
  await stop()
  await assert.rejects(send({ path: endpoints }), /Unreachable|closed|reset/i)
})

for (const scheme of ['http', 'https'] as const) {
  test(`over ${scheme} no request target leads the proxy to another server or ends its process`, async (t) => {
    const others: string[] = []
    const other = createServer(({ url = '' }, response) => {
      others.push(url)
      response.end()
    })
    const elsewhere = `127.0.0.1:${await listenAnywhere(other)}`
    t.after(() => other.close())
    const tls = new CertificateAuthority().issue({ commonName: 'proxy', ips: ['127.0.0.1'] })
    const { proxy, seen } = await open(t, scheme === 'https' ? { tls } : {})
    const send = (head: string): Promise<string> => sendRaw(proxy.port, head, scheme === 'https')
    for (const target of [
      '//[',
      '//',
      `//${elsewhere}/a`,
      `/\\${elsewhere}/a`,
      `http://${elsewhere}/a`,
      'http://[',
      '*',
    ]) {
      assert.match(await send(`OPTIONS ${target} HTTP/1.1`), /^HTTP\/1\.1 400 /, target)
    }
    assert.deepEqual([seen, others], [[], []])
    for (const target of ['/', '/a//b', '/[', `/a?b=//${elsewhere}`, '/a\r\nTrailer: b', '/a\r\nUpgrade: b']) {
      const [path, header = 'A: b'] = target.split('\r\n')
      assert.match(await send(`GET ${path} HTTP/1.1\r\n${header}`), /^HTTP\/1\.1 200 /, target)
    }
    assert.deepEqual([seen.length, others], [6, []])
  })
}

/** Sends a request that no client library sends, and returns the answer. */
async function sendRaw(port: number, head: string, secure: boolean): Promise<string> {
  const place = { host: '127.0.0.1', port }
  const socket = secure ? connect({ ...place, rejectUnauthorized: false }) : connectTcp(place)
  socket.write(`${head}\r\nHost: proxy\r\nConnection: close\r\n\r\n`)
  let text = ''
  for await (const chunk of socket) text += chunk
  return text
}

interface Seen {
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

/** A proxy in front of a server that answers every request and keeps watches open. */
async function open(t: TestContext, over: Partial<FaultProxyOptions> = {}) {
  const seen: Seen[] = []
  const watches = new Set<ServerResponse>()
  const server = createServer(async (request, response) => {
    seen.push({ path: new URL(request.url ?? '', 'http://server').pathname, headers: request.headers })
    response.setHeader('content-type', 'application/json')
    if (request.url?.includes('watch=true')) {
      watches.add(response)
      response.on('close', () => watches.delete(response))
      return response.flushHeaders()
    }
    return response.end(JSON.stringify({ method: request.method, body: await readJson(request) }))
  })
  const port = await listenAnywhere(server)
  const stop = async (): Promise<void> => {
    server.closeAllConnections()
    if (server.listening) await new Promise((resolve) => server.close(resolve))
  }
  const proxy = await FaultProxy.open({ server: { url: new URL(`http://127.0.0.1:${port}`) }, ...over })
  const transport = new HttpTransport({ server: new URL(`http://127.0.0.1:${proxy.port}`) })
  t.after(async () => {
    await transport.close()
    await proxy.close()
    await stop()
  })
  const send = ({ token = 'mine', ...request }: Partial<ApiRequest> & { readonly token?: string }) =>
    transport.send(
      { method: 'GET', path: '/', query: [], ...request, headers: { authorization: `Bearer ${token}` } },
      never,
    )
  const sendText = (text: string): void => {
    for (const response of watches) response.write(text)
  }
  /** Returns how many watches receive the event. */
  const sendEvent = (event: unknown): number => {
    sendText(`${JSON.stringify(event)}\n`)
    return watches.size
  }
  return { proxy, send, seen, sendEvent, sendText, stop }
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text === '' ? undefined : JSON.parse(text)
}

function bodyOf(response: ApiResponse): unknown {
  return 'body' in response ? response.body : undefined
}

/** The events that a watch receives, and how it ends. */
function follow(opened: Promise<ApiResponse>) {
  const received: unknown[] = []
  const read = async (): Promise<string> => {
    const response = await opened
    if (!('stream' in response)) return `status ${response.status}`
    try {
      for await (const event of response.stream) received.push((event as { readonly object: unknown }).object)
      return 'ended'
    } catch {
      return 'broken'
    }
  }
  return { received, end: read() }
}
