import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startApiServer } from '../../../src/apiserver/http-start.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { drain, Embedded } from '../embedded.ts'

// Compared with kube-apiserver: test/conformance/scenarios/custom-resources.ts.

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const widgets = '/apis/example.com/v1/namespaces/default/widgets'
const typed = { apiVersion: 'example.com/v1', kind: 'Widget' }
const mergePatch = 'application/merge-patch+json'

interface Version {
  readonly name?: string
  readonly storage?: boolean
  readonly served?: boolean
  readonly spec?: object
  readonly more?: object
}

function version({ name = 'v1', storage = true, served = true, spec = {}, more = {} }: Version = {}): object {
  const properties = { spec: { type: 'object', properties: spec } }
  return { name, storage, served, schema: { openAPIV3Schema: { type: 'object', properties } }, ...more }
}

function definition(versions: readonly object[] = [version()], more: object = {}): object {
  const names = { plural: 'widgets', kind: 'Widget' }
  const spec = { group: 'example.com', scope: 'Namespaced', names, versions, ...more }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'widgets.example.com' },
    spec,
  }
}

async function defined(...versions: readonly object[]): Promise<Embedded> {
  const embedded = await Embedded.started()
  const { status } = await embedded.send('POST', definitions, definition(versions))
  assert.equal(status, 201)
  return embedded
}

test('a CustomResourceDefinition is served at once; deleting it ends that and deletes its objects', async () => {
  const embedded = await Embedded.started()
  assert.equal((await embedded.send('GET', widgets)).status, 404)
  await embedded.send('POST', definitions, definition())
  await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' } })
  assert.equal((await embedded.send('GET', `${widgets}/one`)).body.kind, 'Widget')
  await embedded.send('DELETE', `${definitions}/widgets.example.com`)
  assert.equal((await embedded.send('GET', widgets)).status, 404)
  await embedded.time.advance(1)
  await embedded.send('POST', definitions, definition())
  assert.deepEqual((await embedded.send('GET', widgets)).body.items, [])
})

test('a custom resource loses unknown fields and receives defaults, also on update', async () => {
  const item = { type: 'object', properties: { count: { type: 'integer', default: 1 } } }
  const embedded = await defined(
    version({
      spec: {
        size: { type: 'integer', default: 3 },
        nested: { type: 'object', default: {}, properties: { on: { type: 'boolean', default: true } } },
        list: { type: 'array', items: item },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      },
    }),
  )
  const spec = { other: 1, list: [{}, { count: 2, more: 3 }], free: { any: { thing: [null, 1] } } }
  const { body } = await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' }, spec, extra: 1 })
  const expected = {
    list: [{ count: 1 }, { count: 2 }],
    free: { any: { thing: [null, 1] } },
    size: 3,
    nested: { on: true },
  }
  assert.deepEqual(body.spec, expected)
  assert.equal(body.extra, undefined)
  assert.equal(body.metadata.generation, 1)
  const { body: patched } = await embedded.send(
    'PATCH',
    `${widgets}/one`,
    { spec: { size: null, free: null } },
    mergePatch,
  )
  assert.equal(patched.spec.size, 3)
  assert.equal(patched.metadata.generation, 2)
})

test('a custom resource is served in each version and stored once', async () => {
  const embedded = await defined(
    version({ name: 'v1beta1', storage: false }),
    version(),
    version({ name: 'v2', storage: false, served: false }),
  )
  const older = widgets.replace('/v1/', '/v1beta1/')
  await embedded.send('POST', older, { apiVersion: 'example.com/v1beta1', kind: 'Widget', metadata: { name: 'one' } })
  assert.equal((await embedded.send('GET', `${widgets}/one`)).body.apiVersion, 'example.com/v1')
  assert.equal((await embedded.send('GET', older)).body.items[0].apiVersion, 'example.com/v1beta1')
  assert.equal((await embedded.send('GET', widgets.replace('/v1/', '/v2/'))).status, 404)
  const { body: group } = await embedded.send('GET', '/apis/example.com')
  assert.equal(group.preferredVersion.version, 'v1')
  assert.deepEqual(
    group.versions.map((served: { version: string }) => served.version),
    ['v1', 'v1beta1'],
  )
  await embedded.send('DELETE', `${widgets}/one`)
  assert.equal((await embedded.send('GET', `${older}/one`)).status, 404)
})

test('Table columns and selectable fields follow the CustomResourceDefinition', async () => {
  const more = {
    additionalPrinterColumns: [
      { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
      { name: 'Since', type: 'date', jsonPath: '.metadata.creationTimestamp', priority: 1 },
    ],
    selectableFields: [{ jsonPath: '.spec.color' }],
  }
  const embedded = await defined(version({ spec: { size: { type: 'integer' }, color: { type: 'string' } }, more }))
  await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' }, spec: { size: 2, color: 'red' } })
  await embedded.send('POST', widgets, { ...typed, metadata: { name: 'two' } })
  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
  const request = { method: 'GET', path: widgets as `/${string}`, query: [], headers: { accept } } as const
  const answer = await embedded.server.handle(request, new AbortController().signal)
  const table =
    'body' in answer ? (answer.body as { columnDefinitions: object[]; rows: { cells: unknown[] }[] }) : undefined
  assert.deepEqual(
    table?.rows.map(({ cells }) => cells),
    [
      ['one', 2, '0s'],
      ['two', null, '0s'],
    ],
  )
  const selected = async (field: string): Promise<number> =>
    (await embedded.send('GET', `${widgets}?fieldSelector=${encodeURIComponent(field)}`)).body.items.length
  assert.equal(await selected('spec.color=red'), 1)
  assert.equal(await selected('spec.color!=red'), 1)
})

test('discovery lists a custom resource with the names of its CustomResourceDefinition', async () => {
  const embedded = await Embedded.started()
  const names = { plural: 'widgets', kind: 'Widget', shortNames: ['wd', 'wdg'], categories: ['all'] }
  await embedded.send('POST', definitions, definition([version()], { names }))
  const { body } = await embedded.send('GET', '/apis/example.com/v1')
  const [{ verbs, storageVersionHash, ...listed }, ...more] = body.resources
  assert.ok(verbs.includes('watch') && more.length === 0)
  assert.deepEqual(listed, {
    name: 'widgets',
    singularName: 'widget',
    namespaced: true,
    kind: 'Widget',
    shortNames: ['wd', 'wdg'],
    categories: ['all'],
  })
})

test('with a status subresource only it can write the status; without one its path returns 404', async () => {
  const embedded = await defined(version({ more: { subresources: { status: {} } } }))
  const { body: created } = await embedded.send('POST', widgets, {
    ...typed,
    metadata: { name: 'one' },
    status: { a: 1 },
  })
  assert.equal(created.status, undefined)
  const without = await defined(version())
  assert.equal((await without.send('POST', widgets, { ...typed, metadata: { name: 'one' } })).status, 201)
  assert.equal((await without.send('GET', `${widgets}/one/status`)).status, 404)
})

for (const [type, code] of [
  ['map', 500],
  ['atomic', 201],
] as const) {
  test(`applying items without keys to a list of type ${type} returns ${code}`, async () => {
    const list = { type: 'array', 'x-kubernetes-list-type': type, 'x-kubernetes-list-map-keys': ['name'] }
    const embedded = await defined(version({ spec: { parts: { ...list, items: { type: 'object' } } } }))
    const parts = [{ count: 1 }, { count: 1 }]
    const body = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'one' }, spec: { parts } }
    const path = `${widgets}/one?fieldManager=one`
    const answer = await embedded.send('PATCH', path, body, 'application/apply-patch+yaml')
    assert.equal(answer.status, code)
    if (code === 500) assert.match(answer.body.message, /element 0: .* omits all key fields \["name"\] \(and/)
    else assert.deepEqual(answer.body.metadata.managedFields[0].fieldsV1, { 'f:spec': { 'f:parts': {} } })
  })
}

test('of two CustomResourceDefinitions with one kind, the second is served only after the first is deleted', async () => {
  const embedded = await defined(version())
  const other = definition([version()], { names: { plural: 'gadgets', kind: 'Widget' } })
  await embedded.send('POST', definitions, { ...other, metadata: { name: 'gadgets.example.com' } })
  const gadgets = widgets.replace('widgets', 'gadgets')
  await embedded.send(
    'PATCH',
    `${definitions}/gadgets.example.com`,
    { spec: { names: { shortNames: ['gd'] } } },
    mergePatch,
  )
  assert.equal((await embedded.send('GET', gadgets)).status, 404)
  await embedded.send('DELETE', `${definitions}/widgets.example.com`)
  assert.equal((await embedded.send('GET', gadgets)).status, 200)
  assert.equal((await embedded.send('GET', widgets)).status, 404)
  const watch = await embedded.watch('', undefined, gadgets)
  await embedded.send('POST', definitions, definition())
  assert.equal((await embedded.send('GET', widgets)).status, 404)
  await embedded.send('POST', gadgets, { ...typed, metadata: { name: 'one' } })
  assert.equal((await watch.next()).value.object.metadata.name, 'one')
  await watch.return?.()
})

test('deleting a CustomResourceDefinition that shadows a built-in kind preserves the built-in objects', async () => {
  const embedded = await Embedded.started()
  const names = { plural: 'leases', kind: 'Lease' }
  const mine = definition([version()], { group: 'coordination.k8s.io', names })
  await embedded.send('POST', definitions, { ...mine, metadata: { name: 'leases.coordination.k8s.io' } })
  const path = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
  await embedded.send('POST', path, { metadata: { name: 'a' } })
  await embedded.send('DELETE', `${definitions}/leases.coordination.k8s.io`)
  await embedded.time.advance(1)
  assert.equal((await embedded.send('GET', `${path}/a`)).status, 200)
})

test('the scale subresource reads and writes the replicas of a custom resource', async () => {
  const scale = {
    specReplicasPath: '.spec.replicas',
    statusReplicasPath: '.status.seen.replicas',
    labelSelectorPath: '.spec.selector',
  }
  const spec = { replicas: { type: 'integer' }, selector: { type: 'string' } }
  const embedded = await defined(version({ spec, more: { subresources: { scale } } }))
  await embedded.send('POST', widgets, {
    ...typed,
    metadata: { name: 'one' },
    spec: { replicas: 1, selector: 'app=web' },
  })
  const path = `${widgets}/one/scale`
  const { body: first } = await embedded.send('GET', path)
  assert.deepEqual([first.kind, first.apiVersion], ['Scale', 'autoscaling/v1'])
  assert.deepEqual([first.spec, first.status], [{ replicas: 1 }, { replicas: 0, selector: 'app=web' }])
  const { body: written } = await embedded.send('PUT', path, { ...first, spec: { replicas: 3 } })
  assert.equal(written.spec.replicas, 3)
  assert.equal((await embedded.send('PUT', path, { ...first, spec: { replicas: 4 } })).status, 409)
  const { body: patched } = await embedded.send('PATCH', path, { spec: { replicas: 5 } }, mergePatch)
  assert.equal(patched.spec.replicas, 5)
  const { body: one } = await embedded.send('GET', `${widgets}/one`)
  assert.deepEqual([one.spec.replicas, one.metadata.generation], [5, 3])
  const owner = one.metadata.managedFields.find(({ subresource }: { subresource?: string }) => subresource === 'scale')
  assert.deepEqual(owner.fieldsV1, { 'f:spec': { 'f:replicas': {} } })
  const { body: resources } = await embedded.send('GET', '/apis/example.com/v1')
  assert.deepEqual(resources.resources.at(-1), {
    name: 'widgets/scale',
    singularName: '',
    namespaced: true,
    group: 'autoscaling',
    version: 'v1',
    kind: 'Scale',
    verbs: ['get', 'patch', 'update'],
  })
})

test('a PUT of a Scale requires the name of the object and no other uid', async () => {
  const scale = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' }
  const spec = { replicas: { type: 'integer' } }
  const embedded = await defined(version({ spec, more: { subresources: { scale } } }))
  await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' }, spec: { replicas: 1 } })
  const put = async (metadata: object): Promise<string> => {
    const body = { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata, spec: { replicas: 2 } }
    const answer = await embedded.send('PUT', `${widgets}/one/scale`, body)
    return `${answer.status} ${answer.body.message ?? answer.body.spec.replicas}`
  }
  assert.match(await put({}), /^400 .* name must be provided$/)
  assert.match(await put({ name: 'one', uid: 'another' }), /^409 .*Precondition failed: UID in precondition: another/)
  assert.equal(await put({ name: 'one' }), '200 2')
})

test('a Scale with missing, mistyped or too many replicas is refused', async () => {
  const scale = { specReplicasPath: '.spec.inner.replicas', statusReplicasPath: '.status.replicas' }
  const inner = { 'x-kubernetes-preserve-unknown-fields': true }
  const embedded = await defined(version({ spec: { inner }, more: { subresources: { scale } } }))
  const refusal = async (name: string, spec: object, method: 'GET' | 'PATCH', body?: object): Promise<string> => {
    await embedded.send('POST', widgets, { ...typed, metadata: { name }, spec })
    const answer = await embedded.send(method, `${widgets}/${name}/scale`, body, mergePatch)
    return `${answer.status} ${answer.body.message}`
  }
  assert.match(await refusal('a', {}, 'GET'), /^500 .* field ".spec.inner.replicas" does not exist$/)
  assert.match(await refusal('b', {}, 'PATCH', {}), /^400 .* field ".spec.inner.replicas" cannot be empty$/)
  assert.match(
    await refusal('c', { inner: { replicas: 'x' } }, 'GET'),
    /^500 .spec.inner.replicas accessor error: x is of the type string, expected int64$/,
  )
  assert.match(
    await refusal('d', { inner: 5 }, 'PATCH', { spec: { replicas: 1 } }),
    /^500 .spec.inner accessor error: 5 is of the type int64, expected map\[string\]interface{}$/,
  )
  assert.match(await refusal('e', {}, 'PATCH', { spec: { replicas: 2 ** 31 } }), /^400 .* of type int32$/)
  const { body } = await embedded.send('PATCH', `${widgets}/a/scale`, { spec: { replicas: 2 } }, mergePatch)
  assert.equal(body.spec.replicas, 2)
})

test('deleting a Namespace deletes its custom resources', async () => {
  const embedded = await defined(version())
  await embedded.send('POST', '/api/v1/namespaces', { metadata: { name: 'blue' } })
  const path = widgets.replace('default', 'blue')
  await embedded.send('POST', path, { ...typed, metadata: { name: 'one' } })
  await embedded.send('DELETE', '/api/v1/namespaces/blue')
  await embedded.time.advance(10)
  assert.deepEqual((await embedded.send('GET', path)).body.items, [])
  assert.equal((await embedded.send('GET', '/api/v1/namespaces/blue')).status, 404)
})

test('a CustomResourceDefinition does not replace a built-in kind', async () => {
  const embedded = await Embedded.started()
  const names = { plural: 'leases', kind: 'Lease' }
  const mine = definition([version()], { group: 'coordination.k8s.io', names })
  await embedded.send('POST', definitions, { ...mine, metadata: { name: 'leases.coordination.k8s.io' } })
  const path = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
  const { status } = await embedded.send('POST', path, { metadata: { name: 'a' }, spec: { leaseDurationSeconds: 0 } })
  assert.equal(status, 422)
})

for (const [what, versions] of [
  ['a schema whose parts have wrong types', [version({ more: { schema: { openAPIV3Schema: { properties: 'x' } } } })]],
  ['a number as the keys of a list', [version({ spec: { a: { type: 'array', 'x-kubernetes-list-map-keys': 5 } } })]],
] as const) {
  test(`a CustomResourceDefinition with ${what} is accepted, and its objects can be created and listed`, async () => {
    const embedded = await defined(...versions)
    const spec = { a: [{ b: 1 }] }
    assert.equal((await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' }, spec })).status, 201)
    assert.equal((await embedded.send('GET', widgets)).status, 200)
  })
}

test('CustomResourceDefinitions given at the start are served, and the log names what is not enforced', async (t) => {
  const logger = memoryLogger()
  const objects = [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } },
    { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'one', namespace: 'default' } },
  ]
  const server = await startApiServer({ crds: [definition()], objects, logger })
  t.after(() => server.close())
  assert.equal(logger.lines.filter(({ message }) => /CEL rules .* not enforced/.test(message)).length, 1)
})

test('a CustomResourceDefinition with invalid names, paths or types is refused', async () => {
  const embedded = await Embedded.started()
  const wrong: readonly (readonly [object, RegExp])[] = [
    [definition([version({ name: 'v%zz' })]), /spec.versions\[0\].name: Invalid value/],
    [definition([version(), version({ storage: false })]), /must contain unique version names/],
    [definition([version()], { names: { plural: 'widgets', kind: 'Wid get' } }), /spec.names.kind: Invalid value/],
    [definition([version()], { names: { plural: 'widgets', kind: 'Widget', singular: 'a/b' } }), /spec.names.singular/],
    [
      definition([version({ more: { additionalPrinterColumns: [{ name: 'A', type: 'text' }] } })]),
      /additionalPrinterColumns\[0\].type: Unsupported value.*\[0\].jsonPath: Required value/,
    ],
    [definition([version({ more: { subresources: { scale: {} } } })]), /scale.specReplicasPath: Required value/],
    [
      definition([
        version({ more: { subresources: { scale: { specReplicasPath: '.x', statusReplicasPath: 'status.x' } } } }),
      ]),
      /specReplicasPath.*".x": should be a json path under .spec.*statusReplicasPath.*must be a simple json path/,
    ],
    [definition([version({ more: { selectableFields: [{ jsonPath: 'x' }] } })]), /selectableFields\[0\].jsonPath/],
  ]
  for (const [body, message] of wrong) {
    const answer = await embedded.send('POST', definitions, body)
    assert.equal(answer.status, 422, String(message))
    assert.match(answer.body.message, message)
  }
  const malformed = [
    definition([version(), null as unknown as object]),
    definition([version()], { group: 5 }),
    definition([version()], { names: { plural: 'widgets', kind: {} } }),
    definition([version({ more: { additionalPrinterColumns: { a: 1 } } })]),
    definition([version({ more: { additionalPrinterColumns: [{ jsonPath: 1 }] } })]),
  ]
  for (const body of malformed) assert.equal((await embedded.send('POST', definitions, body)).status, 400)
  assert.equal((await embedded.send('GET', '/openapi/v3')).status, 200)
})

test('scope and kind of a CustomResourceDefinition are immutable', async () => {
  const embedded = await defined(version())
  for (const change of [{ scope: 'Cluster' }, { names: { kind: 'Gadget' } }]) {
    const answer = await embedded.send('PATCH', `${definitions}/widgets.example.com`, { spec: change }, mergePatch)
    assert.equal(answer.status, 422)
    assert.match(answer.body.message, /field is immutable/)
  }
})

test('objects of a removed version are served in the remaining version', async () => {
  const embedded = await defined(version(), version({ name: 'v2', storage: false }))
  await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' } })
  const path = `${definitions}/widgets.example.com`
  const turned = { spec: { versions: [version({ storage: false }), version({ name: 'v2' })] } }
  const { body } = await embedded.send('PATCH', path, turned, mergePatch)
  assert.deepEqual(body.status.storedVersions, ['v1', 'v2'])
  const reduced = { spec: { versions: [version({ name: 'v2' })] } }
  const early = await embedded.send('PATCH', path, reduced, mergePatch)
  assert.equal(early.status, 422)
  assert.match(
    early.body.message,
    /status.storedVersions\[0\]: Invalid value: "v1": missing from spec.versions; v1 was/,
  )
  const migrated = { status: { storedVersions: ['v2'] } }
  const { status } = (await embedded.send('PATCH', `${path}/status`, migrated, mergePatch)).body
  assert.deepEqual([status.storedVersions, status.conditions.length], [['v2'], 2])
  assert.equal((await embedded.send('PATCH', path, reduced, mergePatch)).status, 200)
  const newer = widgets.replace('/v1/', '/v2/')
  assert.equal((await embedded.send('GET', `${newer}/one`)).body.apiVersion, 'example.com/v2')
  const change = { metadata: { labels: { a: 'b' } } }
  assert.equal((await embedded.send('PATCH', `${newer}/one`, change, mergePatch)).status, 200)
  assert.equal((await embedded.send('GET', `${widgets}/one`)).status, 404)
})

test('replacing a CustomResourceDefinition requires its resourceVersion', async () => {
  const embedded = await defined(version())
  const answer = await embedded.send('PUT', `${definitions}/widgets.example.com`, definition())
  assert.equal(answer.status, 422)
  assert.match(answer.body.message, /metadata.resourceVersion: Invalid value: 0: must be specified for an update/)
})

test('changing or deleting a CustomResourceDefinition ends its watches; changing only its labels does not', async () => {
  const embedded = await defined(version())
  const path = `${definitions}/widgets.example.com`
  const first = await embedded.watch('', undefined, widgets)
  await embedded.send('PATCH', path, { metadata: { labels: { a: 'b' } } }, mergePatch)
  await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' } })
  assert.equal((await first.next()).value.object.metadata.name, 'one')
  await embedded.send('PATCH', path, { spec: { names: { shortNames: ['wd'] } } }, mergePatch)
  assert.equal((await first.next()).done, true)
  const second = await embedded.watch('', undefined, widgets)
  await embedded.send('DELETE', path)
  assert.deepEqual(await drain(second), ['ADDED one', 'END'])
})

test('of two CustomResourceDefinitions with the same kind only the first is served', async () => {
  const embedded = await defined(version())
  const other = definition([version()], { names: { plural: 'gadgets', kind: 'Widget' } })
  await embedded.send('POST', definitions, { ...other, metadata: { name: 'gadgets.example.com' } })
  assert.equal((await embedded.send('GET', widgets)).status, 200)
  assert.equal((await embedded.send('GET', widgets.replace('widgets', 'gadgets'))).status, 404)
})

test('the body of a custom resource must state its apiVersion and kind, and a PUT creates none', async () => {
  const embedded = await defined(version())
  const metadata = { name: 'one' }
  const refusal = async (method: 'POST' | 'PUT' | 'PATCH', body: object): Promise<string> => {
    const path = method === 'POST' ? widgets : `${widgets}/one`
    const answer = await embedded.send(method, path, body, method === 'PATCH' ? mergePatch : 'application/json')
    return `${answer.status} ${answer.body.message}`
  }
  const missing = "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in"
  const untyped = '{"metadata":{"name":"one"}}'
  assert.equal(await refusal('POST', { metadata }), `400 ${missing} '${untyped}' (${untyped})`)
  const long = '{"apiVersion":"example.com/v1","metadata":{"name":"one"}}'
  const summary = '{"apiVersion":"example.com/v1" ...'
  assert.equal(await refusal('PUT', { ...typed, kind: undefined, metadata }), `400 ${missing} '${long}' (${summary})`)
  for (const apiVersion of ['', 'example.com/v2']) {
    const why = `the API version in the data (${apiVersion}) does not match the expected API version (example.com/v1)`
    assert.equal(await refusal('POST', { ...typed, apiVersion, metadata }), `400 ${why}`)
  }
  const wrong = '422 Gadget.example.com "one" is invalid: kind: Invalid value: "Gadget": must be Widget'
  assert.equal(await refusal('POST', { ...typed, kind: 'Gadget', metadata }), wrong)
  assert.equal(await refusal('PUT', { ...typed, metadata }), '404 widgets.example.com "one" not found')
  await embedded.send('POST', widgets, { ...typed, metadata })
  assert.equal(await refusal('PATCH', { kind: 'Gadget' }), wrong)
  assert.match(await refusal('PATCH', { kind: null }), /^422 {2}"" is invalid: patch: .* Object 'Kind' is missing in/)
  assert.match(
    await refusal('PATCH', { apiVersion: 'v2' }),
    /^422 Widget "one" is .*: apiVersion: .*"v2": must be example\.com\/v1$/,
  )
})

test('null is stored in free and nullable fields; elsewhere it is dropped or replaced with the default', async () => {
  const free = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const labels = { type: 'object', additionalProperties: { type: 'string' } }
  const spec = {
    free,
    labels,
    typed: { type: 'string' },
    absent: { type: 'string', nullable: true },
    size: { type: 'integer', default: 3 },
    list: { type: 'array', items: free },
  }
  const embedded = await defined(version({ spec }))
  const given = {
    free: { a: null, b: { c: null, d: [null] } },
    labels: { a: null, b: 'c' },
    typed: null,
    absent: null,
    size: null,
    list: [{ a: null }],
  }
  const { body } = await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' }, spec: given })
  assert.deepEqual(body.spec, { free: given.free, labels: { b: 'c' }, absent: null, list: given.list, size: 3 })
  const operations = [{ op: 'add', path: '/spec/free/e', value: null }]
  const patched = await embedded.send('PATCH', `${widgets}/one`, operations, 'application/json-patch+json')
  assert.deepEqual(patched.body.spec.free, { ...given.free, e: null })
})

test('negative replicas and replicas over 2147483647 are refused', async () => {
  const scale = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' }
  const spec = { replicas: { type: 'integer' } }
  const embedded = await defined(version({ spec, more: { subresources: { scale } } }))
  await embedded.send('POST', widgets, { ...typed, metadata: { name: 'one' }, spec: { replicas: 1 } })
  const path = `${widgets}/one/scale`
  const { status, body } = await embedded.send('PATCH', path, { spec: { replicas: -1 } }, mergePatch)
  const why = '.spec.replicas: Invalid value: -1: should be a non-negative integer'
  assert.equal(`${status} ${body.message}`, `422 Widget.example.com "one" is invalid: ${why}`)
  const large = { ...typed, metadata: { name: 'two' }, spec: { replicas: 2 ** 31 } }
  assert.match(
    (await embedded.send('POST', widgets, large)).body.message,
    /should be less than or equal to 2147483647$/,
  )
})

test('unknown metadata fields of a custom resource are dropped, or refused if Strict', async () => {
  const embedded = await defined(version())
  const thing = { ...typed, metadata: { name: 'one', label: { a: '1' } } }
  assert.equal((await embedded.send('POST', widgets, thing)).body.metadata.label, undefined)
  const strict = new Embedded({ fieldValidation: 'Warn' })
  await strict.send('POST', '/api/v1/namespaces', { metadata: { name: 'default' } })
  await strict.send('POST', definitions, definition())
  const { status, body } = await strict.send('POST', `${widgets}?fieldValidation=Strict`, thing)
  assert.equal(status, 400)
  assert.match(body.message, /strict decoding error: unknown field "metadata\.label"$/)
})

test('x-kubernetes-preserve-unknown-fields preserves unknown fields, but not those of the metadata', async () => {
  const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const embedded = await defined({ ...version(), schema: { openAPIV3Schema } })
  const thing = { ...typed, metadata: { name: 'one', label: { a: '1' } }, own: { label: [1] } }
  const { body } = await embedded.send('POST', widgets, thing)
  assert.deepEqual([body.metadata.name, body.metadata.label, body.own], ['one', undefined, { label: [1] }])
})

test('a finalizer of a custom resource needs no domain', async () => {
  const embedded = await defined(version())
  const create = (finalizer: string) =>
    embedded.send('POST', widgets, { ...typed, metadata: { name: 'one', finalizers: [finalizer] } })
  assert.equal((await create('no finalizer')).status, 422)
  assert.equal((await create('cleanup')).status, 201)
})
