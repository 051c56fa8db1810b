import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { EtcdError, type EtcdKv } from '../../src/etcd/kv.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { KV, Watch } from '../../src/protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { openOwner } from '../peers/owner.ts'
import { freePort } from '../peers/ports.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { eventually, withTimeout } from '../support/with-timeout.ts'
import { bytes, openClient, openWatch, patient, refusedWith, startWatch } from './etcd-client.ts'

test('aborting the signal ends a pending call at once', async (t) => {
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

test('closing the client ends a pending call at once', async (t) => {
  const server = await startServer(t, { answers: false })
  const etcd = openClient(t, [server.url], { requestTimeoutMs: 60_000 })
  const call = etcd.get('/a', patient).catch((error: unknown) => error)
  await eventually('the request', () => server.asked.length === 1)
  await withTimeout(etcd.close(), 10_000, 'closing')
  assert.deepEqual(await call, new EtcdError('Unreachable', 'etcd: the client closed the connection'))
})

test('a live server that does not answer is a Timeout; a read then tries the next server, a write does not', async (t) => {
  const [silent, answering] = [await startServer(t, { answers: false }), await startServer(t, { answers: true })]
  const etcd = openClient(t, [silent.url, answering.url], { requestTimeoutMs: 2_000 })
  await refusedWith('Timeout', etcd.create('/a', bytes('one'), { signal: patient }), /: no answer in time$/)
  assert.deepEqual([silent.asked, answering.asked], [['Txn'], []])
  assert.equal(await etcd.get('/a', patient), undefined)
  assert.deepEqual([silent.asked, answering.asked], [['Txn'], ['Range']])

  const reader = openClient(t, [silent.url, answering.url], { requestTimeoutMs: 2_000 })
  assert.equal(await reader.get('/a', patient), undefined)
  assert.deepEqual(
    [silent.asked, answering.asked],
    [
      ['Txn', 'Range'],
      ['Range', 'Range'],
    ],
  )
})

test('after an aborted request the next one uses a new connection, while watches stay on theirs', async (t) => {
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
  assert.equal(proxy.connections, 2, 'the requests share one new connection beside that of the watch')
  assert.deepEqual(watch.lines, ['established', 'read'])
})

test('after a request that timed out the next one uses a new connection', async (t) => {
  const server = await startServer(t, { answers: false })
  const etcd = openClient(t, [server.url], { requestTimeoutMs: 500 })
  for (const connections of [1, 2]) {
    await assert.rejects(etcd.create('/a', bytes('one'), { signal: patient }))
    assert.equal(server.connections(), connections)
  }
})

test('after an aborted request the next one uses another endpoint, if one exists', async (t) => {
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

test('a request aborted during the connection attempt abandons that attempt and its endpoint', async (t) => {
  const server = await startServer(t, { answers: true })
  const proxy = await TcpProxy.start(openOwner(t), { target: Number(new URL(server.url).port) })
  const urls = [`http://127.0.0.1:${proxy.port}`, server.url]
  const etcd = openClient(t, urls, { requestTimeoutMs: 60_000 })
  proxy.hold(true)
  const giveUp = async (client: EtcdKv): Promise<void> => {
    const stop = new AbortController()
    const attempts = proxy.connections
    const call = assert.rejects(client.create('/a', bytes('one'), { signal: stop.signal }), { name: 'AbortError' })
    await eventually('an attempt', () => proxy.connections === attempts + 1)
    stop.abort()
    await call
  }
  await giveUp(etcd)
  await etcd.create('/a', bytes('one'), { signal: patient })
  assert.deepEqual([server.asked, proxy.connections], [['Txn'], 1], 'the first endpoint is not asked again')

  const alone = openClient(t, urls.slice(0, 1), { requestTimeoutMs: 60_000 })
  await giveUp(alone)
  const attempts = proxy.connections
  const next = alone.create('/a', bytes('one'), { signal: patient })
  await eventually('an attempt of its own', () => proxy.connections === attempts + 1)
  proxy.hold(false)
  await next
})

test('a switch to another endpoint is logged once, when it answers, and not for each failure', async (t) => {
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
  assert.match(lines[0] ?? '', new RegExp(`^switched to another etcd endpoint .*"${second.url}"`))
  await second.end()
  for (let call = 0; call < 3; call++) await refusedWith('Unreachable', etcd.get('/a', patient))
  assert.equal(lines.length, 1)
})

test('a late failure of an abandoned endpoint does not replace the endpoint in use', async (t) => {
  const [silent, answering] = [await startServer(t, { answers: false }), await startServer(t, { answers: true })]
  const etcd = openClient(t, [silent.url, answering.url], { requestTimeoutMs: 60_000 })
  const [first, second] = [new AbortController(), new AbortController()]
  const given = [first, second].map(({ signal }) => etcd.create('/a', bytes('one'), { signal }).catch(() => {}))
  await eventually('the requests', () => silent.asked.length === 2)
  first.abort()
  await given[0]
  second.abort()
  await given[1]
  await etcd.create('/a', bytes('one'), { signal: patient })
  assert.deepEqual([silent.asked.length, answering.asked], [2, ['Txn']])
})

test('a watch begins with the first change after the revision of the read before it', async (t) => {
  const server = await startServer(t, { answers: true, revision: 7n })
  const watch = await openWatch(t, openClient(t, [server.url]), '/watched/')
  assert.deepEqual(server.watched, [8n])
  await watch.end()
})

test('a watch that breaks as soon as it is established is reopened after growing pauses', async (t) => {
  const server = await startServer(t, { answers: true, watchesAre: 'ended' })
  // Only pauses have a random length.
  const { clock, pauses } = clockOfPauses((delayMs) => delayMs % 100 !== 0)
  const endpoints = [parseEndpoint(server.url)]
  const etcd = connectEtcd({ endpoints, clock, random: { next: () => 0.9871 }, requestTimeoutMs: 60_000 })
  t.after(() => etcd.close())
  const watch = startWatch(t, etcd, '/watched/')
  await eventually('seven watches', () => server.watched.length >= 7)
  await watch.end()
  assert.ok(Math.max(...pauses) > 2_000, `pauses of ${pauses}`)
})

test('a watch that the server cancels is closed before it is reopened', async (t) => {
  const server = await startServer(t, { answers: true, watchesAre: 'canceled' })
  const { clock } = clockOfPauses((delayMs) => delayMs % 100 !== 0)
  const endpoints = [parseEndpoint(server.url)]
  const etcd = connectEtcd({ endpoints, clock, random: { next: () => 0.0171 }, requestTimeoutMs: 60_000 })
  t.after(() => etcd.close())
  const watch = startWatch(t, etcd, '/watched/')
  await eventually('twelve watches', () => server.watched.length >= 12)
  await watch.end()
  await eventually('no open watch', () => server.openWatches() === 0)
  // The server may notice the end of a watch a little later than the next watch.
  assert.ok(server.mostOpenWatches() <= 4, `${server.mostOpenWatches()} watches at a time`)
})

test('a request that every server refuses for lack of a leader is retried after a pause', async (t) => {
  const server = await startServer(t, { answers: true, withoutLeader: 2 })
  const { clock, pauses } = clockOfPauses((delayMs) => delayMs === 200)
  const etcd = connectEtcd({ endpoints: [parseEndpoint(server.url)], clock, requestTimeoutMs: 60_000 })
  t.after(() => etcd.close())
  assert.equal(await etcd.get('/a', patient), undefined)
  assert.deepEqual(
    [server.asked, pauses],
    [
      ['Range', 'Range', 'Range'],
      [200, 200],
    ],
  )
})

test('a request whose open connection breaks is retried over a new one', async (t) => {
  const server = await startServer(t, { answers: true })
  const etcd = openClient(t, [server.url], { requestTimeoutMs: 60_000 })
  await etcd.get('/a', patient)
  server.breakNext()
  assert.equal(await etcd.get('/a', patient), undefined)
  assert.deepEqual(server.asked, ['Range', 'Range', 'Range'])
})

/** A clock on which pauses end at once, and the time limits of requests and connections never end. */
function clockOfPauses(isPause: (delayMs: number) => boolean): { readonly clock: Clock; readonly pauses: number[] } {
  const pauses: number[] = []
  const clock: Clock = {
    wallMs: () => 0,
    monotonicMs: () => 0,
    schedule(delayMs, callback) {
      if (!isPause(delayMs)) return () => {}
      pauses.push(delayMs)
      const waiting = setImmediate(callback)
      return () => clearImmediate(waiting)
    },
  }
  return { clock, pauses }
}

/** An etcd without keys, which may not even answer. */
interface FakeEtcd {
  readonly url: string
  /** The methods that were called. */
  readonly asked: readonly string[]
  /** The start revisions of the watches. */
  readonly watched: readonly bigint[]
  /** How many watches are open now, and how many were at the same time at most. */
  openWatches(): number
  mostOpenWatches(): number
  /** How many connections were made so far. */
  connections(): number
  /** Ends the connection of the next request instead of answering it. */
  breakNext(): void
  end(): Promise<void>
}

async function startServer(
  t: Cleanup,
  {
    answers,
    revision = 1n,
    watchesAre = 'open',
    withoutLeader = 0,
  }: {
    readonly answers: boolean
    readonly revision?: bigint
    /** What happens to a watch as soon as it is established. A canceled one leaves its stream open. */
    readonly watchesAre?: 'open' | 'ended' | 'canceled'
    /** How many reads are refused, as by a server without a leader. */
    readonly withoutLeader?: number
  },
): Promise<FakeEtcd> {
  let isToBreak = false
  let refusals = withoutLeader
  let open = 0
  let mostOpen = 0
  const asked: string[] = []
  const watched: bigint[] = []
  const sockets = new Set<Socket>()
  const answer = connectNodeAdapter({
    routes(router) {
      const range = () => {
        if (refusals-- > 0) throw new ConnectError('etcdserver: no leader', Code.Unavailable)
        return { header: { revision } }
      }
      router.service(KV, { range, txn: () => ({ header: { revision } }) })
      router.service(Watch, {
        async *watch(requests, { signal }) {
          for await (const { requestUnion } of requests) {
            if (requestUnion.case === 'createRequest') watched.push(requestUnion.value.startRevision)
            break
          }
          open++
          mostOpen = Math.max(mostOpen, open)
          try {
            yield { created: true }
            if (watchesAre === 'canceled') yield { canceled: true, cancelReason: 'etcdserver: no leader' }
            if (watchesAre !== 'ended') await aborted(signal)
          } finally {
            open--
          }
        },
      })
    },
  })
  const http2 = createServer((request, response) => {
    asked.push(request.url.split('/').at(-1) ?? '')
    if (isToBreak) {
      isToBreak = false
      request.stream.session?.destroy()
    } else if (answers) answer(request, response)
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
  const breakNext = (): void => {
    isToBreak = true
  }
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    watched,
    openWatches: () => open,
    mostOpenWatches: () => mostOpen,
    connections: () => sockets.size,
    breakNext,
    end,
  }
}
