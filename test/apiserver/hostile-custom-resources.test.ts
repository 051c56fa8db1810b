import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kindsOfDefinition } from '../../src/apiserver/resources/custom-resources.ts'
import type { ApiRequest } from '../../src/kube/transport.ts'
import { Embedded } from './embedded.ts'

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const foos = '/apis/example.com/v1/namespaces/default/foos'

async function withFoos(properties: object, more: object = {}): Promise<Embedded> {
  const embedded = await Embedded.started([], { fieldValidation: 'Warn' })
  const schema = { openAPIV3Schema: { type: 'object', properties } }
  const spec = {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'foos', kind: 'Foo' },
    versions: [{ name: 'v1', served: true, storage: true, schema, ...more }],
  }
  const { status } = await embedded.send('POST', definitions, { metadata: { name: 'foos.example.com' }, spec })
  assert.equal(status, 201)
  return embedded
}

/** The type of every custom resource. */
const foo = { apiVersion: 'example.com/v1', kind: 'Foo' }
const fooOf = (name: string, length: number) => ({
  ...foo,
  metadata: { name },
  list: Array.from({ length }, () => ({})),
})
const anything = { 'x-kubernetes-preserve-unknown-fields': true }

for (const items of [[{ metadata: { name: 'forged', namespace: 'kube-system' } }], [{ x: 1 }], [null], 'text', 5, {}]) {
  test(`a custom resource with items ${JSON.stringify(items)} is served as one object, not as a list`, async () => {
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
    const created = await inForm('POST', foos, 'Table', { ...foo, metadata: { name: 'mine' }, items })
    assert.deepEqual([created.status, names(created.body)], [201, ['mine']])
    assert.deepEqual(names((await inForm('GET', `${foos}/mine`, 'Table')).body), ['mine'])
    assert.deepEqual(names((await inForm('GET', foos, 'Table')).body), ['mine'])
    const partial = await inForm('GET', `${foos}/mine`, 'PartialObjectMetadata')
    assert.deepEqual([partial.status, partial.body.metadata.name], [200, 'mine'])
    assert.equal((await inForm('GET', `${foos}/mine`, 'PartialObjectMetadataList')).status, 406)
    assert.deepEqual(names((await inForm('DELETE', foos, 'Table')).body), ['mine'])
  })
}

test('schema defaults cannot enlarge an object beyond the size limit of a body', async () => {
  const names = Array.from({ length: 1000 }, (_, index) => `p${index}`)
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string', default: 'x' }]))
  const embedded = await withFoos({ list: { type: 'array', items: { type: 'object', properties } } })
  const { status, body } = await embedded.send('POST', foos, fooOf('large', 1000))
  assert.deepEqual([status, body.reason], [413, 'RequestEntityTooLarge'])
  const { body: small } = await embedded.send('POST', foos, fooOf('small', 100))
  assert.equal(small.list.length, 100)
  assert.deepEqual(Object.keys(small.list[99]), names)
  const merge = 'application/merge-patch+json'
  assert.equal((await embedded.send('PATCH', `${foos}/small`, fooOf('small', 1000), merge)).status, 413)
  assert.equal((await embedded.send('GET', foos)).body.items.length, 1)
})

test('a field named like a property of Object.prototype gets its default', async () => {
  const text = { type: 'string', default: 'x' }
  const embedded = await withFoos({
    constructor: text,
    toString: text,
    inner: { type: 'object', properties: { valueOf: text } },
  })
  const { status, body } = await embedded.send('POST', foos, {
    ...foo,
    metadata: { name: 'a' },
    toString: 'own',
    inner: {},
  })
  const { constructor: given, toString: own, inner } = body
  assert.deepEqual([status, given, own, inner], [201, 'x', 'own', { valueOf: 'x' }])
})

test('nested defaults count towards the size limit of an object', async () => {
  const leaf = { type: 'string', default: 'x'.repeat(100_000) }
  const middle = { type: 'object', default: {}, properties: { leaf } }
  const embedded = await withFoos({
    list: { type: 'array', items: { type: 'object', properties: { middle, other: middle } } },
  })
  assert.equal((await embedded.send('POST', foos, fooOf('small', 15))).status, 201)
  assert.equal((await embedded.send('POST', foos, fooOf('large', 16))).status, 413)
})

test('patches can enlarge an object up to a size limit only', { timeout: 60_000 }, async () => {
  const embedded = await withFoos({ map: anything })
  assert.equal((await embedded.send('POST', foos, { ...foo, metadata: { name: 'a' } })).status, 201)
  const value = 'x'.repeat(3_000_000)
  const statuses: number[] = []
  for (let index = 0; index < 7; index++) {
    const body = { map: { [`k${index}`]: value } }
    statuses.push((await embedded.send('PATCH', `${foos}/a`, body, 'application/merge-patch+json')).status)
  }
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 413, 413])
  assert.deepEqual(Object.keys((await embedded.send('GET', `${foos}/a`)).body.map), ['k0', 'k1', 'k2', 'k3', 'k4'])
})

test('a character that JSON escapes as six characters counts as six towards the size limit', {
  timeout: 60_000,
}, async () => {
  const embedded = await withFoos({ map: anything })
  const map = { a: '\0'.repeat(2_900_000) }
  assert.equal((await embedded.send('POST', foos, { ...foo, metadata: { name: 'a' }, map })).status, 413)
})

test('the schema of list items is read once for 1,000 items', () => {
  let reads = 0
  const items = {
    type: 'object',
    get properties() {
      reads++
      return { a: { type: 'string', default: 'x' } }
    },
  }
  const schema = { openAPIV3Schema: { type: 'object', properties: { list: { type: 'array', items } } } }
  const versions = [{ name: 'v1', served: true, storage: true, schema }]
  const spec = { group: 'example.com', scope: 'Cluster', names: { plural: 'foos', kind: 'Foo' }, versions }
  const [kind] = kindsOfDefinition({ spec })
  const before = reads
  const list = Array.from({ length: 1000 }, () => ({}))
  const completed = kind?.withDefaults?.({ list })
  assert.deepEqual(completed, { list: list.map(() => ({ a: 'x' })) })
  assert.equal(reads - before, 1)
})

test('8,000 versions with the same name cause a single error about unique names', { timeout: 60_000 }, async () => {
  const embedded = await Embedded.started([])
  const versions = Array.from({ length: 8000 }, () => ({ name: 'v1' }))
  const spec = { group: 'example.com', scope: 'Namespaced', names: { plural: 'foos', kind: 'Foo' }, versions }
  const { status, body } = await embedded.send('POST', definitions, { metadata: { name: 'foos.example.com' }, spec })
  assert.equal(status, 422)
  const causes: readonly { readonly message: string }[] = body.details.causes
  assert.equal(causes.filter(({ message }) => message.endsWith('must contain unique version names')).length, 1)
  assert.match(body.message, /must have exactly one version marked as storage version/)
  const { length } = JSON.stringify(body)
  assert.ok(length < 500_000, `${length} characters`)
})

test('unknown fields at long paths do not make the error message long', { timeout: 60_000 }, async () => {
  const embedded = await withFoos({ map: { type: 'object', additionalProperties: { type: 'object', properties: {} } } })
  const unknown = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`u${index}`, 1]))
  const foo = {
    apiVersion: 'example.com/v1',
    kind: 'Foo',
    metadata: { name: 'a' },
    map: { ['k'.repeat(200_000)]: unknown },
  }
  const strict = '?fieldValidation=Strict&fieldManager=m'
  const answers = [
    await embedded.send('POST', `${foos}${strict}`, foo),
    await embedded.send('PATCH', `${foos}/a${strict}`, foo, 'application/apply-patch+yaml'),
  ]
  assert.deepEqual(
    answers.map(({ status }) => status),
    [400, 500],
  )
  for (const { body } of answers) {
    const { length } = JSON.stringify(body)
    assert.ok(length < 500_000, `${length} characters`)
  }
})

test('a patch that removes the kind or replaces it by a long text does not make the error message long', async () => {
  const embedded = await withFoos({ text: { type: 'string' } })
  const text = 'x'.repeat(1_000_000)
  assert.equal((await embedded.send('POST', foos, { ...foo, metadata: { name: 'a' }, text })).status, 201)
  for (const kind of [null, text]) {
    const { status, body } = await embedded.send('PATCH', `${foos}/a`, { kind }, 'application/merge-patch+json')
    assert.equal(status, 422)
    const { length } = JSON.stringify(body)
    assert.ok(length < 500_000, `${length} characters`)
  }
})

test('a patch that replaces the kind and the name by values that are not strings is refused with 422', async () => {
  const embedded = await withFoos({})
  assert.equal((await embedded.send('POST', foos, { ...foo, metadata: { name: 'a' } })).status, 201)
  const replacements: readonly { readonly path: string; readonly value: unknown }[] = [
    { path: '/metadata/name', value: null },
    { path: '/metadata/name', value: { length: 1e9 } },
    { path: '/apiVersion', value: { toString: 1 } },
    { path: '/kind', value: { toString: 1 } },
  ]
  for (const { path, value } of replacements) {
    const operations = [
      { op: 'replace', path: '/kind', value: 'Z' },
      { op: 'replace', path, value },
    ]
    const { status, body } = await embedded.send('PATCH', `${foos}/a`, operations, 'application/json-patch+json')
    assert.equal(status, 422, `${path} ${JSON.stringify(value)}: ${JSON.stringify(body)}`)
  }
})

test('an apply whose name is not a string is refused for its undeclared field', async () => {
  const embedded = await withFoos({})
  const foo = { apiVersion: 'example.com/v1', kind: 'Foo', metadata: { name: { toString: 1 }, namespace: 5 }, x: 1 }
  const { status, body } = await embedded.send('PATCH', `${foos}/a?fieldManager=m`, foo, 'application/apply-patch+yaml')
  assert.equal(status, 500)
  assert.match(
    body.message,
    /^failed to create typed patch object \(\/; example\.com\/v1, Kind=Foo\): \.x: field not decl/,
  )
})

test('an object in a selectable or printed field breaks neither writes nor watches nor Tables', async () => {
  const additionalPrinterColumns = [{ name: 'Ready', type: 'string', jsonPath: '.list[?(@.type=="Ready")].status' }]
  const more = { selectableFields: [{ jsonPath: '.color' }], additionalPrinterColumns }
  const embedded = await withFoos({ color: anything, list: anything }, more)
  const { signal } = new AbortController()
  const watch = async (...fields: readonly (readonly [string, string])[]) => {
    const query = [['watch', 'true'], ...fields] as const
    const answer = await embedded.server.handle({ method: 'GET', path: foos, query, headers: {} }, signal)
    assert.ok('stream' in answer)
    return answer.stream[Symbol.asyncIterator]()
  }
  await watch(['fieldSelector', 'color=red'])
  const all = await watch()
  const odd = { toString: 'red' }
  const body = { ...foo, metadata: { name: 'odd' }, color: odd, list: [{ type: odd }] }
  assert.equal((await embedded.send('POST', foos, body)).status, 201)
  assert.equal(((await all.next()).value as { readonly type: string }).type, 'ADDED')
  const headers = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' }
  assert.equal((await embedded.server.handle({ method: 'GET', path: foos, query: [], headers }, signal)).status, 200)
})

test('a null item of a keyed list is stored unchanged', async () => {
  const keys = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] }
  const embedded = await withFoos({ list: { type: 'array', items: {}, ...keys } })
  const { status, body } = await embedded.send('POST', foos, { ...foo, metadata: { name: 'mine' }, list: [null] })
  assert.deepEqual([status, body.list], [201, [null]])
})

const conditions = Array.from({ length: 20_000 }, () => ({ type: 'x' }))
for (const [what, columns, more] of [
  ['1,000 columns that search a list of 20,000 items', 1000, { jsonPath: '.list[?(@.type=="y")].status' }],
  ['1,000 columns that contain a list of 20,000 items', 1000, { jsonPath: '.list' }],
  ['2,000,000 cells', 20_000, { jsonPath: '.none', rows: 100 }],
] as const) {
  test(`a Table of ${what} is refused, and delays no other request`, { timeout: 60_000 }, async () => {
    const { jsonPath, rows = 1 } = { rows: 1, ...more }
    const additionalPrinterColumns = Array.from({ length: columns }, () => ({ name: 'c', type: 'string', jsonPath }))
    const embedded = await withFoos({ list: anything }, { additionalPrinterColumns })
    for (let row = 0; row < rows; row++) {
      const body = { ...foo, metadata: { name: `a${row}` }, ...(rows === 1 && { list: conditions }) }
      assert.equal((await embedded.send('POST', foos, body)).status, 201)
    }
    const headers = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' }
    const { signal } = new AbortController()
    const beforeMs = performance.now()
    const list = await embedded.server.handle({ method: 'GET', path: foos, query: [], headers }, signal)
    assert.deepEqual([list.status, performance.now() - beforeMs < 2_000], [500, true])
    if (rows > 1) return
    const query = [['watch', 'true']] as const
    const watch = await embedded.server.handle({ method: 'GET', path: foos, query, headers }, signal)
    const events: unknown[] = 'stream' in watch ? await Array.fromAsync(watch.stream) : []
    assert.deepEqual(
      events.map((event) => (event as { readonly type: string }).type),
      ['ERROR'],
    )
  })
}
