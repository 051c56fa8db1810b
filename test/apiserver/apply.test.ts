import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Answer, Embedded } from './embedded.ts'

const text = { type: 'string' }

function keyedList(keys: readonly string[], properties: object): object {
  const items = { type: 'object', properties }
  return { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys, items }
}

const spec = {
  type: 'object',
  properties: {
    list: keyedList(['name', 'proto'], { name: text, proto: { type: 'string', default: 'TCP' } }),
    additional: { type: 'object', additionalProperties: text },
    deep: { type: 'object', additionalProperties: { type: 'object', additionalProperties: text } },
    free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    usages: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
    dnsNames: { type: 'array', items: text },
    duration: text,
    inner: { type: 'object', properties: { a: text } },
  },
}

const status = { type: 'object', properties: { conditions: keyedList(['type'], { type: text }) } }

const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'things.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'things', kind: 'Thing' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', properties: { spec, status } } },
      },
    ],
  },
}

const things = '/apis/example.com/v1/namespaces/default/things'
const map = '/api/v1/namespaces/default/configmaps/map'
const applyPatch = 'application/apply-patch+yaml'
const mergePatch = 'application/merge-patch+json'

async function withThings(): Promise<Embedded> {
  const embedded = await Embedded.started()
  await embedded.send('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
  return embedded
}

function applyThing(embedded: Embedded, manager: string, content: object, path = '/one'): Promise<Answer> {
  const thing = { apiVersion: 'example.com/v1', kind: 'Thing', metadata: { name: 'one' }, ...content }
  return embedded.send('PATCH', `${things}${path}?fieldManager=${manager}`, thing, applyPatch)
}

function applyMap(embedded: Embedded, manager: string, data: object, metadata: object = {}): Promise<Answer> {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map', ...metadata }, data }
  return embedded.send('PATCH', `${map}?fieldManager=${manager}`, object, applyPatch)
}

/** The fields of each manager. */
function ownersIn({ body }: Answer): object {
  const entries = (body.metadata.managedFields ?? []) as readonly { manager: string; fieldsV1: object }[]
  return Object.fromEntries(entries.map(({ manager, fieldsV1 }) => [manager, fieldsV1]))
}

test('an applied list item matches the stored item by its keys, including a defaulted key', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'one', { spec: { list: [{ name: 'y' }] } })
  const answer = await applyThing(embedded, 'one', { spec: { list: [{ name: 'y' }] } })
  assert.deepEqual(answer.body.spec.list, [{ name: 'y', proto: 'TCP' }])
  assert.equal(answer.body.metadata.generation, 1)
  const owned = { 'f:spec': { 'f:list': { 'k:{"name":"y","proto":"TCP"}': { '.': {}, 'f:name': {} } } } }
  assert.deepEqual(ownersIn(answer), { one: owned })
})

const all = { additional: { a: '1' }, usages: ['signing'], dnsNames: ['x'], duration: '1h' }

test('a field that its only owner no longer applies is removed, with its emptied containers', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'one', { spec: { inner: { a: '1' } } })
  await applyThing(embedded, 'two', { spec: all })
  const { body } = await applyThing(embedded, 'two', { spec: {} })
  assert.deepEqual(body.spec, { inner: { a: '1' } })
})

test('a field that another manager owns stays when one owner drops it, with its container', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'one', { spec: { additional: { a: '1', b: '2' } } })
  await applyThing(embedded, 'two', { spec: { additional: { b: '2' } } })
  const answer = await applyThing(embedded, 'one', { spec: { duration: '1h' } })
  assert.deepEqual(answer.body.spec, { additional: { b: '2' }, duration: '1h' })
})

test('applying empty maps and lists releases the former entries', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'one', { spec: { additional: { b: '2' } } })
  await applyThing(embedded, 'two', { spec: all })
  const answer = await applyThing(embedded, 'two', { spec: { additional: {}, usages: [], dnsNames: [], inner: {} } })
  assert.deepEqual(answer.body.spec, { additional: { b: '2' }, dnsNames: [], inner: {} })
  assert.deepEqual(ownersIn(answer), {
    one: { 'f:spec': { 'f:additional': { 'f:b': {} } } },
    two: { 'f:spec': { 'f:additional': {}, 'f:dnsNames': {}, 'f:inner': {} } },
  })
})

test('applying an empty object over one that held only the own fields is refused as null', async () => {
  const embedded = await withThings()
  await applyThing(embedded, 'one', { spec: { inner: { a: '1' }, duration: '1h' } })
  const { status: code, body } = await applyThing(embedded, 'one', { spec: { inner: {}, duration: '1h' } })
  assert.equal(code, 422)
  assert.deepEqual(body.details.causes, [
    {
      reason: 'FieldValueTypeInvalid',
      message: 'Invalid value: "null": spec.inner in body must be of type object: "null"',
      field: 'spec.inner',
    },
  ])
})

test('applying no conditions removes those of this manager; the last removal also removes the status', async () => {
  const embedded = await withThings()
  await embedded.send('POST', things, { apiVersion: 'example.com/v1', kind: 'Thing', metadata: { name: 'one' } })
  const conditionsOf = async (manager: string, ...types: readonly string[]): Promise<unknown> => {
    const conditions = types.map((type) => ({ type }))
    return (await applyThing(embedded, manager, { status: { conditions } }, '/one/status')).body.status
  }
  await conditionsOf('a', 'A')
  assert.deepEqual(await conditionsOf('b', 'B'), { conditions: [{ type: 'A' }, { type: 'B' }] })
  assert.deepEqual(await conditionsOf('b'), { conditions: [{ type: 'A' }] })
  assert.equal(await conditionsOf('a'), undefined)
})

test('ownership of nested maps includes both each map and its entries', async () => {
  const embedded = await withThings()
  const content = { deep: { x: { a: '1' }, y: {} }, free: { m: { n: { o: 1 } }, l: [{ a: 1 }] } }
  const applied = await applyThing(embedded, 'one', { spec: content })
  const free = { 'f:l': {}, 'f:m': { '.': {}, 'f:n': { '.': {}, 'f:o': {} } } }
  const deep = { 'f:x': { '.': {}, 'f:a': {} }, 'f:y': {} }
  assert.deepEqual(ownersIn(applied), { one: { 'f:spec': { 'f:deep': deep, 'f:free': free } } })
  const patch = { spec: { deep: { z: { a: '1' } } } }
  const patched = await embedded.send('PATCH', `${things}/one?fieldManager=two`, patch, mergePatch)
  assert.deepEqual(ownersIn(patched), {
    one: { 'f:spec': { 'f:deep': deep, 'f:free': free } },
    two: { 'f:spec': { 'f:deep': { 'f:z': { '.': {}, 'f:a': {} } } } },
  })
})

test('an owner reference is owned as a whole; a manager that owns nothing leaves managedFields', async () => {
  const embedded = await Embedded.started()
  const uid = '00000000-0000-0000-0000-00000000000a'
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid }]
  const first = await applyMap(embedded, 'one', { a: '1' }, { ownerReferences })
  const item = { [`k:{"uid":"${uid}"}`]: {} }
  assert.deepEqual(ownersIn(first), { one: { 'f:data': { 'f:a': {} }, 'f:metadata': { 'f:ownerReferences': item } } })
  await applyMap(embedded, 'two', { b: '1' })
  const nothing = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map' } }
  const { body } = await embedded.send('PATCH', `${map}?fieldManager=one`, nothing, applyPatch)
  assert.deepEqual(body.data, { b: '1' })
  assert.deepEqual(ownersIn({ status: 200, body }), { two: { 'f:data': { 'f:b': {} } } })
})

test('applying an empty map makes its manager the owner', async () => {
  const embedded = await Embedded.started()
  assert.deepEqual(ownersIn(await applyMap(embedded, 'one', {})), { one: { 'f:data': {} } })
})

test('the first apply to an object without managedFields assigns its fields to before-first-apply', async () => {
  const embedded = await Embedded.started()
  await applyMap(embedded, 'one', { a: '1' })
  await embedded.send('PATCH', map, { metadata: { managedFields: [{}] } }, mergePatch)
  assert.deepEqual(ownersIn(await applyMap(embedded, 'two', { b: '1' })), {
    'before-first-apply': { 'f:data': { '.': {}, 'f:a': {} } },
    two: { 'f:data': { 'f:b': {} } },
  })
})

test('merged list items follow the applied order; other items follow their predecessors', async () => {
  const embedded = await withThings()
  const list = (...names: readonly string[]): object => ({ spec: { list: names.map((name) => ({ name })) } })
  await applyThing(embedded, 'one', list('a', 'b', 'c', 'd'))
  const { body } = await applyThing(embedded, 'two', list('c', 'a', 'e'))
  assert.deepEqual(
    body.spec.list.map(({ name }: { name: string }) => name),
    ['b', 'c', 'd', 'a', 'e'],
  )
})

test('managedFields are sorted as upstream does: Apply entries first, then by time and name', async () => {
  const embedded = await Embedded.started()
  const update = (manager: string, data: object): Promise<Answer> =>
    embedded.send('PATCH', `${map}?fieldManager=${manager}`, { data }, mergePatch)
  await applyMap(embedded, 'two', { a: '1' })
  await update('d', { d: '1' })
  await applyMap(embedded, 'one', { b: '1' })
  await embedded.time.advance(1000)
  await update('a', { e: '1' })
  assert.deepEqual(Object.keys(ownersIn(await applyMap(embedded, 'one', { b: '2' }))), ['two', 'one', 'd', 'a'])
})

test('a conflict with several managers lists the paths of each manager', async () => {
  const embedded = await Embedded.started()
  await applyMap(embedded, 'one', { a: '1' })
  await applyMap(embedded, 'two', { b: '1', c: '1' })
  const { status: code, body } = await applyMap(embedded, 'three', { c: '2', b: '2', a: '2' })
  assert.equal(code, 409)
  const lists = 'conflicts with "one":\n- .data.a\nconflicts with "two":\n- .data.b\n- .data.c'
  assert.equal(body.message, `Apply failed with 3 conflicts: ${lists}`)
})

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/** A ConfigMap as `kubectl apply` leaves it, with `data.c` that it has not applied. */
async function withAppliedMap(last: (object: object) => string = JSON.stringify): Promise<Embedded> {
  const embedded = await Embedded.started()
  const annotations = { [lastApplied]: last({ apiVersion: 'v1', kind: 'ConfigMap', data: { a: '1', b: '2' } }) }
  const object = { kind: 'ConfigMap', metadata: { name: 'map', annotations }, data: { a: '1', b: '2', c: '3' } }
  await embedded.send('POST', '/api/v1/namespaces/default/configmaps?fieldManager=kubectl-client-side-apply', object)
  return embedded
}

test('kubectl takes over the fields of client-side kubectl apply; another manager gets a conflict', async () => {
  const embedded = await withAppliedMap()
  assert.equal((await applyMap(embedded, 'other', { a: '5' })).status, 409)
  const { status: code, body } = await applyMap(embedded, 'kubectl', { b: '<2>', a: '5' })
  assert.equal(code, 200)
  assert.deepEqual(body.data, { a: '5', b: '<2>', c: '3' })
  assert.equal(
    body.metadata.annotations[lastApplied],
    '{"apiVersion":"v1","data":{"a":"5","b":"\\u003c2\\u003e"},"kind":"ConfigMap","metadata":{"name":"map"}}\n',
  )
})

test('kubectl gets a conflict on fields that client-side apply did not set or that changed since', async () => {
  const embedded = await withAppliedMap()
  const other = await applyMap(embedded, 'kubectl', { a: '5', c: '4' })
  assert.deepEqual(
    other.body.details.causes.map(({ field }: { field: string }) => field),
    ['.data.c'],
  )
  await embedded.send('PATCH', map, { data: { a: '6' } }, mergePatch)
  assert.equal((await applyMap(embedded, 'kubectl', { a: '5' })).status, 409)
})

test('an invalid or missing last-applied annotation does not prevent a conflict', async () => {
  for (const last of [() => 'nonsense', () => '{"apiVersion":"v2","data":{"a":"1"}}', () => '']) {
    assert.equal((await applyMap(await withAppliedMap(last), 'kubectl', { a: '5' })).status, 409)
  }
})

test('a last-applied annotation that would be too large is removed', async () => {
  const embedded = await withAppliedMap()
  const { body } = await applyMap(embedded, 'kubectl', { large: 'x'.repeat(256 * 1024) })
  assert.equal(body.metadata.annotations?.[lastApplied], undefined)
})

test('apply refuses an undeclared field if the request sets any fieldValidation', async () => {
  const embedded = await Embedded.started()
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map' }, dta: {} }
  for (const level of ['Strict', 'Warn', 'Ignore']) {
    const query = `fieldManager=one&fieldValidation=${level}`
    const { status, body } = await embedded.send('PATCH', `${map}?${query}`, object, applyPatch)
    assert.equal(status, 500)
    assert.match(body.message, /; \/v1, Kind=ConfigMap\): \.dta: field not declared in schema$/)
  }
})

test('apply requires the name and namespace of the URL, and refuses a uid that does not match', async () => {
  const embedded = await Embedded.started()
  const uid = '00000000-0000-0000-0000-000000000000'
  const refusal = async (metadata: object): Promise<readonly unknown[]> => {
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata }
    const answer = await embedded.send('PATCH', `${map}?fieldManager=one`, object, applyPatch)
    return [answer.status, answer.body.message]
  }
  const other = [400, 'the name of the object (other) does not match the name on the URL (map)']
  const nameless = [400, 'the name of the object (map based on URL) was undeterminable: name must be provided']
  const elsewhere = [400, 'the namespace of the provided object does not match the namespace sent on the request']
  assert.deepEqual(await refusal({ name: 'other' }), other)
  assert.deepEqual(await refusal({}), nameless)
  assert.deepEqual(await refusal({ name: 'map', namespace: 'blue' }), elsewhere)
  const why = `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`
  const mismatch = `Operation cannot be fulfilled on configmaps "map": ${why}`
  assert.deepEqual(await refusal({ name: 'map', uid }), [409, mismatch])
  assert.deepEqual(await refusal({ name: 'map', resourceVersion: '1' }), [201, undefined])
  assert.deepEqual(await refusal({ name: 'other' }), other)
  assert.deepEqual(await refusal({ name: '' }), nameless)
  assert.deepEqual(await refusal({ name: 'map', namespace: 'blue' }), elsewhere)
  assert.deepEqual(await refusal({}), [200, undefined])
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map', uid } }
  const { status: code, body } = await embedded.send('PATCH', `${map}?fieldManager=one`, object, applyPatch)
  const cause = { reason: 'FieldValueInvalid', field: 'metadata.uid' }
  const message = `Invalid value: "${uid}": field is immutable`
  assert.deepEqual(
    [code, body.details.causes],
    [
      422,
      [
        { ...cause, message },
        { ...cause, message },
      ],
    ],
  )
})

/** How many results `Object.keys` and `Object.entries` have while one manager applies as many keys as others own. */
async function workOfApply(owners: number, t: TestContext): Promise<number> {
  const embedded = await Embedded.started()
  const numbers = Array.from({ length: owners }, (_, number) => number)
  for (const number of numbers) await applyMap(embedded, `manager-${number}`, { [`key-${number}`]: '1' })
  let work = 0
  const mocks = (['keys', 'entries'] as const).map((name) => {
    const original = Object[name] as (value: object) => unknown[]
    return t.mock.method(Object, name, (value: object) => {
      const result = original(value)
      work += result.length
      return result
    })
  })
  const added = Object.fromEntries(numbers.map((number) => [`new-${number}`, '1']))
  const { status } = await applyMap(embedded, 'last', added)
  for (const { mock } of mocks) mock.restore()
  assert.equal(status, 200)
  return work
}

test('the work of an apply grows with the number of owners, not with its square', async (t) => {
  const [few, many] = [await workOfApply(50, t), await workOfApply(200, t)]
  assert.ok(many < 5 * few, `${few} results for 50 owners, ${many} for 200`)
})
