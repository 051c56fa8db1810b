import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from './embedded.ts'

const maps = '/api/v1/namespaces/default/configmaps'
const map = `${maps}/a`

interface Entry {
  readonly manager: string
  readonly operation: string
  readonly fieldsV1: Readonly<Record<string, Readonly<Record<string, object>>>>
}

async function ownersOf(embedded: Embedded): Promise<readonly Entry[]> {
  return (await embedded.send('GET', map)).body.metadata.managedFields
}

test('beyond ten managers the oldest merge into ancient-changes, and every field still has an owner', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', `${maps}?fieldManager=creator`, { metadata: { name: 'a' }, data: { first: '1' } })
  for (let index = 0; index < 30; index++) {
    await embedded.time.advance(1000)
    const body = { data: { [`key-${index}`]: 'x' } }
    const path = `${map}?fieldManager=m${index}`
    assert.equal((await embedded.send('PATCH', path, body, 'application/merge-patch+json')).status, 200)
  }
  const owners = await ownersOf(embedded)
  assert.deepEqual(
    owners.map(({ manager }) => manager),
    ['ancient-changes', ...Array.from({ length: 9 }, (_, index) => `m${index + 21}`)],
  )
  const owned = owners.flatMap(({ fieldsV1 }) => Object.keys(fieldsV1['f:data'] ?? {}))
  assert.equal(owned.filter((step) => step.startsWith('f:')).length, 31)
})

test('updates of one second merge into a single ancient-changes per version, as in upstream', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', `${maps}?fieldManager=a01`, { metadata: { name: 'a' }, data: { 'key-1': 'x' } })
  const update = async (manager: string) => {
    const body = { data: { [`key-${manager}`]: 'x' } }
    await embedded.send('PATCH', `${map}?fieldManager=${manager}`, body, 'application/merge-patch+json')
  }
  for (let index = 2; index <= 12; index++) await update(`a${String(index).padStart(2, '0')}`)
  const owners = await ownersOf(embedded)
  const later = ['a05', 'a06', 'a07', 'a08', 'a09', 'a10', 'a11', 'a12']
  assert.deepEqual(
    owners.map(({ manager }) => manager),
    ['a03', ...later, 'ancient-changes'],
  )
  const merged = owners.at(-1)?.fieldsV1['f:data'] ?? {}
  assert.deepEqual(Object.keys(merged).sort(), ['.', 'f:key-1', 'f:key-a02', 'f:key-a04'])
})

test('a merged entry that comes second by name loses no fields', async () => {
  const embedded = await Embedded.started()
  const patch = (manager: string) =>
    embedded.send(
      'PATCH',
      `${map}?fieldManager=${manager}`,
      { data: { [manager]: 'x' } },
      'application/merge-patch+json',
    )
  await embedded.send('POST', `${maps}?fieldManager=aa`, { metadata: { name: 'a' }, data: { aa: 'x' } })
  const managers = ['ab', 'ac', ...Array.from({ length: 9 }, (_, index) => `b${index}`)]
  for (const manager of managers) await patch(manager)
  const owners = await ownersOf(embedded)
  assert.deepEqual(
    owners.map(({ manager }) => manager),
    ['ac', 'ancient-changes', ...managers.slice(3)],
  )
  const owned = owners.flatMap(({ fieldsV1 }) => Object.keys(fieldsV1['f:data'] ?? {}))
  assert.equal(owned.filter((step) => step.startsWith('f:')).length, 12)
})

test('malformed managedFields are ignored, and ownership still causes conflicts afterwards', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', `${maps}?fieldManager=creator`, { metadata: { name: 'a' }, data: { x: '1' } })
  const before = await ownersOf(embedded)
  for (const fieldsV1 of [{ constructor: {} }, { 'k:[1]': {} }, { 'v:{': {} }, { 'i:a': {} }, { 'f:a': { x: {} } }]) {
    const managedFields = [{ manager: 'other', operation: 'Apply', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1 }]
    const body = { metadata: { name: 'a', managedFields }, data: { x: '1' } }
    assert.equal((await embedded.send('PUT', `${map}?fieldManager=creator`, body)).status, 200)
    assert.deepEqual(await ownersOf(embedded), before)
  }
  const applied = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { x: '2' } }
  const { status, body } = await embedded.send(
    'PATCH',
    `${map}?fieldManager=m`,
    applied,
    'application/apply-patch+yaml',
  )
  assert.deepEqual(
    [status, body.message],
    [409, 'Apply failed with 1 conflict: conflict with "creator" using v1: .data.x'],
  )
})

const things = '/apis/example.com/v1/namespaces/default/things'
const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
const version = { served: true, storage: false, subresources: { status: {} }, schema: { openAPIV3Schema } }

async function withThings(): Promise<Embedded> {
  const embedded = await Embedded.started()
  const versions = [
    { name: 'v1', ...version, storage: true },
    { name: 'v2', ...version },
  ]
  await embedded.send('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
    metadata: { name: 'things.example.com' },
    spec: { group: 'example.com', scope: 'Namespaced', names: { plural: 'things', kind: 'Thing' }, versions },
  })
  return embedded
}

function applyThing(embedded: Embedded, name: 'v1' | 'v2', spec: object) {
  const thing = { apiVersion: `example.com/${name}`, kind: 'Thing', metadata: { name: 'one' }, spec }
  const path = `${things.replace('v1', name)}/one?fieldManager=m`
  return embedded.send('PATCH', path, thing, 'application/apply-patch+yaml')
}

test('applying another version of a kind moves the ownership to it and removes the omitted fields', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'v1', { a: '1', b: '2' })
  const { body } = await applyThing(embedded, 'v2', { a: '1' })
  assert.deepEqual(body.spec, { a: '1' })
  const owners = body.metadata.managedFields.map((entry: { apiVersion: string; fieldsV1: object }) => [
    entry.apiVersion,
    entry.fieldsV1,
  ])
  assert.deepEqual(owners, [['example.com/v2', { 'f:spec': { '.': {}, 'f:a': {} } }]])
})

test('a write to the status subresource of a custom resource changes and owns only the status', async () => {
  const embedded = await withThings()
  const thing = { apiVersion: 'example.com/v1', kind: 'Thing', metadata: { name: 'one', labels: { a: '1' } } }
  await embedded.send('POST', things, thing)
  const change = { metadata: { labels: { a: '2', b: '3' }, finalizers: ['a/b'] }, status: { ready: true } }
  const path = `${things}/one/status?fieldManager=m`
  const merged = await embedded.send('PATCH', path, change, 'application/merge-patch+json')
  const applied = await embedded.send('PATCH', path, { ...thing, ...change }, 'application/apply-patch+yaml')
  for (const { status, body } of [merged, applied]) {
    assert.equal(status, 200)
    assert.deepEqual(
      [body.metadata.labels, body.metadata.finalizers, body.status],
      [{ a: '1' }, undefined, { ready: true }],
    )
    const own: readonly Entry[] = body.metadata.managedFields.filter(({ manager }: Entry) => manager === 'm')
    for (const { fieldsV1 } of own) assert.deepEqual(fieldsV1, { 'f:status': { '.': {}, 'f:ready': {} } })
  }
})

test('the creator of a Service does not own the status that the server resets', async () => {
  const embedded = await Embedded.started()
  const status = { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } }
  const service = { metadata: { name: 'a' }, spec: { ports: [{ port: 80 }] }, status }
  const { body } = await embedded.send('POST', '/api/v1/namespaces/default/services', service)
  assert.deepEqual(body.status, { loadBalancer: {} })
  assert.deepEqual(
    body.metadata.managedFields.map(({ fieldsV1 }: Entry) => Object.keys(fieldsV1)),
    [['f:spec']],
  )
})

test('a write that only removes fields adds no managedFields entry', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', `${maps}?fieldManager=creator`, { metadata: { name: 'a' }, data: { x: '1', y: '2' } })
  const [before] = await ownersOf(embedded)
  await embedded.time.advance(60_000)
  await embedded.send('PATCH', `${map}?fieldManager=m`, { data: { y: null } }, 'application/merge-patch+json')
  assert.deepEqual(await ownersOf(embedded), [{ ...before, fieldsV1: { 'f:data': { '.': {}, 'f:x': {} } } }])
})

test('a patch of the status subresource cannot reset managedFields', async () => {
  const embedded = await Embedded.started()
  const services = '/api/v1/namespaces/default/services'
  const created = await embedded.send('POST', services, { metadata: { name: 'a' }, spec: { ports: [{ port: 80 }] } })
  const change = { metadata: { managedFields: [{}] } }
  const { body } = await embedded.send('PATCH', `${services}/a/status`, change, 'application/merge-patch+json')
  assert.deepEqual(body.metadata.managedFields, created.body.metadata.managedFields)
})

test('an object without managedFields receives none from updates until it is applied', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', maps, { metadata: { name: 'a' } })
  await embedded.send('PATCH', `${map}?fieldManager=m`, { data: { x: '1' } }, 'application/merge-patch+json')
  assert.equal(await ownersOf(embedded), undefined)
  const applied = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { y: '2' } }
  await embedded.send('PATCH', `${map}?fieldManager=n`, applied, 'application/apply-patch+yaml')
  const owners = await ownersOf(embedded)
  assert.deepEqual(
    owners.map(({ manager }) => manager),
    ['n', 'before-first-apply'],
  )
})
