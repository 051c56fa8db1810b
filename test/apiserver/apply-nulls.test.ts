import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, Embedded } from './embedded.ts'

// Compared with kube-apiserver: test/conformance/scenarios/apply.ts.

const namespace = '/api/v1/namespaces/default'
const things = '/apis/example.com/v1/namespaces/default/things'
const inner = { type: 'object', properties: { a: { type: 'string' } } }
const items = { type: 'object', properties: { name: { type: 'string' }, inner } }
const properties = {
  inner,
  nullable: { ...inner, nullable: true },
  list: { type: 'array', items, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
  free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
}
const openAPIV3Schema = { type: 'object', properties: { spec: { type: 'object', properties } } }

async function withThings(): Promise<Embedded> {
  const embedded = await Embedded.started()
  const versions = [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }]
  await embedded.send('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
    metadata: { name: 'things.example.com' },
    spec: { group: 'example.com', scope: 'Namespaced', names: { plural: 'things', kind: 'Thing' }, versions },
  })
  return embedded
}

function apply(embedded: Embedded, manager: string, path: string, object: object): Promise<Answer> {
  return embedded.send('PATCH', `${path}?fieldManager=${manager}`, object, 'application/apply-patch+yaml')
}

function applyService(embedded: Embedded, manager: string, spec: object): Promise<Answer> {
  const object = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec }
  return apply(embedded, manager, `${namespace}/services/web`, object)
}

function applyThing(embedded: Embedded, manager: string, spec: object): Promise<Answer> {
  const object = { apiVersion: 'example.com/v1', kind: 'Thing', metadata: { name: 'one' }, spec }
  return apply(embedded, manager, `${things}/one`, object)
}

function applyMap(embedded: Embedded, manager: string, data: object, metadata: object = {}): Promise<Answer> {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map', ...metadata }, data }
  return apply(embedded, manager, `${namespace}/configmaps/map`, object)
}

test('applying an empty value or null clears an atomic field', async () => {
  const embedded = await Embedded.started()
  const ports = [{ port: 80 }]
  const full = { ports, selector: { app: 'web' }, externalIPs: ['192.0.2.1'], sessionAffinity: 'ClientIP' }
  for (const empty of [
    { selector: {}, externalIPs: [], sessionAffinity: null },
    { selector: null, externalIPs: null, sessionAffinity: 'None' },
  ]) {
    assert.deepEqual((await applyService(embedded, 'one', full)).body.spec.selector, { app: 'web' })
    const other = await applyService(embedded, 'other', { selector: {} })
    assert.match(other.body.message, /1 conflict: conflict with "one": \.spec\.selector$/)
    const { spec } = (await applyService(embedded, 'one', { ports, ...empty })).body
    assert.deepEqual([spec.selector, spec.externalIPs, spec.sessionAffinity], [undefined, undefined, 'None'])
  }
})

test('applying null to a map preserves the entries of other managers', async () => {
  const embedded = await Embedded.started()
  await applyMap(embedded, 'one', { a: '1' }, { labels: { a: '1' } })
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map', labels: null }, data: null }
  const { body } = await apply(embedded, 'two', `${namespace}/configmaps/map`, object)
  assert.deepEqual([body.data, body.metadata.labels], [{ a: '1' }, { a: '1' }])
})

test('applying null is refused unless the schema of the custom resource has nullable', async () => {
  const embedded = await withThings()
  const refused = async (spec: object): Promise<readonly (string | number)[]> => {
    const { status, body } = await applyThing(embedded, 'one', spec)
    return [status, ...(body.details?.causes ?? []).map(({ field }: { field: string }) => field)]
  }
  assert.deepEqual(await refused({ inner: null }), [422, 'spec.inner'])
  assert.deepEqual(await refused({ list: [{ name: 'a', inner: null }] }), [422, 'spec.list[0].inner'])
  assert.deepEqual(await refused({ nullable: null }), [201])
  assert.deepEqual(await refused({ list: null, nullable: { a: '1' } }), [422, 'spec.list'])
  assert.deepEqual(await refused({ nullable: { a: '1' } }), [200])
  const { body } = await applyThing(embedded, 'one', { nullable: null })
  assert.deepEqual(body.spec, { nullable: null })
})

test('a conflict is reported before the error for an emptied container', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'one', { inner: { a: '1' } })
  await applyThing(embedded, 'two', { nullable: { a: '1' } })
  const { status } = await applyThing(embedded, 'one', { inner: {}, nullable: { a: '2' } })
  assert.equal(status, 409)
})

test('a value that replaces one of another type belongs to its writer; the old fields lose their owners', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'one', { free: { x: { y: { z: '1' } } } })
  const write = async (manager: string, free: object): Promise<object> => {
    const path = `${things}/one?fieldManager=${manager}`
    const { body } = await embedded.send('PATCH', path, { spec: { free } }, 'application/merge-patch+json')
    const entries: readonly { manager: string; fieldsV1: object }[] = body.metadata.managedFields
    return Object.fromEntries(entries.map(({ manager: name, fieldsV1 }) => [name, fieldsV1]))
  }
  assert.deepEqual(await write('two', { x: 'text' }), { two: { 'f:spec': { 'f:free': { 'f:x': {} } } } })
  const x = { '.': {}, 'f:y': { '.': {}, 'f:z': {} } }
  assert.deepEqual(await write('three', { x: { y: { z: '2' } } }), { three: { 'f:spec': { 'f:free': { 'f:x': x } } } })
})

test('a manager gets a time in managedFields only when its apply changes the object', async () => {
  const embedded = await Embedded.started()
  const timesOf = ({ body }: Answer): readonly unknown[] =>
    body.metadata.managedFields.map(({ manager, time }: { manager: string; time?: string }) => [manager, time])
  await applyMap(embedded, 'one', { a: '1', b: '2' })
  await embedded.time.advance(5000)
  const first = ['one', '2026-01-01T00:00:00Z']
  assert.deepEqual(timesOf(await applyMap(embedded, 'two', { a: '1' })), [['two', undefined], first])
  assert.deepEqual(timesOf(await applyMap(embedded, 'one', { a: '1' })), [
    ['two', undefined],
    ['one', '2026-01-01T00:00:05Z'],
  ])
  assert.deepEqual(timesOf(await applyMap(embedded, 'two', { a: '1', c: '3' })), [
    ['one', '2026-01-01T00:00:05Z'],
    ['two', '2026-01-01T00:00:05Z'],
  ])
})

test('applying a new object with the last-applied annotation sets the annotation to the applied configuration', async () => {
  const embedded = await Embedded.started()
  const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'
  const metadata = { annotations: { [lastApplied]: 'old' } }
  const { body } = await applyMap(embedded, 'kubectl', { a: '1' }, metadata)
  assert.deepEqual(JSON.parse(body.metadata.annotations[lastApplied]), {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'map', annotations: {} },
    data: { a: '1' },
  })
})
