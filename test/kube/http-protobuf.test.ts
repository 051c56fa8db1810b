import assert from 'node:assert/strict'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { isKubeError } from '../../src/kube/errors.ts'
import { LengthDelimitedFrames } from '../../src/kube/http-streams.ts'
import { HttpTransport } from '../../src/kube/http-transport.ts'
import { services } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { answerLimits } from '../../src/kube/transport.ts'
import { trimmedReader } from '../../src/protobuf/trimmed-objects.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { enveloped, message } from '../protobuf/message.ts'
import { startServer } from './loopback-server.ts'

const never = new AbortController().signal
const protobuf = trimmedReader('core/v1.Service', { metadata: { name: true, resourceVersion: true } })
const both = 'application/vnd.kubernetes.protobuf, application/json'
const named = (name: string): Buffer =>
  message([
    1,
    [
      [1, name],
      [6, '7'],
    ],
  ])
const list = enveloped('v1', 'ServiceList', message([1, [[2, '9']]], [2, named('a')]))

function frame(type: string, object: Buffer, kind = 'Service'): Buffer {
  return delimited(message([1, type], [2, [[1, enveloped('v1', kind, object)]]]))
}

function delimited(bytes: Uint8Array): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

async function setUp(t: TestContext, listener: RequestListener) {
  const accepted: (string | undefined)[] = []
  const server = await startServer(t, (request, response) => {
    accepted.push(request.headers.accept)
    listener(request, response)
  })
  const transport = new HttpTransport({ server: server.url })
  t.after(() => transport.close())
  const api = restKubeApi({ transport, clock: systemClock, random: systemRandom() })
  const watch = async (): Promise<unknown[]> => {
    const events: unknown[] = []
    for await (const event of api.watch(services, { signal: never, protobuf })) events.push(event)
    return events
  }
  return { api, accepted, watch }
}

function inProtobuf(response: ServerResponse, body: Uint8Array, stream = ''): void {
  response.writeHead(200, { 'content-type': `application/vnd.kubernetes.protobuf${stream}` }).end(body)
}

function inJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}

const isWatch = ({ url }: IncomingMessage): boolean => url?.includes('watch=true') === true
const jsonList = { kind: 'ServiceList', metadata: { resourceVersion: '9' }, items: [{ metadata: { name: 'b' } }] }

test('a list and a watch are read as protobuf if the server supports it', async (t) => {
  const { api, accepted, watch } = await setUp(t, (request, response) => {
    if (!isWatch(request)) return inProtobuf(response, list)
    const gone = frame('ERROR', message([3, 'too old'], [4, 'Expired'], [6, 410]), 'Status')
    const events = [frame('ADDED', named('a')), frame('DELETED', named('b')), gone]
    inProtobuf(response, Buffer.concat(events), ';stream=watch')
  })
  const metadata = { name: 'a', resourceVersion: '7' }
  assert.deepEqual(await api.list(services, { protobuf }), {
    metadata: { resourceVersion: '9' },
    items: [{ metadata }],
  })
  const type = { apiVersion: 'v1', kind: 'Service' }
  assert.deepEqual(await watch(), [
    { type: 'ADDED', object: { ...type, metadata } },
    { type: 'DELETED', object: { ...type, metadata: { ...metadata, name: 'b' } } },
    { type: 'ERROR', object: { apiVersion: 'v1', kind: 'Status', message: 'too old', reason: 'Expired', code: 410 } },
  ])
  assert.deepEqual(accepted, [both, both])
})

test('a refusal in protobuf yields its error code and message', async (t) => {
  const { api } = await setUp(t, (_, response) => {
    const status = message([3, 'services is forbidden'], [4, 'Forbidden'], [6, 403])
    response.writeHead(403, { 'content-type': 'application/vnd.kubernetes.protobuf' })
    response.end(enveloped('v1', 'Status', status))
  })
  await assert.rejects(api.list(services, { protobuf }), (error) => {
    assert.ok(isKubeError(error, 'Forbidden'))
    assert.equal(error.message, 'list services: services is forbidden')
    return true
  })
})

test('a client that accepts protobuf and JSON reads the answers of a server that has only JSON', async (t) => {
  const { api, accepted, watch } = await setUp(t, (request, response) => {
    inJson(response, isWatch(request) ? { type: 'ADDED', object: { metadata: { name: 'b' } } } : jsonList)
  })
  assert.deepEqual((await api.list(services, { protobuf })).items, [{ metadata: { name: 'b' } }])
  assert.deepEqual(await watch(), [{ type: 'ADDED', object: { metadata: { name: 'b' } } }])
  assert.deepEqual(accepted, [both, both])
})

for (const status of [406, 415]) {
  test(`after a refusal with ${status} the client requests JSON alone, at once and from then on`, async (t) => {
    const { api, accepted } = await setUp(t, ({ headers }, response) => {
      if (headers.accept === 'application/json') inJson(response, jsonList)
      else response.writeHead(status).end()
    })
    assert.equal((await api.list(services, { protobuf })).items.length, 1)
    assert.equal((await api.list(services, { protobuf })).items.length, 1)
    assert.deepEqual(accepted, [both, 'application/json', 'application/json'])
  })
}

test('after unreadable protobuf JSON is requested: for a list at once, for a watch with the next request', async (t) => {
  const damaged = Buffer.from(list)
  damaged[damaged.length - 8] = 0xff
  const { api, accepted, watch } = await setUp(t, (request, response) => {
    if (request.headers.accept === 'application/json') inJson(response, jsonList)
    else if (isWatch(request)) inProtobuf(response, delimited(damaged), ';stream=watch')
    else inProtobuf(response, damaged)
  })
  await assert.rejects(watch(), (error) => isKubeError(error, 'BadResponse') && /^watch services: /.test(error.message))
  assert.equal((await api.list(services, { protobuf })).items.length, 1)
  assert.deepEqual(accepted, [both, 'application/json'])
  const other = await setUp(t, ({ headers }, response) => {
    if (headers.accept === 'application/json') inJson(response, jsonList)
    else inProtobuf(response, damaged)
  })
  assert.equal((await other.api.list(services, { protobuf })).items.length, 1)
  assert.deepEqual(other.accepted, [both, 'application/json'])
})

test('protobuf that the client did not request is a bad response', async (t) => {
  const { api } = await setUp(t, (_, response) => inProtobuf(response, list))
  await assert.rejects(api.list(services), (error) => isKubeError(error, 'BadResponse'))
})

test('events are the same however the stream is split, and an incomplete event at its end is an error', () => {
  const lengthOf = (some: readonly string[]): number => some.reduce((sum, value) => sum + 4 + value.length, 0)
  const values = ['', 'a', 'bc', 'x'.repeat(300)]
  const stream = Buffer.concat(values.map((value) => delimited(Buffer.from(value))))
  const frames = () => new LengthDelimitedFrames(300, (bytes) => Buffer.from(bytes).toString())
  fc.assert(
    fc.property(fc.array(fc.nat(stream.length), { maxLength: 20, size: 'max' }), fc.nat(stream.length), (cuts, end) => {
      const reader = frames()
      const read: unknown[] = []
      const ends = [...new Set([...cuts.filter((cut) => cut < end), end])].sort((a, b) => a - b)
      let at = 0
      for (const to of ends) {
        read.push(...reader.push(stream.subarray(at, to)))
        at = to
      }
      const whole = values.filter((_, index) => lengthOf(values.slice(0, index + 1)) <= end)
      assert.deepEqual(read, whole)
      if (lengthOf(whole) === end) reader.end()
      else assert.throws(() => reader.end(), /^KubeError: the stream ended inside an event$/)
    }),
  )
})

test('a watch event whose declared length exceeds the limit is refused', async (t) => {
  const { watch } = await setUp(t, (_, response) => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(answerLimits.event + 1)
    response.writeHead(200, { 'content-type': 'application/vnd.kubernetes.protobuf;stream=watch' }).write(length)
  })
  await assert.rejects(watch(), (error) => isKubeError(error, 'TooLarge') && /4194304 bytes/.test(error.message))
})
