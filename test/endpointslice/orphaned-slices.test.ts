import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ORPHAN_GRACE_MS, planOrphans } from '../../src/endpointslice/orphaned-slices.ts'
import { type EndpointSlice, endpointSlices, services } from '../../src/kube/resources.ts'
import { Cluster } from './cluster.ts'

const namespace = 'other'
const managedBy = 'endpointslice-controller.k8s.io'
const owner = {
  apiVersion: 'v1',
  kind: 'Service',
  name: 'foo',
  uid: 'gone',
  controller: true,
  blockOwnerDeletion: true,
}

function sliceOwnedBy(ownerReferences: readonly object[], name = 'foo-1'): EndpointSlice {
  const labels = { 'kubernetes.io/service-name': 'foo', 'endpointslice.kubernetes.io/managed-by': managedBy }
  const metadata = { name, namespace, uid: name, labels, ownerReferences }
  const endpoints = [{ addresses: ['192.0.2.1'], conditions: { ready: true } }]
  return { metadata, addressType: 'IPv4', endpoints, ports: [] } as unknown as EndpointSlice
}

function planFor(ownerReferences: readonly object[], serviceUid?: string) {
  const slices = [sliceOwnedBy(ownerReferences)]
  const orphanedAtMs = new Map([['foo-1', 0]])
  return planOrphans({ serviceKey: 'other/foo', serviceUid, slices, orphanedAtMs, nowMs: ORPHAN_GRACE_MS })
}

test('a slice is an orphan if only former Services of its name own it', () => {
  assert.equal(planFor([owner]).due.length, 1)
  assert.equal(planFor([owner], 'new').due.length, 1)
  assert.equal(planFor([owner, { ...owner, uid: 'older' }]).due.length, 1)
  assert.equal(planFor([owner], 'gone').due.length, 0, 'the owner exists')
  assert.equal(planFor([]).due.length, 0, 'a slice without an owner is no orphan')
  assert.equal(planFor([owner, { ...owner, kind: 'Endpoints' }]).due.length, 0, 'another object also owns the slice')
  assert.equal(planFor([{ ...owner, apiVersion: 'example.com/v1' }]).due.length, 0, 'another kind of Service')
  assert.equal(planFor([{ ...owner, name: 'bar' }]).due.length, 0, 'another Service')
})

test('the grace period of an orphan begins when it is first seen, and ends when its owner is present', () => {
  const [a, b] = [sliceOwnedBy([owner], 'a'), sliceOwnedBy([owner], 'b')]
  const input = { serviceKey: 'other/foo', serviceUid: undefined }
  const first = planOrphans({ ...input, slices: [a], orphanedAtMs: new Map(), nowMs: 1_000 })
  assert.deepEqual(first, { due: [], orphanedAtMs: new Map([['a', 1_000]]), waitMs: ORPHAN_GRACE_MS })
  const second = planOrphans({ ...input, ...first, slices: [a, b], nowMs: 4_000 })
  assert.equal(second.waitMs, ORPHAN_GRACE_MS - 3_000)
  const third = planOrphans({ ...input, ...second, slices: [a, b], nowMs: 1_000 + ORPHAN_GRACE_MS })
  assert.deepEqual([third.due, third.waitMs], [[a], 3_000])
  const returned = planOrphans({ ...input, ...second, serviceUid: 'gone', slices: [a, b], nowMs: 5_000 })
  assert.deepEqual(returned, { due: [], orphanedAtMs: new Map(), waitMs: undefined })
})

test('the slices of a deleted Service are deleted after the grace period', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass()
  cluster.written()
  await cluster.deleteService('foo')
  await cluster.pass(ORPHAN_GRACE_MS - 100)
  assert.deepEqual(cluster.written(), [])
  await cluster.pass(200)
  assert.deepEqual(cluster.written(), ['DELETE 200'])
  assert.deepEqual(await cluster.listed('foo'), [])
  await cluster.pass(60_000)
  assert.deepEqual(cluster.written(), [])
  await stop()
})

test('slices whose Service was deleted before the term are deleted too; unowned and foreign slices stay', async () => {
  const cluster = await Cluster.started()
  await cluster.api.create(endpointSlices, sliceOwnedBy([owner], 'orphan'))
  await cluster.api.create(endpointSlices, sliceOwnedBy([], 'unowned'))
  const foreign = sliceOwnedBy([owner], 'foreign')
  const labels = { ...foreign.metadata?.labels, 'endpointslice.kubernetes.io/managed-by': 'somebody' }
  await cluster.api.create(endpointSlices, { ...foreign, metadata: { ...foreign.metadata, labels } })
  const stop = await cluster.lead()
  await cluster.pass(2 * ORPHAN_GRACE_MS)
  assert.deepEqual(
    (await cluster.slices('foo')).map(({ metadata }) => metadata?.name),
    ['foreign', 'unowned'],
  )
  assert.deepEqual(cluster.written(), ['DELETE 200'])
  await stop()
})

test('nothing is deleted if the garbage collector deletes the slices first', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  cluster.written()
  const { metadata } = await cluster.slice('foo')
  await cluster.deleteService('foo')
  await cluster.pass(2_000)
  await cluster.api.delete(endpointSlices, { namespace, name: metadata?.name ?? '' })
  await cluster.pass(60_000)
  assert.deepEqual(cluster.written(), [])
  await stop()
})

test('a Service that replaces another of its name lists no addresses of the former, whatever its spec', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('b', { ip: '192.0.2.2', labels: { app: 'db' } })
  const replacements = {
    'a Service with another selector': [{ selector: { app: 'db' } }, ['192.0.2.2 :8080'], 0],
    'a Service whose selector selects no Pod': [{ selector: { app: 'none' } }, [''], 0],
    'a Service without a selector': [{ selector: undefined }, [], ORPHAN_GRACE_MS],
    'a Service of type ExternalName': [
      { type: 'ExternalName', externalName: 'example.com', ports: undefined },
      [],
      ORPHAN_GRACE_MS,
    ],
  } as const
  for (const [what, [spec, wanted, graceMs]] of Object.entries(replacements)) {
    await cluster.service('foo')
    await cluster.pass()
    assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
    await cluster.deleteService('foo')
    await cluster.service('foo', spec)
    await cluster.pass(graceMs + 1_000)
    assert.deepEqual(await cluster.listed('foo'), wanted, what)
    await cluster.deleteService('foo')
    await cluster.pass(2 * ORPHAN_GRACE_MS)
  }
  await stop()
})

test('a placeholder of an earlier Service is not used for a new one of its name', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  await cluster.deleteService('foo')
  const { metadata } = await cluster.service('foo')
  await cluster.pass()
  const [reference] = (await cluster.slice('foo')).metadata?.ownerReferences ?? []
  assert.equal(reference?.uid, metadata?.uid)
  await stop()
})

test('a Service that loses its selector retains its slices', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass()
  await cluster.updateService('foo', ({ spec: { selector: _, ...spec } = {}, ...service }) => ({ ...service, spec }))
  await cluster.pass(3 * ORPHAN_GRACE_MS)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('slices of a Service missing from the cache stay until the server does not have the Service either', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  cluster.loseServices()
  const { metadata } = await cluster.service('foo')
  await cluster.api.create(endpointSlices, sliceOwnedBy([{ ...owner, uid: metadata?.uid }]))
  await cluster.pass(5 * ORPHAN_GRACE_MS)
  assert.deepEqual(cluster.written(), [])
  await cluster.api.delete(services, { namespace, name: 'foo' })
  await cluster.pass(2 * ORPHAN_GRACE_MS)
  assert.deepEqual(cluster.written(), ['DELETE 200'])
  await stop()
})

test('a slice that has changed since it was read is not deleted', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  await cluster.deleteService('foo')
  await cluster.pass(2_000)
  cluster.written()
  const slicesPath = '/apis/discovery.k8s.io/v1/endpointslices'
  cluster.fault({ fault: { type: 'status', status: 500 }, methods: ['GET'], pathPrefix: slicesPath })
  cluster.faults.resetStreams()
  await cluster.updateSlice('foo', (slice) => ({ ...slice, metadata: { ...slice.metadata, ownerReferences: [] } }))
  await cluster.pass(2 * ORPHAN_GRACE_MS)
  assert.deepEqual(cluster.written(), ['DELETE 409'])
  assert.deepEqual(await cluster.listed('foo'), [''])
  await stop()
})

test('a refused deletion is retried', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  await cluster.deleteService('foo')
  cluster.written()
  cluster.fault({ fault: { type: 'status', status: 500 }, methods: ['DELETE'], times: 2 })
  await cluster.pass(2 * ORPHAN_GRACE_MS)
  assert.deepEqual(cluster.written(), ['DELETE 500', 'DELETE 500', 'DELETE 200'])
  await stop()
})
