import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApiServerOptions } from '../../src/apiserver/api-server.ts'
import type { ApiRequest, ApiResponse } from '../../src/kube/transport.ts'
import { Embedded } from './embedded.ts'

const core = '/api/v1/namespaces/default'
const maps = `${core}/configmaps`
const services = `${core}/services`
const map = { metadata: { name: 'one' }, data: { a: '1' } }
const service = { metadata: { name: 'web' }, spec: { ports: [{ port: 80 }] } }

function started(options: Partial<ApiServerOptions> = {}): Promise<Embedded> {
  return Embedded.started(undefined, options)
}

interface Sent {
  readonly accept?: string
  readonly type?: string
  readonly body?: object
}

/** The whole answer, with its headers. */
function answered(
  embedded: Embedded,
  method: ApiRequest['method'],
  path: string,
  { accept = 'application/json', type = 'application/json', body }: Sent = {},
): Promise<ApiResponse> {
  const headers = { accept, 'content-type': type }
  return embedded.server.handle({ method, path, query: [], headers, body }, new AbortController().signal)
}

test('a deletion returns a Status; for a Service, the Service; with a finalizer, the remaining object', async () => {
  const embedded = await started()
  await embedded.send('POST', maps, map)
  await embedded.send('POST', maps, { metadata: { name: 'held', finalizers: ['example.com/hold'] } })
  await embedded.send('POST', services, service)
  const kindOf = async (path: string): Promise<string> => (await embedded.send('DELETE', path)).body.kind
  assert.deepEqual(
    [await kindOf(`${maps}/one`), await kindOf(`${maps}/held`), await kindOf(`${services}/web`)],
    ['Status', 'ConfigMap', 'Service'],
  )
})

test('a client that accepts Tables receives the Status of a deletion unchanged', async () => {
  const embedded = await started()
  await embedded.send('POST', maps, map)
  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
  const answer = await answered(embedded, 'DELETE', `${maps}/one`, { accept })
  assert.ok('body' in answer)
  const { kind, status } = answer.body as Readonly<Record<string, unknown>>
  assert.deepEqual([kind, status], ['Status', 'Success'])
})

test('a subresource cannot be deleted, and its object stays', async () => {
  const embedded = await started()
  await embedded.send('POST', services, service)
  assert.equal((await embedded.send('DELETE', `${services}/web/status`)).status, 405)
  assert.equal((await embedded.send('GET', `${services}/web`)).status, 200)
})

test('writing the status of a missing Service returns 404 and creates nothing', async () => {
  const embedded = await started()
  assert.equal((await embedded.send('PUT', `${services}/web/status`, service)).status, 404)
  assert.equal((await embedded.send('GET', `${services}/web`)).status, 404)
  assert.equal((await embedded.send('PUT', `${services}/web`, service)).status, 201)
})

test('creating, replacing or patching a Service returns its warning; reading it returns none', async () => {
  const embedded = await started()
  const body = { ...service, spec: { ...service.spec, externalName: 'example.com' } }
  const warned = async (method: ApiRequest['method'], path: string, sent: Sent = {}): Promise<string | undefined> =>
    (await answered(embedded, method, path, sent)).headers.warning
  const warning = '299 - "spec.externalName is ignored when spec.type is not \\"ExternalName\\""'
  assert.equal(await warned('POST', services, { body }), warning)
  assert.equal(await warned('PUT', `${services}/web`, { body }), warning)
  const patch = { body: { spec: { sessionAffinity: 'ClientIP' } }, type: 'application/merge-patch+json' }
  assert.equal(await warned('PATCH', `${services}/web`, patch), warning)
  assert.equal(await warned('GET', `${services}/web`), undefined)
})

test('a warning of 4,096 characters is sent whole; a longer one is truncated to 256', async () => {
  const embedded = await started({ fieldValidation: 'Warn' })
  const around = 'unknown field ""'.length
  for (const [name, sent] of [
    ['one', 4096],
    ['two', 256],
  ] as const) {
    const field = 'x'.repeat(4096 - around + (name === 'two' ? 1 : 0))
    const body = { ...map, metadata: { ...map.metadata, name }, [field]: {} }
    const { headers } = await answered(embedded, 'POST', maps, { body })
    const text = /^299 - "(.*)"$/.exec(headers.warning ?? '')?.[1]?.replaceAll('\\"', '"')
    assert.equal(text?.length, sent)
  }
})

test('warnings that are too long together are each cut to 256 characters, and those after 4,096 are dropped', async () => {
  const embedded = await started({ fieldValidation: 'Warn' })
  const warnings = async (lengths: readonly number[]): Promise<readonly number[]> => {
    const fields = lengths.map((length, index) => [`f${index}`.padEnd(length, 'x'), {}])
    const body = { metadata: { generateName: 'a' }, ...Object.fromEntries(fields) }
    const { headers } = await answered(embedded, 'POST', maps, { body })
    const texts = [...(headers.warning ?? '').matchAll(/299 - "((?:\\.|[^"\\])*)"/g)]
    return texts.map(([, text = '']) => text.replaceAll('\\"', '"').length)
  }
  const around = 'unknown field ""'.length
  const short = new Array<number>(19).fill(3)
  assert.deepEqual(await warnings([...short, 4100]), [...short.map((length) => length + around), 256])
  assert.deepEqual(await warnings(new Array<number>(18).fill(400)), new Array<number>(16).fill(256))
})

test('the warning about one request does not appear in the next response', async () => {
  const embedded = await started({ fieldValidation: 'Warn' })
  const unknown = await answered(embedded, 'POST', maps, { body: { ...map, dta: {} } })
  assert.equal(unknown.headers.warning, '299 - "unknown field \\"dta\\""')
  assert.equal((await answered(embedded, 'GET', `${maps}/one`)).headers.warning, undefined)
})
