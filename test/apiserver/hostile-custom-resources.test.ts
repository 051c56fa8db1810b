import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApiRequest } from '../../src/kube/transport.ts'
import { Embedded } from './embedded.ts'

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const foos = '/apis/example.com/v1/namespaces/default/foos'

async function withFoos(properties: object): Promise<Embedded> {
  const embedded = await Embedded.started([], { fieldValidation: 'Warn' })
  const schema = { openAPIV3Schema: { type: 'object', properties } }
  const spec = {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'foos', kind: 'Foo' },
    versions: [{ name: 'v1', served: true, storage: true, schema }],
  }
  const { status } = await embedded.send('POST', definitions, { metadata: { name: 'foos.example.com' }, spec })
  assert.equal(status, 201)
  return embedded
}

const anything = { 'x-kubernetes-preserve-unknown-fields': true }

for (const items of [[{ metadata: { name: 'forged', namespace: 'kube-system' } }], [{ x: 1 }], [null], 'text', 5, {}]) {
  test(`a custom resource with items ${JSON.stringify(items)} is shown as one object`, async () => {
    const embedded = await withFoos({ items: anything })
    const inForm = async (method: ApiRequest['method'], path: string, form: string, body?: object) => {
      const headers = { accept: `application/json;as=${form};v=v1;g=meta.k8s.io`, 'content-type': 'application/json' }
      const response = await embedded.server.handle(
        { method, path, query: [], headers, body },
        new AbortController().signal,
      )
      // biome-ignore lint/suspicious/noExplicitAny: bodies are JSON of many kinds
      return { status: response.status, body: ('body' in response ? response.body : undefined) as any }
    }
    const names = (table: { readonly rows: readonly { readonly cells: readonly unknown[] }[] }): readonly unknown[] =>
      table.rows.map(({ cells }) => cells[0])
    const created = await inForm('POST', foos, 'Table', { metadata: { name: 'mine' }, items })
    assert.deepEqual([created.status, names(created.body)], [201, ['mine']])
    assert.deepEqual(names((await inForm('GET', `${foos}/mine`, 'Table')).body), ['mine'])
    assert.deepEqual(names((await inForm('GET', foos, 'Table')).body), ['mine'])
    const partial = await inForm('GET', `${foos}/mine`, 'PartialObjectMetadata')
    assert.deepEqual([partial.status, partial.body.metadata.name], [200, 'mine'])
    assert.equal((await inForm('GET', `${foos}/mine`, 'PartialObjectMetadataList')).status, 406)
    assert.deepEqual(names((await inForm('DELETE', foos, 'Table')).body), ['mine'])
  })
}
