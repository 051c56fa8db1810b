import assert from 'node:assert/strict'
import { createServer, type ServerHttp2Stream } from 'node:http2'
import { test } from 'node:test'
import type { Cleanup } from '../support/cleanup.ts'
import { endlessly } from '../support/endlessly.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import { eventually } from '../support/with-timeout.ts'
import { openClient, patient, refusedWith } from './etcd-client.ts'

const grpc = { ':status': 200, 'content-type': 'application/grpc' }

test('a message longer than the limit is refused by its declared length, without being read', async (t) => {
  const { url, streams } = await startServer(t, (stream) => {
    stream.respond(grpc)
    endlessly(stream, Buffer.concat([envelope(0x7fff_ffff), Buffer.alloc(60_000)]))
  })
  const etcd = openClient(t, [url])
  const before = process.memoryUsage().rss
  const words = /message size 2147483647 is larger than configured readMaxBytes 2097152/
  await refusedWith('ServerError', etcd.get('/a', patient), words)
  await refusedWith('ServerError', etcd.list('/a/', { signal: patient }), words)
  await refusedWith('ServerError', etcd.create('/a', new Uint8Array(1), { signal: patient }), words)
  await eventually('the requests end', () => streams.size === 0)
  const grown = process.memoryUsage().rss - before
  assert.ok(grown < 100 * 1024 * 1024, `${grown} bytes`)
})

for (const [name, code, respond] of [
  [
    'endless messages',
    'ServerError',
    (stream: ServerHttp2Stream) => {
      stream.respond(grpc)
      endlessly(stream, Buffer.alloc(50_000))
    },
  ],
  [
    'an endless stream of single bytes',
    'Timeout',
    (stream: ServerHttp2Stream) => {
      stream.respond(grpc)
      stream.write(envelope(2_000_000))
      // Far fewer bytes than the message has: a fast machine would send all of it within the time limit.
      endlessly(stream, Buffer.alloc(1), 1_000_000)
    },
  ],
  [
    'an endless page',
    'ServerError',
    (stream: ServerHttp2Stream) => {
      stream.respond({ ':status': 200, 'content-type': 'text/html' })
      endlessly(stream, Buffer.alloc(60_000))
    },
  ],
  [
    'an unrequested compression',
    'ServerError',
    (stream: ServerHttp2Stream) => {
      stream.respond({ ...grpc, 'grpc-encoding': 'gzip' })
      endlessly(stream, Buffer.alloc(60_000, 1))
    },
  ],
] as const) {
  test(`a server that answers with ${name} causes one error, without growing memory`, async (t) => {
    const { url, streams } = await startServer(t, respond)
    const etcd = openClient(t, [url], { requestTimeoutMs: code === 'Timeout' ? 1_500 : 60_000 })
    const before = process.memoryUsage().rss
    await refusedWith(code, etcd.get('/a', patient))
    await eventually('the request ends', () => streams.size === 0)
    const grown = process.memoryUsage().rss - before
    assert.ok(grown < 100 * 1024 * 1024, `${grown} bytes`)
  })
}

test('unknown fields of an answer take no memory', async (t) => {
  const { url } = await startServer(t, answering(Buffer.alloc(2_000_000, Buffer.from([0x78, 0]))))
  const etcd = openClient(t, [url])
  const before = process.memoryUsage().rss
  assert.equal(await etcd.get('/a', patient), undefined)
  const grown = process.memoryUsage().rss - before
  assert.ok(grown < 100 * 1024 * 1024, `${grown} bytes`)
})

test('the error in the grant of a lease is reported in one line of at most 200 characters', async (t) => {
  // The number 4 is `error`. Its length is 2,000.
  const fields = Buffer.concat([Buffer.from([0x22, 0xd0, 0x0f]), Buffer.from('\n\x1b[31m'.padEnd(2_000, 'x'))])
  const { url } = await startServer(t, answering(fields))
  // biome-ignore lint/suspicious/noControlCharactersInRegex: there must be none
  await refusedWith('Refused', openClient(t, [url]).grantLease(15, patient), /: \[31mx{196}…$/, /^[^\x00-\x1f]+$/)
})

/** Answers a request with one message. */
function answering(message: Buffer): (stream: ServerHttp2Stream) => void {
  return (stream) => {
    stream.respond(grpc, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.end(Buffer.concat([envelope(message.length), message]))
  }
}

/** The header of a message that states a length of `length` bytes. */
function envelope(length: number): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(length, 1)
  return head
}

async function startServer(
  t: Cleanup,
  respond: (stream: ServerHttp2Stream) => void,
): Promise<{ readonly url: string; readonly streams: ReadonlySet<ServerHttp2Stream> }> {
  const streams = new Set<ServerHttp2Stream>()
  const server = createServer()
  server.on('stream', (stream) => {
    streams.add(stream)
    stream.on('error', () => {}).once('close', () => streams.delete(stream))
    respond(stream)
  })
  const { port } = await listenOnLoopback(t, server)
  return { url: `http://127.0.0.1:${port}`, streams }
}
