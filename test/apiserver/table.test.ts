import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timeSince } from '../../src/apiserver/columns.ts'
import type { ApiRequest } from '../../src/kube/transport.ts'
import { formatTime } from '../../src/runtime/time-format.ts'
import { Embedded } from './embedded.ts'

const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json'

async function tableOf(embedded: Embedded, path: string, query: ApiRequest['query'] = [], accepted = accept) {
  const request = { method: 'GET', path, query, headers: { accept: accepted } } as const
  const response = await embedded.server.handle(request, new AbortController().signal)
  if (!('body' in response)) return assert.fail('a watch')
  // biome-ignore lint/suspicious/noExplicitAny: bodies are JSON of many kinds
  return response.body as any
}

const createdMs = 1_800_000_000_000
const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

for (const [ms, text] of [
  [-2 * second, '<invalid>'],
  [-1 * second, '0s'],
  [0, '0s'],
  [119 * second, '119s'],
  [2 * minute, '2m'],
  [2 * minute + second, '2m1s'],
  [10 * minute, '10m'],
  [179 * minute, '179m'],
  [3 * hour, '3h'],
  [3 * hour + minute, '3h1m'],
  [8 * hour, '8h'],
  [47 * hour, '47h'],
  [2 * day, '2d'],
  [2 * day + hour, '2d1h'],
  [8 * day, '8d'],
  [729 * day, '729d'],
  [730 * day, '2y'],
  [731 * day, '2y1d'],
  [8 * 365 * day, '8y'],
] as const) {
  test(`an age of ${ms / 1000} s is shown as ${text}`, () =>
    assert.equal(timeSince(formatTime(createdMs), createdMs + ms), text))
}

test('a client that accepts Tables receives one, with ages by the clock of the server', async () => {
  const embedded = await Embedded.started([])
  await embedded.time.advance(5 * minute)
  const table = await tableOf(embedded, '/api/v1/namespaces')
  assert.deepEqual(
    table.columnDefinitions.map(({ name }: { name: string }) => name),
    ['Name', 'Status', 'Age'],
  )
  assert.deepEqual(table.rows[0].cells, ['default', 'Active', '5m'])
  assert.equal(table.rows[0].object.kind, 'PartialObjectMetadata')
})

for (const [accepted, kind] of [
  ['application/json', 'NamespaceList'],
  ['application/json,application/json;as=Table;v=v1;g=meta.k8s.io', 'NamespaceList'],
  ['application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json', 'NamespaceList'],
  ['application/yaml;as=Table;v=v1;g=meta.k8s.io, application/json', 'NamespaceList'],
  ['application/json; as=Table; v=v1; g=meta.k8s.io', 'Table'],
] as const) {
  test(`the Accept header ${accepted} yields a ${kind}`, async () => {
    const embedded = await Embedded.started([])
    assert.equal((await tableOf(embedded, '/api/v1/namespaces', [], accepted)).kind, kind)
  })
}

test('a Table watch sends column definitions in its first event only, and ends when aborted', async () => {
  const embedded = await Embedded.started([])
  const request = {
    method: 'GET',
    path: '/api/v1/namespaces',
    query: [['watch', 'true']],
    headers: { accept },
  } as const
  const end = new AbortController()
  const response = await embedded.server.handle(request, end.signal)
  if (!('stream' in response)) return assert.fail('no watch')
  // biome-ignore lint/suspicious/noExplicitAny: events of many kinds
  const seen: any[] = []
  for await (const event of response.stream) {
    seen.push(event)
    if (seen.length === 1) await embedded.send('POST', '/api/v1/namespaces', { metadata: { name: 'blue' } })
    else end.abort()
  }
  assert.deepEqual(
    seen.map(({ type, object }) => [type, object.kind, object.rows[0].cells[0], object.columnDefinitions?.length]),
    [
      ['ADDED', 'Table', 'default', 3],
      ['ADDED', 'Table', 'blue', undefined],
    ],
  )
})

test('an error is a Status even for a client that accepts Tables', async () => {
  const embedded = await Embedded.started([])
  const request = { method: 'GET', path: '/api/v1/namespaces/nobody', query: [], headers: { accept } } as const
  const response = await embedded.server.handle(request, new AbortController().signal)
  assert.equal('body' in response && (response.body as { kind: string }).kind, 'Status')
})
