import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from './embedded.ts'

async function withNamespace(name: string): Promise<Embedded> {
  const embedded = await Embedded.started()
  await embedded.send('POST', '/api/v1/namespaces', { metadata: { name } })
  return embedded
}

test('deleting a Namespace deletes its objects and then the Namespace itself', async () => {
  const embedded = await withNamespace('gone')
  await embedded.send('POST', '/api/v1/namespaces/gone/services', {
    metadata: { name: 's' },
    spec: { ports: [{ port: 1 }] },
  })
  await embedded.send('POST', '/apis/coordination.k8s.io/v1/namespaces/gone/leases', { metadata: { name: 'l' } })
  const { status, body } = await embedded.send('DELETE', '/api/v1/namespaces/gone')
  assert.equal(status, 200)
  assert.equal(body.status.phase, 'Terminating')
  assert.equal(body.metadata.deletionGracePeriodSeconds, undefined)
  await embedded.time.advance(1)
  assert.equal((await embedded.send('GET', '/api/v1/namespaces/gone')).status, 404)
  for (const list of [
    '/api/v1/services',
    '/apis/coordination.k8s.io/v1/leases',
    '/apis/networking.k8s.io/v1/ipaddresses',
  ]) {
    assert.deepEqual((await embedded.send('GET', list)).body.items, [], list)
  }
})

for (const propagationPolicy of ['Foreground', 'Orphan']) {
  test(`a Namespace is deleted together with an object already in deletion with policy ${propagationPolicy}`, async () => {
    const embedded = await withNamespace('gone')
    const maps = '/api/v1/namespaces/gone/configmaps'
    await embedded.send('POST', maps, { metadata: { name: 'a' } })
    await embedded.send('DELETE', `${maps}/a`, { propagationPolicy })
    assert.equal((await embedded.send('GET', `${maps}/a`)).status, 200)
    await embedded.send('DELETE', '/api/v1/namespaces/gone')
    await embedded.time.advance(1)
    assert.equal((await embedded.send('GET', '/api/v1/namespaces/gone')).status, 404)
  })
}

test('a second deletion of a Namespace does not change the propagation policy of the first', async () => {
  const embedded = await withNamespace('left')
  const path = '/api/v1/namespaces/left'
  await embedded.send('POST', `${path}/configmaps`, { metadata: { name: 'a', finalizers: ['example.com/f'] } })
  const first = await embedded.send('DELETE', path, { propagationPolicy: 'Foreground' })
  assert.deepEqual(first.body.metadata.finalizers, ['foregroundDeletion'])
  for (const propagationPolicy of ['Orphan', 'Background']) {
    assert.deepEqual((await embedded.send('DELETE', path, { propagationPolicy })).body, first.body)
  }
})

for (const propagationPolicy of ['Foreground', 'Orphan']) {
  test(`deleting a Namespace with propagationPolicy ${propagationPolicy} completes`, async () => {
    const embedded = await withNamespace('gone')
    await embedded.send('POST', '/api/v1/namespaces/gone/configmaps', { metadata: { name: 'held' } })
    await embedded.send('DELETE', '/api/v1/namespaces/gone', { propagationPolicy })
    await embedded.time.advance(0)
    assert.equal((await embedded.send('GET', '/api/v1/namespaces/gone')).status, 404)
  })
}

test('deleting a Namespace leaves objects in a Namespace whose name begins with its name', async () => {
  const embedded = await withNamespace('go')
  await embedded.send('POST', '/api/v1/namespaces', { metadata: { name: 'go-on' } })
  await embedded.send('POST', '/api/v1/namespaces/go-on/endpoints', { metadata: { name: 'a' } })
  await embedded.send('DELETE', '/api/v1/namespaces/go')
  await embedded.time.advance(1)
  assert.equal((await embedded.send('GET', '/api/v1/namespaces/go-on/endpoints/a')).status, 200)
})

test('an object with a finalizer blocks the deletion of its Namespace, which accepts no new objects meanwhile', async () => {
  const embedded = await withNamespace('held')
  const path = '/api/v1/namespaces/held/endpoints'
  await embedded.send('POST', path, { metadata: { name: 'a', finalizers: ['example.com/hold'] } })
  await embedded.send('DELETE', '/api/v1/namespaces/held')
  await embedded.time.advance(60_000)
  assert.equal((await embedded.send('GET', '/api/v1/namespaces/held')).body.status.phase, 'Terminating')
  assert.equal((await embedded.send('POST', path, { metadata: { name: 'b' } })).status, 403)
  await embedded.send('PATCH', `${path}/a`, { metadata: { finalizers: null } }, 'application/merge-patch+json')
  await embedded.time.advance(1)
  assert.equal((await embedded.send('GET', '/api/v1/namespaces/held')).status, 404)
})

test('a Namespace can be created again after its deletion completes', async () => {
  const embedded = await withNamespace('again')
  await embedded.send('DELETE', '/api/v1/namespaces/again')
  assert.equal((await embedded.send('POST', '/api/v1/namespaces', { metadata: { name: 'again' } })).status, 409)
  await embedded.time.advance(1)
  assert.equal((await embedded.send('POST', '/api/v1/namespaces', { metadata: { name: 'again' } })).status, 201)
})

test('the DELETED event shows the object as it was before the update that removed its last finalizer', async () => {
  const embedded = await Embedded.started()
  const path = '/api/v1/namespaces/default/configmaps'
  await embedded.send('POST', path, { metadata: { name: 'one', finalizers: ['a/b'] }, data: { a: '1' } })
  await embedded.send('DELETE', `${path}/one`)
  const events = await embedded.watch('', undefined, path)
  await events.next()
  const change = { metadata: { finalizers: null }, data: { a: '2' } }
  const { body } = await embedded.send('PATCH', `${path}/one`, change, 'application/merge-patch+json')
  assert.deepEqual([body.metadata.finalizers, body.data], [undefined, { a: '2' }])
  const { type, object } = (await events.next()).value
  assert.deepEqual([type, object.metadata.finalizers, object.data], ['DELETED', ['a/b'], { a: '1' }])
})

test('a PUT without generateName removes it', async () => {
  const embedded = await Embedded.started()
  const maps = '/api/v1/namespaces/default/configmaps'
  await embedded.send('POST', maps, { metadata: { name: 'a', generateName: 'a-' } })
  const patched = await embedded.send('PATCH', `${maps}/a`, { data: { a: '1' } }, 'application/merge-patch+json')
  assert.equal(patched.body.metadata.generateName, 'a-')
  assert.equal(
    (await embedded.send('PUT', `${maps}/a`, { metadata: { name: 'a' } })).body.metadata.generateName,
    undefined,
  )
})

test('a new propagation policy replaces the earlier one, even while the object is being deleted', async () => {
  const embedded = await withNamespace('default')
  const path = '/api/v1/namespaces/default/configmaps'
  const finalizers = async (propagationPolicy: string): Promise<unknown> =>
    (await embedded.send('DELETE', `${path}/map`, { propagationPolicy })).body.metadata.finalizers
  await embedded.send('POST', path, { metadata: { name: 'map', finalizers: ['example.com/mine', 'orphan'] } })
  assert.deepEqual(await finalizers('Foreground'), ['example.com/mine', 'foregroundDeletion'])
  assert.deepEqual(await finalizers('Orphan'), ['example.com/mine', 'orphan'])
  assert.deepEqual(await finalizers('Background'), ['example.com/mine'])

  await embedded.send('POST', path, { metadata: { name: 'waits' } })
  await embedded.send('DELETE', `${path}/waits`, { propagationPolicy: 'Foreground' })
  await embedded.send('DELETE', `${path}/waits`, { propagationPolicy: 'Background' })
  assert.equal((await embedded.send('GET', `${path}/waits`)).status, 404)
})

test('only a shorter requested grace period shortens a running one, counted from its start', async () => {
  const embedded = await withNamespace('default')
  const path = '/api/v1/namespaces/default/pods'
  const containers = [{ name: 'main', image: 'registry.example/main:1' }]
  await embedded.send('POST', path, { metadata: { name: 'p' }, spec: { nodeName: 'n', containers } })
  const marked = async (body?: object): Promise<readonly [unknown, number]> => {
    const { metadata } = (await embedded.send('DELETE', `${path}/p`, body)).body
    return [metadata.deletionGracePeriodSeconds, Date.parse(metadata.deletionTimestamp)]
  }
  const [, at] = await marked({ gracePeriodSeconds: 60 })
  await embedded.time.advance(5000)
  assert.deepEqual(await marked(), [60, at])
  assert.deepEqual(await marked({ gracePeriodSeconds: 90 }), [60, at])
  assert.deepEqual(await marked({ gracePeriodSeconds: 20 }), [20, at - 40_000])
})

test('a generated name that is taken is generated again', async () => {
  let zeros = Number.POSITIVE_INFINITY
  const random = { next: () => (zeros-- > 0 ? 0 : 0.5) }
  const embedded = await Embedded.started([], { random })
  const create = async () => embedded.send('POST', '/api/v1/namespaces/default/configmaps', generated)
  const generated = { metadata: { generateName: 'map-' } }
  assert.equal((await create()).body.metadata.name, 'map-bbbbb')
  zeros = 'bbbbb'.length
  const { status, body } = await create()
  assert.equal(status, 201)
  assert.match(body.metadata.name, /^map-[^b]{5}$/)
  zeros = Number.POSITIVE_INFINITY
  assert.equal((await create()).status, 409)
})
