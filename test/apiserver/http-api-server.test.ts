import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node'
import { inProcessTransport } from '../../src/apiserver/api-server.ts'
import { type ApiServingOptions, serveApi } from '../../src/apiserver/http-api-server.ts'
import { selfSignedCertificate } from '../../src/apiserver/http-certificate.ts'
import {
  defaultNamespace,
  type StartApiServerOptions,
  type StartedApiServer,
  startApiServer,
} from '../../src/apiserver/http-start.ts'
import { memoryLogger, silentLogger } from '../../src/telemetry/logger.ts'
import { eventually } from '../support/with-timeout.ts'

async function started(t: TestContext, options: StartApiServerOptions = {}): Promise<StartedApiServer> {
  const server = await startApiServer(options)
  t.after(() => server.close())
  return server
}

type Served = Pick<StartedApiServer, 'url' | 'certificate' | 'token'>

/** A server of which only the HTTP part is real. */
async function served(t: TestContext, options: Pick<ApiServingOptions, 'send'> & Partial<ApiServingOptions>) {
  const tls = selfSignedCertificate(['127.0.0.1'])
  const token = 'secret'
  const serving = await serveApi({ host: '127.0.0.1', port: 0, tls, token, logger: silentLogger, ...options })
  t.after(() => serving.close())
  return { url: serving.url, certificate: tls.certificate, token }
}

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly token?: string | undefined
}

/** The answer to one request, before its body is read. */
async function open(server: Served, path: string, sent: Sent = {}): Promise<IncomingMessage> {
  const { method = 'GET', headers = {}, body, token = server.token } = sent
  const authorization = token === '' ? {} : { authorization: `Bearer ${token}` }
  const outgoing = request(`${server.url}${path}`, {
    method,
    ca: server.certificate,
    agent: false,
    headers: { ...authorization, ...headers },
  })
  outgoing.on('error', () => {})
  outgoing.end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return response
}

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingMessage['headers']
  // biome-ignore lint/suspicious/noExplicitAny: bodies are JSON of many kinds
  readonly body: any
}

async function send(server: Served, path: string, sent: Sent = {}): Promise<Answer> {
  const response = await open(server, path, sent)
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += chunk
  const isJson = response.headers['content-type']?.startsWith('application/json') === true && text !== ''
  return { status: response.statusCode, headers: response.headers, body: isJson ? JSON.parse(text) : text }
}

const maps = '/api/v1/namespaces/default/configmaps'
const json = { 'content-type': 'application/json' }

function configMap(name: string, data: object = {}): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data })
}

const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
}

test('a long list sent in chunks equals the list sent at once', async (t) => {
  const objects = Array.from({ length: 250 }, (_, index) => {
    const metadata = { name: `map-${index}`, namespace: 'default' }
    return { apiVersion: 'example.com/v1', kind: 'Widget', metadata, data: { key: '[é,]' } }
  })
  // Built-in kinds do not support HEAD.
  const server = await started(t, { crds: [definition], objects: [defaultNamespace, ...objects] })
  const widgets = '/apis/example.com/v1/namespaces/default/widgets'
  for (const limit of [1, 20, 21, 40, 250]) {
    const path = `${widgets}?limit=${limit}`
    const response = await open(server, path)
    let text = ''
    for await (const chunk of response.setEncoding('utf8')) text += chunk
    const query = [['limit', String(limit)]] as const
    const whole = await server.server.handle({ method: 'GET', path: widgets, query, headers: {} }, t.signal)
    assert.equal(text, `${JSON.stringify((whole as { body: unknown }).body)}\n`)
    const head = await send(server, path, { method: 'HEAD' })
    assert.equal(head.headers['content-length'], String(Buffer.byteLength(text)))
  }
  const table = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' }
  const wholeTable = async (): Promise<unknown> => {
    const request = { method: 'GET', path: widgets, query: [], headers: table } as const
    return ((await server.server.handle(request, t.signal)) as { body: unknown }).body
  }
  // The ages in the table may change between two requests.
  const before = await wholeTable()
  const { body, headers } = await send(server, widgets, { headers: table })
  assert.equal(headers['content-length'], undefined)
  assert.deepEqual(body, isDeepStrictEqual(body, before) ? before : await wholeTable())
})

test('a protobuf body is stored like its JSON, a truncated one is refused, and the response is JSON', async (t) => {
  const server = await started(t)
  const headers = {
    'content-type': 'application/vnd.kubernetes.protobuf',
    accept: 'application/vnd.kubernetes.protobuf,*/*',
  }
  // The v1 ConfigMap `one` with the data `a: 1`, as Go sends it.
  const body = 'k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x0f\n\x05\n\x03one\x12\x06\n\x01a\x12\x011\x1a\0"\0'
  const created = await send(server, maps, { method: 'POST', headers, body })
  assert.equal(created.status, 201)
  assert.match(String(created.headers['content-type']), /^application\/json/)
  assert.deepEqual((await send(server, `${maps}/one`)).body.data, { a: '1' })
  const refused = await send(server, maps, { method: 'POST', headers, body: body.slice(0, -8) })
  assert.equal(refused.status, 400)
  assert.match(refused.body.message, /truncated/)
  const patched = await send(server, `${maps}/one`, { method: 'PATCH', headers, body })
  assert.equal(patched.status, 415)
})

test('an unknown field is dropped with a warning, refused if Strict, or ignored if Ignore', async (t) => {
  const server = await started(t)
  const body = JSON.stringify({ metadata: { name: 'one', lables: {} }, data: { a: '1' }, dta: {} })
  const created = await send(server, maps, { method: 'POST', headers: json, body })
  assert.equal(created.status, 201)
  assert.equal(created.headers.warning, '299 - "unknown field \\"metadata.lables\\"", 299 - "unknown field \\"dta\\""')
  assert.equal(created.body.dta, undefined)
  const strict = await send(server, `${maps}?fieldValidation=Strict`, { method: 'POST', headers: json, body })
  assert.equal(strict.status, 400)
  assert.match(strict.body.message, /strict decoding error: unknown field "metadata.lables", unknown field "dta"$/)
  const ignored = await send(server, `${maps}/one?fieldValidation=Ignore`, { method: 'PUT', headers: json, body })
  assert.deepEqual([ignored.status, ignored.headers.warning], [200, undefined])
})

test('objects require the token; health endpoints and the version do not', async (t) => {
  const server = await started(t)
  const created = await send(server, maps, { method: 'POST', headers: json, body: configMap('one') })
  assert.equal(created.status, 201)
  const listed = await send(server, maps)
  assert.deepEqual(
    listed.body.items.map((item: { metadata: { name: string } }) => item.metadata.name),
    ['one'],
  )
  for (const token of ['', 'wrong', `${server.token}x`]) {
    const refused = await send(server, maps, { token })
    assert.deepEqual([refused.status, refused.body.reason], [401, 'Unauthorized'], token)
    for (const path of ['/readyz', '/livez', '/healthz', '/version']) {
      assert.equal((await send(server, path, { token })).status, 200, path)
    }
  }
})

test('an internal error returns 500 and is logged, and the server continues', async (t) => {
  const logger = memoryLogger()
  const server = await served(t, { send: () => Promise.reject(new TypeError('a defect')), logger })
  for (let i = 0; i < 2; i++) {
    const { status, body } = await send(server, maps)
    assert.deepEqual([status, body.code], [500, 500])
  }
  assert.equal(logger.lines.filter(({ level }) => level === 'error').length, 2)
})

test('a body must be valid JSON or YAML within the size limits', async (t) => {
  const server = await started(t)
  const post = (body: string, contentType = 'application/json'): Promise<Answer> =>
    send(server, maps, { method: 'POST', headers: { 'content-type': contentType }, body })
  const yaml = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata:\n  a: "1"\n'
  assert.deepEqual((await post(yaml, 'application/yaml')).body.data, { a: '1' })
  assert.equal((await post('{"kind":', 'application/json')).status, 400)
  assert.equal((await post('a: [', 'application/yaml')).status, 400)
  assert.equal((await post('{}', 'text/plain')).status, 415)
  assert.equal((await post(configMap('big', { a: 'x'.repeat(3 * 1024 * 1024) }))).status, 413)
  assert.equal((await post(`a: ${'x'.repeat(300_000)}`, 'application/yaml')).status, 413)
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'.replaceAll(/./g, (name) => `${name}: &${name} [${Array(9).fill(`*${String.fromCharCode(name.charCodeAt(0) - 1)}`)}]\n`)}`
  assert.equal((await post(bomb, 'application/yaml')).status, 400)
})

test('a chunked body of over 3 MiB returns 413 and closes the connection', async (t) => {
  const server = await started(t)
  const outgoing = request(`${server.url}${maps}`, {
    method: 'POST',
    ca: server.certificate,
    agent: false,
    headers: { authorization: `Bearer ${server.token}`, 'transfer-encoding': 'chunked' },
  })
  outgoing.on('error', () => {})
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  const chunk = 'x'.repeat(64 * 1024)
  for (let i = 0; i < 64 && !outgoing.destroyed; i++) outgoing.write(chunk)
  const [response] = await answered
  assert.deepEqual([response.statusCode, response.headers.connection], [413, 'close'])
  response.resume()
  outgoing.destroy()
})

test('a client that accepts only protobuf gets 406; other clients get JSON', async (t) => {
  const server = await started(t)
  const accepting = async (accept: string): Promise<number | undefined> =>
    (await send(server, maps, { headers: { accept } })).status
  assert.equal(await accepting('application/vnd.kubernetes.protobuf'), 406)
  assert.equal(await accepting('application/vnd.kubernetes.protobuf,application/json'), 200)
  assert.equal(await accepting('*/*'), 200)
})

test('HEAD returns the status of GET without a body; built-in kinds and discovery refuse HEAD', async (t) => {
  const server = await started(t)
  for (const [path, expected] of [
    ['/readyz', 200],
    ['/openapi/v3', 200],
    ['/openapi/v2', 200],
    [maps, 405],
    ['/api/v1', 405],
    ['/version', 405],
    ['/nothing', 404],
  ] as const) {
    const { status, headers, body } = await send(server, path, { method: 'HEAD' })
    assert.deepEqual([status, body], [expected, ''], path)
    assert.ok(Number(headers['content-length']) > 0)
  }
})

test('/openapi/v2 serves kubectl a protobuf document without definitions', async (t) => {
  const server = await started(t)
  const type = 'application/com.github.proto-openapi.spec.v2'
  const accept = `${type}@v1.0+protobuf`
  const { status, headers, body } = await send(server, '/openapi/v2', { headers: { accept } })
  assert.deepEqual([status, headers['content-type']], [200, `${type}.v1.0+protobuf`])
  assert.equal(body, '\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.36.3B\0')
  assert.equal((await send(server, '/openapi/v2')).body.swagger, '2.0')
  assert.equal((await send(server, '/openapi/v2', { headers: { accept: 'text/csv' } })).status, 406)
})

test('a body without a content type is JSON, YAML may be in flow style, and API paths may end with slashes', async (t) => {
  const server = await started(t)
  const post = { method: 'POST', body: configMap('untyped') }
  assert.equal((await send(server, `${maps}/`, { ...post, headers: { 'content-type': '' } })).status, 201)
  assert.equal((await send(server, `${maps}/untyped//`)).body.metadata.name, 'untyped')
  assert.equal((await send(server, '/api/v1/')).body.kind, 'APIResourceList')
  assert.equal((await send(server, '/readyz/')).status, 404)
  const headers = { 'content-type': 'application/apply-patch+yaml' }
  const apply = (body: string) =>
    send(server, `${maps}/flow?fieldManager=one`, { method: 'PATCH', headers, body }).then(({ status }) => status)
  assert.equal(await apply('{apiVersion: v1, kind: ConfigMap, metadata: {name: flow}}'), 201)
  assert.equal(await apply('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flow",},}'), 200)
  assert.equal(await apply('{"apiVersion": "v1'), 400)
})

test('a watch sends one line per event, escapes U+2028, and ends cleanly when the server closes', async (t) => {
  const server = await started(t)
  const response = await open(server, `${maps}?watch=true`)
  const lines: string[] = []
  const ended = (async () => {
    for await (const line of createInterface({ input: response })) lines.push(line)
  })()
  const text = 'a\u2028b\u2029c'
  await send(server, maps, { method: 'POST', headers: json, body: configMap('one', { text }) })
  while (lines.length === 0) await once(response, 'data')
  await server.close()
  await ended
  assert.equal(response.complete, true, 'the response is complete')
  assert.equal(lines.length, 1)
  assert.doesNotMatch(lines[0] ?? '', /[\u2028\u2029]/)
  assert.equal(JSON.parse(lines[0] ?? '').object.data.text, text)
  await assert.rejects(open(server, maps), /ECONNREFUSED|socket hang up|ECONNRESET/)
})

test('a watch frees its slot when its client disconnects', async (t) => {
  const watches = 20
  const server = await started(t, { limits: { watches } })
  for (let i = 0; i < watches; i++) {
    const response = await open(server, `${maps}?watch=true`)
    assert.equal(response.statusCode, 200)
    response.destroy()
    await once(response, 'close')
  }
  const opened: IncomingMessage[] = []
  await eventually('room for as many others', async () => {
    const next = await open(server, `${maps}?watch=true`)
    if (next.statusCode === 200) opened.push(next)
    else next.destroy()
    return opened.length === watches
  })
  for (const response of opened) response.destroy()
  const { status } = await send(server, maps, { method: 'POST', headers: json, body: configMap('one') })
  assert.equal(status, 201)
})

test('a watch over the limit gets 429; ending a watch makes room for another', async (t) => {
  const server = await started(t, { limits: { watches: 3 } })
  const responses = await Promise.all(['a', 'b', 'c'].map(() => open(server, `${maps}?watch=true`)))
  assert.ok(responses.every(({ statusCode }) => statusCode === 200))
  const refused = await send(server, `${maps}?watch=true`)
  assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '1'])
  responses[0]?.destroy()
  await eventually('room for one', async () => {
    const next = await open(server, `${maps}?watch=true`)
    next.destroy()
    return next.statusCode === 200
  })
  for (const response of responses) response.destroy()
})

test('the server closes the stream of a watch that it refuses for too many watches', async (t) => {
  let ended = 0
  const watch = {
    next: () => new Promise<never>(() => {}),
    return: async () => ({ done: true, value: ++ended }) as const,
  }
  const stream = { [Symbol.asyncIterator]: () => watch }
  const answer = async () => ({ status: 200, headers: {}, stream })
  const server = await served(t, { send: answer, limits: { watches: 0 } })
  assert.deepEqual([(await send(server, '/any?watch=true')).status, ended], [429, 1])
})

test('a request over the limit of concurrent requests gets 429', async (t) => {
  const server = await started(t, { limits: { requests: 1 } })
  const slow = request(`${server.url}${maps}`, {
    method: 'POST',
    ca: server.certificate,
    agent: false,
    headers: { ...json, authorization: `Bearer ${server.token}` },
  })
  slow.on('error', () => {})
  slow.write('{')
  for (;;) {
    const { status, headers } = await send(server, maps)
    if (status === 429) {
      assert.equal(headers['retry-after'], '1')
      break
    }
  }
  slow.destroy()
  while ((await send(server, maps)).status !== 200);
})

test('a client that does not read its watch is disconnected', async (t) => {
  const server = await started(t, { limits: { answerMs: 200 } })
  const response = await open(server, `${maps}?watch=true`)
  const broken = assert.rejects(once(response.pause(), 'close'), /aborted/)
  const data = { a: 'x'.repeat(1024 * 1024) }
  // These requests do not use the network, where the limit would apply to their answers too.
  const inside = inProcessTransport(server.server)
  for (let i = 0; i < 40; i++) {
    const body = JSON.parse(configMap(`map-${i}`, data))
    await inside.send({ method: 'POST', path: maps, query: [], headers: {}, body }, new AbortController().signal)
  }
  await sleep(1_000)
  response.resume()
  await broken
})

test('malformed paths, unknown methods and plain HTTP are refused, and the server continues', async (t) => {
  const server = await started(t)
  const paths = [
    '/api/v1/namespaces/%zz/configmaps',
    '//',

    '/apis//v1',
    '/%00',
    `/${'a'.repeat(8000)}`,
  ]
  for (const path of paths) {
    const { status } = await send(server, path)
    assert.ok(status === 404 || status === 400, `${path.slice(0, 40)}: ${status}`)
  }
  for (const method of ['OPTIONS', 'TRACE', 'PROPFIND']) {
    const { status } = await send(server, maps, { method })
    assert.equal(status, 405, method)
  }
  const socket = connect(server.port, '127.0.0.1').on('error', () => {})
  socket.end('GET / HTTP/1.1\r\n\r\n')
  await once(socket, 'close')
  assert.equal((await send(server, maps)).status, 200)
})

test('clients observe injected faults: a 503 status and a broken connection', async (t) => {
  const server = await started(t)
  const undo = server.faults.add({ fault: { type: 'status', status: 503 } })
  assert.equal((await send(server, maps)).status, 503)
  undo()
  server.faults.add({ fault: { type: 'refuse' } })
  await assert.rejects(send(server, maps), /socket hang up|ECONNRESET/)
  server.faults.clear()
  assert.equal((await send(server, maps)).status, 200)
})

test('objects given at the start exist; a refused one rejects the start with an error that names it', async (t) => {
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'blue' } }
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'one', namespace: 'blue' } }
  const server = await started(t, { objects: [namespace, object] })
  assert.equal((await send(server, '/api/v1/namespaces/blue/configmaps/one')).status, 200)
  await assert.rejects(
    startApiServer({ objects: [object] }),
    /cannot create ConfigMap blue\/one: namespaces "blue" not found/,
  )
  await assert.rejects(
    startApiServer({ objects: [{ ...object, kind: 'Unicorn' }] }),
    /cannot create Unicorn blue\/one: the kind Unicorn of v1 is not served/,
  )
})

test('a server on 0.0.0.0 has a localhost URL, which its certificate covers', async (t) => {
  const server = await started(t, { host: '0.0.0.0' })
  assert.match(server.url, /^https:\/\/localhost:\d+$/)
  assert.match(server.kubeconfig, /server: https:\/\/localhost:/)
  assert.equal((await send(server, maps)).status, 200)
})

const blue = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'default', name: 'blue' }
type Data = { readonly data?: Readonly<Record<string, string>> }

test('waitFor resolves with the first state that meets the condition, whether present or future', async (t) => {
  const server = await started(t)
  const post = (name: string): Promise<Answer> =>
    send(server, maps, { method: 'POST', headers: json, body: configMap(name, { size: '1' }) })
  const put = (size: string): Promise<Answer> =>
    send(server, `${maps}/blue`, { method: 'PUT', headers: json, body: configMap('blue', { size }) })
  const exists = server.waitFor<Data>(blue)
  const grown = server.waitFor<Data>(blue, (object) => object?.data?.size === '2')
  const gone = server.waitFor(blue, (object) => object === undefined)
  assert.equal(await gone, undefined)
  await post('red')
  await post('blue')
  // States that are replaced before a client reads them.
  await Promise.all([put('2'), put('3')])
  await send(server, `${maps}/blue`, { method: 'DELETE' })
  assert.equal((await exists)?.data?.size, '1')
  assert.equal((await grown)?.data?.size, '2')
  await post('blue')
  const present = server.waitFor<Data>(blue)
  const deleted = server.waitFor(blue, (object) => object === undefined)
  assert.equal((await present)?.data?.size, '1')
  await send(server, `${maps}/blue`, { method: 'DELETE' })
  assert.equal(await deleted, undefined)
})

test('waitFor misses no state after compaction, and injected faults do not end it', async (t) => {
  const server = await started(t, { historyLimit: 2 })
  server.faults.add({ fault: { type: 'refuse' }, methods: ['GET'] })
  const first = server.waitFor<Data>(blue, (object) => object?.data?.size === '9')
  for (const name of ['a', 'b', 'c', 'd']) {
    await send(server, maps, { method: 'POST', headers: json, body: configMap(name) })
    server.server.compact()
  }
  const second = server.waitFor<Data>(blue, (object) => object?.data?.size === '9')
  // This request comes before the watch of the second wait begins.
  const body = JSON.parse(configMap('e'))
  void server.server.handle(
    { method: 'POST', path: maps, query: [], headers: json, body },
    new AbortController().signal,
  )
  server.server.compact()
  await send(server, maps, { method: 'POST', headers: json, body: configMap('blue', { size: '9' }) })
  assert.deepEqual([(await first)?.data, (await second)?.data], [{ size: '9' }, { size: '9' }])
})

test('waitFor rejects with the reason when it ends before its condition holds', async (t) => {
  const server = await started(t)
  await assert.rejects(server.waitFor(blue, undefined, { timeoutMs: 10 }), {
    code: 'ConditionNotMet',
    message: 'ConfigMap default/blue does not exist, after 10 ms',
  })
  await send(server, maps, { method: 'POST', headers: json, body: configMap('blue', { size: '1' }) })
  const expired = server.waitFor(blue, () => false, { timeoutMs: 10 })
  await assert.rejects(expired, /blue does not meet the condition: .*"data":\{"size":"1"\}.*, after 10 ms$/)
  const thrown = server.waitFor(blue, () => assert.fail('the condition throws'))
  await assert.rejects(thrown, /the condition throws/)
  await assert.rejects(server.waitFor({ ...blue, kind: 'Unicorn' }), {
    name: 'TypeError',
    message: 'the kind Unicorn of v1 is not served',
  })
  const stop = new AbortController()
  const stopped = server.waitFor(blue, () => false, { signal: stop.signal })
  stop.abort(new Error('enough'))
  await assert.rejects(stopped, /enough/)
  const open = assert.rejects(
    server.waitFor(blue, () => false),
    /the API server is closing/,
  )
  await server.close()
  await open
  await assert.rejects(server.waitFor(blue), /the API server is closing/)
})

test('@kubernetes/client-node works with the kubeconfig', async (t) => {
  await using server = await startApiServer()
  const config = new KubeConfig()
  config.loadFromString(server.kubeconfig)
  const api = config.makeApiClient(CoreV1Api)
  await api.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'one' }, data: { a: '1' } } })
  const { items } = await api.listNamespacedConfigMap({ namespace: 'default' })
  assert.deepEqual(
    items.map(({ data }) => data),
    [{ a: '1' }],
  )
  t.diagnostic(server.url)
})
