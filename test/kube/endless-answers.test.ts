import assert from 'node:assert/strict'
import type { RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { isKubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import { httpReadiness } from '../../src/kube/http-readiness.ts'
import { HttpTransport } from '../../src/kube/http-transport.ts'
import { endpoints, leases, services } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { answerLimits } from '../../src/kube/transport.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { endlessly } from '../support/endlessly.ts'
import { eventually } from '../support/with-timeout.ts'
import { startServer } from './loopback-server.ts'

const never = new AbortController().signal

async function setUp(t: TestContext, listener: RequestListener) {
  const server = await startServer(t, listener)
  const transport = new HttpTransport({ server: server.url })
  t.after(() => transport.close())
  return { server, transport, api: restKubeApi({ transport, clock: systemClock, random: systemRandom() }) }
}

/** Asserts the error of a call, whose message is one line that matches `words`. */
async function refused(code: KubeErrorCode, call: Promise<unknown>, ...words: RegExp[]): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(isKubeError(error, code), String(error))
    assert.match(error.message, /^[^\n]{10,400}$/)
    for (const word of words) assert.match(error.message, word)
    return true
  })
}

const json = { 'content-type': 'application/json' }
const ref = { namespace: 'default', name: 'kubernetes' }

test('an endless answer is read up to the limit of its kind, in bounded memory, and its connection is closed', async (t) => {
  const piece = Buffer.alloc(64 * 1024, ' ')
  let status = 200
  const { server, api, transport } = await setUp(t, (_, response) => {
    response.writeHead(status, json)
    endlessly(response, piece)
  })
  let highest = 0
  const before = process.memoryUsage().rss
  const watching = setInterval(() => {
    highest = Math.max(highest, process.memoryUsage().rss)
  }, 5)
  t.after(() => clearInterval(watching))
  const watch = async (): Promise<void> => {
    for await (const _ of api.watch(services, { signal: never }));
  }
  const limit = (kind: keyof typeof answerLimits): RegExp => new RegExp(` limit of ${answerLimits[kind]} bytes`)
  await refused('TooLarge', api.get(services, ref), /^get services default\/kubernetes: http/, limit('object'))
  await refused('TooLarge', api.list(services, { limit: 500 }), /^list services: /, limit('page'))
  await refused('TooLarge', watch(), /^watch services: /, limit('event'))
  status = 500
  await refused('TooLarge', api.get(services, ref), limit('refusal'))
  status = 200
  const probed = await httpReadiness({ transport }).probe(never)
  assert.ok(!probed.answered && limit('text').test(probed.reason), JSON.stringify(probed))
  assert.match(probed.reason, /the answer to GET \/readyz is longer/)
  await eventually('the connections close', () => server.open() === 0)
  // At most 8 MiB of an answer were read; the server sent without end.
  assert.ok(highest - before < 150 * 1024 * 1024, `${Math.round((highest - before) / 1024 / 1024)} MiB`)
})

test('an answer with a content-length over the limit is refused, and its connection is closed', async (t) => {
  const { server, api } = await setUp(t, (_, response) => {
    response.writeHead(200, { ...json, 'content-length': '1099511627776' }).write('{')
  })
  await refused('TooLarge', api.get(leases, ref), /has 1099511627776 bytes, more than the limit of 4194304$/)
  await eventually('the connection closes', () => server.open() === 0)
})

test('a list that is requested as a whole may be longer than a page', async (t) => {
  const items = Array.from({ length: 9 }, () => ({ data: 'x'.repeat(1024 * 1024) }))
  const { api } = await setUp(t, (_, response) => {
    response.writeHead(200, json).end(JSON.stringify({ metadata: { resourceVersion: '1' }, items }))
  })
  assert.equal((await api.list(services)).items.length, 9)
  await refused('TooLarge', api.list(services, { limit: 500 }))
})

test('an endless answer in chunks of one byte is refused without excessive memory', async (t) => {
  const one = '1\r\nx\r\n'.repeat(20_000)
  const { transport } = await setUp(t, ({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n')
    endlessly(socket, one)
  })
  const before = process.memoryUsage().rss
  const request = { method: 'GET', path: '/', query: [], headers: {}, maxBytes: 512 * 1024, timeoutMs: 60_000 } as const
  await refused('TooLarge', transport.send(request, never))
  const grown = process.memoryUsage().rss - before
  assert.ok(grown < 150 * 1024 * 1024, `${Math.round(grown / 1024 / 1024)} MiB`)
})

test('compression that the client did not request is refused, in answers and in watches', async (t) => {
  const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024, ' '))
  const { api } = await setUp(t, (_, response) => {
    response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(bomb)
  })
  await refused('BadResponse', api.get(services, ref), /is compressed, but compression was not requested$/)
  const watching = api.watch(services, { signal: never })[Symbol.asyncIterator]()
  await refused('BadResponse', watching.next(), /is compressed/)
})

test('JSON nested more than 500 levels deep is refused; brackets in strings do not count', async (t) => {
  let body = ''
  const { api } = await setUp(t, (_, response) => {
    response.writeHead(200, json).end(body)
  })
  body = `{"kind":"Service","metadata":{"name":"kubernetes"},"x":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_001)}`
  await refused('BadResponse', api.get(services, ref), /nested more than 500 levels deep$/)
  body = '['.repeat(1_000_000)
  await refused('BadResponse', api.get(services, ref), /nested more than 500 levels deep$/)
  const note = `${'['.repeat(20_000)}\\"${'{'.repeat(20_000)}`
  body = `{"kind":"Service","metadata":{"name":"kubernetes"},"note":"${note}"}`
  assert.equal((await api.get(services, ref)).metadata?.name, 'kubernetes')
})

test('a redirect is not followed: nothing is sent to the other server', async (t) => {
  const other = await startServer(t, (_, response) => void response.end())
  for (const status of [301, 302, 307, 308]) {
    const { server, api, transport } = await setUp(t, (_, response) => {
      response.writeHead(status, { location: other.url.href }).end()
    })
    await refused('Refused', api.get(services, ref), new RegExp(`HTTP status ${status}$`))
    await transport.send({ method: 'POST', path: '/', query: [], headers: {}, body: {} }, never, {
      authorization: 'Bearer secret-of-the-cluster',
    })
    assert.equal(server.asked.length, 2)
  }
  assert.deepEqual(other.asked, [])
})

test('endless headers are refused, and the connection is closed', async (t) => {
  const { server, api } = await setUp(t, ({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    endlessly(socket, `x-more: ${'x'.repeat(1000)}\r\n`)
  })
  await refused('BadResponse', api.get(services, ref), /headers/)
  await eventually('the connection closes', () => server.open() === 0)
})

test('sixteen informational answers are skipped; a flood of them is refused, and its connection is closed', async (t) => {
  const hint = 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n'
  const body = '{"kind":"Service","metadata":{"name":"kubernetes"}}'
  let answer = (_: Socket): void => {}
  const { server, api } = await setUp(t, ({ socket }) => answer(socket))
  answer = (socket) => {
    socket.write(`${hint.repeat(16)}${head}content-length: ${body.length}\r\n\r\n${body}`)
  }
  assert.equal((await api.get(services, ref)).metadata?.name, 'kubernetes')
  answer = (socket) => endlessly(socket, hint.repeat(100))
  const words = /sent more than 16 informational answers to GET \/api\/v1\/[a-z/]+$/
  await refused('BadResponse', api.get(services, ref), words)
  await refused('BadResponse', api.watch(services, { signal: never })[Symbol.asyncIterator]().next(), words)
  await eventually('the connections close', () => server.open() === 0)
})

test('at most two answers of more than one MiB are read at a time, and short answers do not wait for them', async (t) => {
  const stalled: ServerResponse[] = []
  const long = ' '.repeat(2 * 1024 * 1024)
  const empty = '{"metadata":{"resourceVersion":"1"},"items":[]}'
  const { api } = await setUp(t, (request, response) => {
    response.writeHead(200, json)
    if (request.url?.includes('/endpoints')) return void response.end(empty)
    response.write(long)
    if (request.url?.includes('/stalled/')) stalled.push(response)
    else response.end(empty)
  })
  const list = (namespace: string) => api.list(services, { namespace, limit: 500 })
  const ended: string[] = []
  const all = ['stalled', 'stalled'].map((namespace) => list(namespace).then(() => ended.push(namespace)))
  await eventually('both lists', () => stalled.length === 2 && stalled.every((each) => each.writableLength === 0))
  await sleep(100)
  all.push(list('whole').then(() => ended.push('whole')))
  await sleep(100)
  assert.deepEqual((await api.list(endpoints, { limit: 500 })).items, [])
  assert.deepEqual(ended, [])
  stalled[0]?.end(empty)
  await eventually('the list that waited', () => ended.length === 2 || undefined)
  assert.deepEqual(ended.toSorted(), ['stalled', 'whole'])
  stalled[1]?.end(empty)
  await Promise.all(all)
})
