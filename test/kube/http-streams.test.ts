import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { isKubeError } from '../../src/kube/errors.ts'
import { ByteBuffer, JsonLines, parseJson } from '../../src/kube/http-streams.ts'
import { HttpTransport } from '../../src/kube/http-transport.ts'
import { eventually } from '../support/with-timeout.ts'
import { type LoopbackServer, startServer } from './loopback-server.ts'

interface Watch {
  readonly server: LoopbackServer
  readonly transport: HttpTransport
  readonly response: ServerResponse
  readonly stream: AsyncIterator<unknown>
  readonly controller: AbortController
}

/** A watch that has begun, with its client and its server end. */
async function startWatch(t: TestContext, timeoutMs = 60_000): Promise<Watch> {
  let response: ServerResponse | undefined
  const server = await startServer(t, (_, taken) => {
    response = taken
    taken.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
  })
  const transport = new HttpTransport({ server: server.url })
  t.after(() => transport.close())
  const controller = new AbortController()
  const answer = await transport.send(
    { method: 'GET', path: '/', query: [], headers: {}, stream: true, timeoutMs, maxBytes: 1000 },
    controller.signal,
  )
  assert.ok('stream' in answer && response !== undefined)
  return { server, transport, response, stream: answer.stream[Symbol.asyncIterator](), controller }
}

async function expectClosed({ server, controller }: Watch): Promise<void> {
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  await eventually('the connection closes', () => server.open() === 0)
}

test('events arrive as they are sent, however long the watch was silent before', async (t) => {
  // With its first connection undici creates the timer for all later ones in this process, so that timer must be real.
  await startWatch(t)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { response, stream } = await startWatch(t, 200)
  t.mock.timers.tick(3_600_000)
  t.mock.timers.reset()
  response.write('{"type":"ADDED","note":"a\u2028b"}\n{"type":"MODI')
  assert.deepEqual(await stream.next(), { done: false, value: { type: 'ADDED', note: 'a\u2028b' } })
  setImmediate(() => response.write('FIED"}\n'))
  assert.deepEqual(await stream.next(), { done: false, value: { type: 'MODIFIED' } })
})

test('the stream ends when the server ends it, and the next request uses the same connection', async (t) => {
  const watch = await startWatch(t)
  watch.response.end('{"a":1}\n')
  assert.deepEqual(await watch.stream.next(), { done: false, value: { a: 1 } })
  assert.deepEqual(await watch.stream.next(), { done: true, value: undefined })
  assert.deepEqual(await watch.stream.next(), { done: true, value: undefined })
  assert.equal(getEventListeners(watch.controller.signal, 'abort').length, 0)
  assert.equal(watch.server.open(), 1)
  // undici uses a connection again one turn of the event loop after an answer.
  await turn()
  const next = { method: 'GET', path: '/next', query: [], headers: {}, stream: true } as const
  const answer = await watch.transport.send(next, watch.controller.signal)
  assert.equal(answer.status, 200)
  assert.deepEqual([watch.server.asked, watch.server.connections()], [['GET /', 'GET /next'], 1])
})

for (const [name, code, act] of [
  ['with a line that is not JSON', 'BadResponse', (watch: Watch) => watch.response.write('<html>\n')],
  ['with a line that is too long', 'TooLarge', (watch: Watch) => watch.response.write(' '.repeat(2000))],
  ['that is reset', 'Unreachable', (watch: Watch) => watch.server.cut()],
  [
    'whose connection ends inside an event',
    'Unreachable',
    (watch: Watch) => watch.response.write('{"type":', () => watch.response.destroy()),
  ],
  ['whose sending half is closed', 'Unreachable', (watch: Watch) => watch.response.socket?.end()],
] as const) {
  test(`a stream ${name} throws ${code}, and leaves no listener and no connection`, async (t) => {
    const watch = await startWatch(t)
    act(watch)
    await assert.rejects(watch.stream.next(), (error) => isKubeError(error, code))
    assert.deepEqual(await watch.stream.next(), { done: true, value: undefined })
    await expectClosed(watch)
  })
}

test('a stream that ends inside an event throws BadResponse', async (t) => {
  const watch = await startWatch(t)
  watch.response.end('{"type":')
  await assert.rejects(watch.stream.next(), (error) => isKubeError(error, 'BadResponse'))
  assert.equal(getEventListeners(watch.controller.signal, 'abort').length, 0)
})

test('leaving a stream closes its connection, even before the first event is requested', async (t) => {
  const early = await startWatch(t)
  await early.stream.return?.()
  await expectClosed(early)

  const late = await startWatch(t)
  late.response.write('{"a":1}\n{"a":2}\n')
  await late.stream.next()
  await late.stream.return?.()
  assert.deepEqual(await late.stream.next(), { done: true, value: undefined })
  await expectClosed(late)
})

test('an abort rejects a waiting reader with its reason', async (t) => {
  const watch = await startWatch(t)
  const next = watch.stream.next()
  watch.controller.abort('enough')
  await assert.rejects(next, (reason) => reason === 'enough')
  await expectClosed(watch)
})

test('a stream that breaks while nobody reads rejects the next read', async (t) => {
  const watch = await startWatch(t)
  watch.server.cut()
  await eventually('the connection is gone', () => watch.server.open() === 0)
  await assert.rejects(watch.stream.next(), (error) => isKubeError(error, 'Unreachable'))
})

function valuesIn(chunks: readonly Uint8Array[], maxLineBytes = 1_000_000): unknown[] {
  const lines = new JsonLines(maxLineBytes)
  const values = chunks.flatMap((chunk) => [...lines.push(chunk)])
  lines.end()
  return values
}

const bytes = (text: string): Uint8Array => Buffer.from(text)

test('ByteBuffer returns all bytes, in whatever pieces they arrive, and releases their memory at once', () => {
  const whole = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251))
  for (const total of [0, 1, 1_000, 65_536, 65_537, 200_000, 300_000]) {
    for (const size of [7_000, 65_536, 65_537, 300_000]) {
      const held = new ByteBuffer(300_000, () => assert.fail('too long'))
      for (const round of ['first', 'again']) {
        for (let at = 0; at < total; at += size) held.add(whole.subarray(at, Math.min(total, at + size)))
        const taken = held.take((all) => {
          assert.ok(whole.subarray(0, total).equals(all), `${total} in pieces of ${size}, ${round}`)
          return all
        })
        assert.equal(held.length, 0)
        if (total > 65_536) assert.equal(taken.byteLength, 0)
      }
    }
  }
})

test('ByteBuffer refuses bytes beyond its limit, and is empty after clear', () => {
  const held = new ByteBuffer(100_000, () => {
    throw new Error('too long')
  })
  held.add(Buffer.alloc(100_000))
  assert.throws(() => held.add(Buffer.alloc(1)), /too long/)
  held.clear()
  assert.equal(held.length, 0)
  held.take((all) => assert.equal(all.length, 0))
})

test('values arrive whole and in order, however the stream is split', () => {
  const chopped = fc
    .tuple(fc.array(fc.jsonValue({ depthSize: 'small', stringUnit: 'binary' })), fc.array(fc.nat(), { maxLength: 40 }))
    .map(([values, cuts]) => {
      const whole = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(''))
      const at = [0, ...cuts.map((cut) => cut % (whole.length + 1)), whole.length].sort((a, b) => a - b)
      return { values, chunks: at.slice(1).map((end, index) => whole.subarray(at[index], end)) }
    })
  fc.assert(
    fc.property(chopped, ({ values, chunks }) => {
      // The expected values also pass through JSON, which turns -0 into 0.
      assert.deepEqual(valuesIn(chunks), JSON.parse(JSON.stringify(values)))
    }),
  )
})

test('line separators of Unicode inside strings do not end a line', () => {
  assert.deepEqual(valuesIn([bytes('{"note":"a\u2028b\u2029c\u0085d"}\n')]), [{ note: 'a\u2028b\u2029c\u0085d' }])
})

test('blank lines and carriage returns are ignored', () => {
  assert.deepEqual(valuesIn([bytes('\n\r\n {"a":1}\r\n\n  ')]), [{ a: 1 }])
})

for (const [name, text] of [
  ['not JSON', '{"kind":"Secret","data":"hunter2"\n'],
  ['not UTF-8', Buffer.from([0x22, 0xff, 0x22, 0x0a])],
  ['torn at its end', '{"data":"hunter2"}'],
  ['too long', `"hunter2${'x'.repeat(200)}"\n`],
] as const) {
  test(`a line that is ${name} is refused with an error that does not quote it`, () => {
    const half = Buffer.from(text).length >> 1
    const chunks = [Buffer.from(text).subarray(0, half), Buffer.from(text).subarray(half)]
    assert.throws(
      () => valuesIn(chunks, 100),
      (error) =>
        isKubeError(error, name === 'too long' ? 'TooLarge' : 'BadResponse') &&
        !error.message.includes('hunter2') &&
        error.cause === undefined,
    )
  })
}

const bytesOf = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value))

/** A value with empty lists in place of those under the key managedFields. */
function emptied(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(emptied)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.map(([key, each]) => [key, key === 'managedFields' && Array.isArray(each) ? [] : emptied(each)]),
  )
}

test('without managedFields the rest of an answer is unchanged, whatever its strings contain', () => {
  const key = fc.constantFrom('managedFields', 'a', 'managedFields":[', '\\"managedFields', '"')
  const text = fc.constantFrom('', 'managedFields', '"managedFields":[', '\\', '\\"', ']', '[{', 'é')
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ depthSize: 'small' }, text, fc.integer(), fc.constant(null), tie('list'), tie('object')),
    list: fc.array(tie('value'), { maxLength: 4 }),
    object: fc.dictionary(key, tie('value'), { maxKeys: 4, noNullPrototype: true }),
  }))
  fc.assert(
    fc.property(value, (given) => {
      assert.deepEqual(parseJson(bytesOf(given), true), emptied(given))
      assert.deepEqual(parseJson(bytesOf(given)), given)
    }),
    { numRuns: 2_000 },
  )
})

test('managedFields without an end are invalid JSON, and deep nesting beside managedFields is refused', () => {
  assert.throws(() => parseJson(Buffer.from('{"managedFields":[{"a":"b"}'), true), /is not JSON/)
  assert.throws(() => parseJson(Buffer.from('{"managedFields":["a'), true), /is not JSON/)
  const deep = `${'['.repeat(1_000)}${']'.repeat(1_000)}`
  assert.throws(
    () => parseJson(Buffer.from(`{"managedFields":[],"a":${deep}}`), true),
    /nested more than 500 levels deep/,
  )
  assert.throws(() => parseJson(Buffer.from(`{"a":"\\"","b":${deep}}`)), /nested more than 500 levels deep/)
})

test('an excessive number of empty objects or lists is refused', () => {
  const list = (item: string, count: number): Buffer => Buffer.from(`{"items":[${`${item},`.repeat(count)}0]}`)
  assert.throws(() => parseJson(list('{}', 100_000)), /too many objects and lists/)
  assert.throws(() => parseJson(list('[]', 100_000)), /too many objects and lists/)
  // As dense as managedFields are.
  assert.doesNotThrow(() => parseJson(list('{"f:name":{},".":{}}', 100_000)))
})
