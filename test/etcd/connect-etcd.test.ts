import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import { EtcdError } from '../../src/etcd/kv.ts'
import { KV, Watch } from '../../src/protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { openOwner } from '../peers/owner.ts'
import { freePort } from '../peers/ports.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { eventually, withTimeout } from '../support/with-timeout.ts'
import { bytes, openClient, openWatch, patient, refusedWith } from './etcd-client.ts'

test('a call that is under way ends at once with its signal', async (t) => {
  const server = await startServer(t, { answers: false })
  const etcd = openClient(t, [server.url], { requestTimeoutMs: 60_000 })
  const stop = new AbortController()
  const reason = new Error('given up')
  const calls = [
    etcd.get('/a', stop.signal),
    etcd.list('/a/', { signal: stop.signal }),
    etcd.create('/a', bytes('one'), { signal: stop.signal }),
  ]
  const settled = Promise.allSettled(calls)
  await eventually('the requests', () => server.asked.length === 3)
  stop.abort(reason)
  for (const result of await withTimeout(settled, 10_000, 'the end of the calls')) {
    assert.deepEqual(result, { status: 'rejected', reason })
  }
})

test('a call that is under way ends at once when the client is closed', async (t) => {
  const server = await startServer(t, { answers: false })
  const etcd = openClient(t, [server.url], { requestTimeoutMs: 60_000 })
  const call = etcd.get('/a', patient).catch((error: unknown) => error)
  await eventually('the request', () => server.asked.length === 1)
  await withTimeout(etcd.close(), 10_000, 'closing')
  assert.deepEqual(await call, new EtcdError('Unreachable', 'etcd: the connection was closed here'))
})

test('a server that lives and does not answer is a Timeout; a read goes on to the next, a write does not', async (t) => {
  const [silent, answering] = [await startServer(t, { answers: false }), await startServer(t, { answers: true })]
  const etcd = openClient(t, [silent.url, answering.url], { requestTimeoutMs: 300 })
  await refusedWith('Timeout', etcd.create('/a', bytes('one'), { signal: patient }), /: no answer in time$/)
  assert.deepEqual([silent.asked, answering.asked], [['Txn'], []])
  assert.equal(await etcd.get('/a', patient), undefined)
  assert.deepEqual([silent.asked, answering.asked], [['Txn'], ['Range']])

  const reader = openClient(t, [silent.url, answering.url], { requestTimeoutMs: 300 })
  assert.equal(await reader.get('/a', patient), undefined)
  assert.deepEqual(
    [silent.asked, answering.asked],
    [
      ['Txn', 'Range'],
      ['Range', 'Range'],
    ],
  )
})

test('a request that was given up leaves its connection: the next one goes over a new one, while watches stay', async (t) => {
  const server = await startServer(t, { answers: true })
  const proxy = await TcpProxy.start(openOwner(t), { target: Number(new URL(server.url).port) })
  const etcd = openClient(t, [`http://127.0.0.1:${proxy.port}`], { requestTimeoutMs: 60_000 })
  const watch = await openWatch(t, etcd, '/watched/')
  await etcd.get('/a', patient)
  assert.equal(proxy.connections, 1)
  proxy.lose()
  const reason = new Error('out of time')
  const stop = new AbortController()
  const [read, write] = [etcd.get('/a', stop.signal), etcd.create('/a', bytes('one'), { signal: stop.signal })]
  const given = Promise.allSettled([read, write])
  setTimeout(() => stop.abort(reason), 50)
  for (const result of await given) assert.deepEqual(result, { status: 'rejected', reason })
  assert.equal(await etcd.create('/a', bytes('one'), { signal: patient }), undefined)
  await etcd.get('/a', patient)
  assert.equal(proxy.connections, 2, 'one for all that follows, beside that of the watch')
  assert.deepEqual(watch.lines, ['stands', 'look'])
})

test('a request that was given up leaves its endpoint, if there is another', async (t) => {
  const [silent, answering] = [await startServer(t, { answers: false }), await startServer(t, { answers: true })]
  const etcd = openClient(t, [silent.url, answering.url], { requestTimeoutMs: 60_000 })
  const stop = new AbortController()
  const given = assert.rejects(etcd.create('/a', bytes('one'), { signal: stop.signal }), { name: 'AbortError' })
  await eventually('the request', () => silent.asked.length === 1)
  stop.abort()
  await given
  await etcd.create('/a', bytes('one'), { signal: patient })
  assert.deepEqual([silent.asked, answering.asked], [['Txn'], ['Txn']])
})

test('a request that was given up while its connection was being made leaves that attempt, and its endpoint', async (t) => {
  const server = await startServer(t, { answers: true })
  const proxy = await TcpProxy.start(openOwner(t), { target: Number(new URL(server.url).port) })
  const urls = [`http://127.0.0.1:${proxy.port}`, server.url]
  const etcd = openClient(t, urls, { requestTimeoutMs: 60_000 })
  proxy.hold(true)
  await assert.rejects(etcd.create('/a', bytes('one'), { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
  await etcd.create('/a', bytes('one'), { signal: patient })
  assert.deepEqual([server.asked, proxy.connections], [['Txn'], 1], 'the first endpoint is not asked again')

  const alone = openClient(t, urls.slice(0, 1), { requestTimeoutMs: 60_000 })
  await assert.rejects(alone.create('/a', bytes('one'), { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
  const attempts = proxy.connections
  const next = alone.create('/a', bytes('one'), { signal: patient })
  await eventually('an attempt of its own', () => proxy.connections === attempts + 1)
  proxy.hold(false)
  await next
})

test('another endpoint is logged when it is in use, once, and not for each that fails', async (t) => {
  const lines: string[] = []
  const logger = {
    ...silentLogger,
    info: (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`),
  }
  const first = await startServer(t, { answers: true })
  const second = await startServer(t, { answers: true })
  const closed = `http://127.0.0.1:${await freePort()}`
  const etcd = openClient(t, [first.url, closed, second.url], { logger })
  for (let call = 0; call < 3; call++) await etcd.get('/a', patient)
  assert.deepEqual(lines, [])
  await first.end()
  for (let call = 0; call < 3; call++) await etcd.get('/a', patient)
  assert.equal(lines.length, 1)
  assert.match(lines[0] ?? '', new RegExp(`^another etcd endpoint is in use now .*"${second.url}"`))
  await second.end()
  for (let call = 0; call < 3; call++) await refusedWith('Unreachable', etcd.get('/a', patient))
  assert.equal(lines.length, 1)
})

/** An etcd that knows nothing, and may not even say so. */
interface FakeEtcd {
  readonly url: string
  /** The methods that were called. */
  readonly asked: readonly string[]
  end(): Promise<void>
}

async function startServer(t: Cleanup, { answers }: { readonly answers: boolean }): Promise<FakeEtcd> {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const answer = connectNodeAdapter({
    routes(router) {
      router.service(KV, { range: () => ({ header: { revision: 1n } }), txn: () => ({ header: { revision: 1n } }) })
      router.service(Watch, {
        async *watch(_, { signal }) {
          yield { created: true }
          await aborted(signal)
        },
      })
    },
  })
  const http2 = createServer((request, response) => {
    asked.push(request.url.split('/').at(-1) ?? '')
    if (answers) answer(request, response)
  })
  http2.on('connection', (socket: Socket) => sockets.add(socket))
  http2.listen(0, '127.0.0.1')
  await once(http2, 'listening')
  const { port } = http2.address() as AddressInfo
  const end = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    if (!http2.listening) return
    http2.close()
    await once(http2, 'close')
  }
  t.after(end)
  return { url: `http://127.0.0.1:${port}`, asked, end }
}
