import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { eventually } from '../support/with-timeout.ts'
import { ApiClient, type SeenEvent } from './api-client.ts'
import { CertificateAuthority } from './certificates.ts'
import { FaultProxy, requestOf } from './fault-proxy.ts'
import { openOwner } from './owner.ts'

const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'

/**
 * Starts a server that records requests and whose watches send numbers, and a client that reaches it through a proxy.
 */
async function start(t: TestContext) {
  const owner = openOwner(t)
  const authority = new CertificateAuthority()
  const { certificate: cert, key } = authority.issue({ commonName: 'server', ips: ['127.0.0.1'] })
  const asked: string[] = []
  const watches = new Set<{ write(text: string): unknown }>()
  const server = createServer({ cert, key }, (incoming, outgoing) => {
    asked.push(`${incoming.method} ${incoming.headers.authorization}`)
    outgoing.writeHead(200, { 'content-type': 'application/json' })
    if (incoming.url?.includes('watch=true')) {
      watches.add(outgoing)
      outgoing.flushHeaders()
    } else outgoing.end('{"from":"server"}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  owner.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const proxy = await FaultProxy.start(owner, { port, authority, token: 'secret' })
  const client = new ApiClient({
    url: `https://127.0.0.1:${proxy.port}`,
    ca: authority.certificate,
    token: 'secret',
  })
  owner.after(() => client.close())
  const emit = (type: string, number: number): void => {
    for (const watch of watches) watch.write(`${JSON.stringify({ type, object: { number } })}\n`)
  }
  return { owner, proxy, client, asked, watches, emit }
}

test('the resource and verb of a request are derived from its method and path', () => {
  const cases = [
    ['GET', '/readyz?verbose=true', 'readyz get'],
    ['GET', '/apis', 'apis get'],
    ['GET', '/api/v1/namespaces?watch=true', 'namespaces watch'],
    ['POST', '/api/v1/namespaces', 'namespaces create'],
    ['GET', '/api/v1/namespaces/default', 'namespaces get'],
    ['GET', '/api/v1/services', 'services list'],
    ['PUT', '/api/v1/namespaces/default/endpoints/kubernetes', 'endpoints update'],
    ['GET', `${leases}/a`, 'leases get'],
    ['PATCH', '/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1', 'ipaddresses patch'],
    ['DELETE', '/apis/networking.k8s.io/v1/servicecidrs/kubernetes', 'servicecidrs delete'],
  ] as const
  for (const [method, url, expected] of cases) {
    const { resource, verb } = requestOf(method, url)
    assert.equal(`${resource} ${verb}`, expected, url)
  }
})

test('without a fault the proxy forwards a request, its credentials and the answer', async (t) => {
  const { client, asked } = await start(t)
  assert.deepEqual(await client.send('GET', leases), { status: 200, body: { from: 'server' } })
  assert.deepEqual(asked, ['GET Bearer secret'])
})

test('a fault that answers for the server affects only the resource, verb and number of requests of its rule', async (t) => {
  const { client, proxy, asked } = await start(t)
  const fault = { type: 'answer', status: 429, retryAfterSeconds: 6 } as const
  const placed = proxy.place({ fault, resources: ['leases'], verbs: ['create'], times: 1 })
  assert.equal((await client.send('GET', leases)).status, 200)
  assert.equal((await client.send('POST', '/api/v1/services', { body: {} })).status, 200)
  assert.equal((await client.send('POST', leases, { body: {} })).status, 429)
  assert.equal((await client.send('POST', leases, { body: {} })).status, 200)
  assert.equal(asked.length, 3)
  assert.equal(placed.hits, 1)
  proxy.place({ fault: { type: 'answer', status: 500, failing: ['etcd'] } })
  const { status, body } = await client.send('GET', '/readyz')
  assert.equal(status, 500)
  assert.match(String(body), /^\[\+\]ping ok\n\[-\]etcd failed/)
})

test('a hanging request does not reach the server; a request whose answer is lost does', async (t) => {
  const { client, proxy, asked } = await start(t)
  const hang = proxy.place({ fault: { type: 'hang' } })
  await assert.rejects(client.send('GET', leases, { timeoutMs: 200 }), /timeout/)
  assert.equal(asked.length, 0)
  hang.end()
  const lost = proxy.place({ fault: { type: 'lost-answer' } })
  await assert.rejects(client.send('GET', leases), /other side closed|ECONNRESET/)
  assert.equal(asked.length, 1)
  lost.end()
  for (const type of ['delay', 'late-answer'] as const) {
    proxy.place({ fault: { type, ms: 100 }, times: 1 })
    assert.equal((await client.send('GET', leases)).status, 200)
  }
})

test('a lost-event fault drops one event but no bookmark; a cut-watches fault ends a watch of its resource', async (t) => {
  const { client, proxy, watches, emit } = await start(t)
  const seen: string[] = []
  const onEvent = ({ type, object }: SeenEvent<{ number: number }>): void => void seen.push(`${type} ${object.number}`)
  const watching = client.watch(leases, onEvent, new AbortController().signal)
  const cut = assert.rejects(watching)
  await eventually('the watch', () => watches.size > 0)
  proxy.place({ fault: { type: 'lost-event' }, resources: ['leases'], times: 1 })
  emit('BOOKMARK', 1)
  emit('MODIFIED', 2)
  emit('MODIFIED', 3)
  await eventually('two events', () => seen.length === 2)
  assert.deepEqual(seen, ['BOOKMARK 1', 'MODIFIED 3'])
  proxy.place({ fault: { type: 'cut-watches', everyMs: 60_000 }, resources: ['services'] })
  emit('MODIFIED', 4)
  await eventually('another event', () => seen.length === 3)
  proxy.place({ fault: { type: 'cut-watches', everyMs: 60_000 }, resources: ['leases'], times: 1 })
  await cut
})

test('a proxy that refused connections accepts them again', async (t) => {
  const { client, proxy } = await start(t)
  await client.send('GET', leases)
  await proxy.refuse()
  await assert.rejects(client.send('GET', leases), /ECONNREFUSED|other side closed/)
  await proxy.accept()
  assert.equal((await client.send('GET', leases)).status, 200)
})
