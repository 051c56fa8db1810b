import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApiRequest } from '../../src/kube/transport.ts'
import { Embedded } from './embedded.ts'

// Compared with kube-apiserver: test/conformance/scenarios/reads.ts and watches.ts.

const maps = '/api/v1/namespaces/default/configmaps'

/** The Accept header of client-go's metadata client: protobuf first. */
function accepted(kind: string): string {
  const form = `as=${kind};g=meta.k8s.io;v=v1`
  return `application/vnd.kubernetes.protobuf;${form},application/json;${form},application/json`
}

async function answer(embedded: Embedded, path: string, kind: string, query: ApiRequest['query'] = []) {
  const request = { method: 'GET', path: path as `/${string}`, query, headers: { accept: accepted(kind) } } as const
  const response = await embedded.server.handle(request, new AbortController().signal)
  // biome-ignore lint/suspicious/noExplicitAny: bodies are JSON of many kinds
  return { status: response.status, body: ('body' in response ? response.body : response.stream) as any }
}

async function withMap(): Promise<Embedded> {
  const embedded = await Embedded.started()
  await embedded.send('POST', maps, { metadata: { name: 'a', labels: { app: 'web' } }, data: { a: '1' } })
  return embedded
}

test('PartialObjectMetadata contains only the metadata of an object, and its list that of the items', async () => {
  const embedded = await withMap()
  const { body } = await answer(embedded, `${maps}/a`, 'PartialObjectMetadata')
  assert.deepEqual(Object.keys(body), ['kind', 'apiVersion', 'metadata'])
  assert.deepEqual(
    [body.kind, body.apiVersion, body.metadata.labels],
    ['PartialObjectMetadata', 'meta.k8s.io/v1', { app: 'web' }],
  )
  const { body: list } = await answer(embedded, maps, 'PartialObjectMetadataList')
  assert.equal(list.kind, 'PartialObjectMetadataList')
  assert.deepEqual(list.items, [body])
  assert.equal(list.metadata.resourceVersion, String(embedded.server.revision))
  const { body: none } = await answer(embedded, maps.replace('configmaps', 'pods'), 'PartialObjectMetadataList')
  assert.equal(none.items, null)
})

test('the list form for an object, or the object form for a list, returns 406; an error stays a Status', async () => {
  const embedded = await withMap()
  const single = await answer(embedded, `${maps}/a`, 'PartialObjectMetadataList')
  assert.deepEqual([single.status, single.body.reason], [406, 'NotAcceptable'])
  assert.equal((await answer(embedded, maps, 'PartialObjectMetadata')).status, 406)
  assert.equal((await answer(embedded, `${maps}/nobody`, 'PartialObjectMetadata')).body.kind, 'Status')
})

test('watch events and bookmarks as PartialObjectMetadata contain only metadata', async () => {
  const embedded = await withMap()
  const query = [
    ['watch', 'true'],
    ['allowWatchBookmarks', 'true'],
    ['sendInitialEvents', 'true'],
    ['resourceVersionMatch', 'NotOlderThan'],
  ] as const
  const { body } = await answer(embedded, maps, 'PartialObjectMetadata', query)
  const events = body[Symbol.asyncIterator]()
  for (const type of ['ADDED', 'BOOKMARK']) {
    const { value } = await events.next()
    assert.equal(value.type, type)
    assert.deepEqual(Object.keys(value.object), ['kind', 'apiVersion', 'metadata'])
    assert.equal(value.object.kind, 'PartialObjectMetadata')
  }
  await events.return()
})
