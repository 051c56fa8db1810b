import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpoints, namespaces, services } from '../../src/kube/resources.ts'
import { passedOn } from '../kube/passed-on.ts'
import { Cluster } from './cluster.ts'

test('Endpoints follow the Service and its Pods from creation to deletion', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST other/foo 201'])
  assert.deepEqual(await cluster.listed('foo'), [])

  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('b', { ip: '192.0.2.2', ready: false })
  await cluster.pod('elsewhere', { ip: '192.0.2.9', namespace: 'default' })
  await cluster.pod('other', { ip: '192.0.2.8', labels: { app: 'db' } })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 !192.0.2.2 :8080'])

  await cluster.podStatus('b', { ip: '192.0.2.2' })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])

  await cluster.deletePod('a')
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.2 :8080'])

  cluster.written()
  await cluster.deleteService('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['DELETE other/foo 200'])
  assert.equal(await cluster.endpoints('foo'), undefined)
  await stop()
})

test('the written Endpoints have exactly the labels, annotation and subsets that upstream writes', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.pod('a', { ip: '192.0.2.1', spec: { hostname: 'a-0', subdomain: 'foo' } })
  await cluster.service('foo', {}, { labels: { tier: 'front' } })
  await cluster.pass()
  const found = await cluster.endpoints('foo')
  const pod = await cluster.api.get({ ...endpoints, plural: 'pods', kind: 'Pod' }, { namespace: 'other', name: 'a' })
  assert.deepEqual(found?.metadata?.labels, {
    tier: 'front',
    'endpoints.kubernetes.io/managed-by': 'endpoint-controller',
  })
  assert.deepEqual(Object.keys(found?.metadata?.annotations ?? {}), [
    'endpoints.kubernetes.io/last-change-trigger-time',
  ])
  const targetRef = { kind: 'Pod', namespace: 'other', name: 'a', uid: pod.metadata?.uid }
  assert.deepEqual(found?.subsets, [
    {
      addresses: [{ ip: '192.0.2.1', hostname: 'a-0', nodeName: 'node-a', targetRef }],
      ports: [{ port: 8080, protocol: 'TCP' }],
    },
  ])
  await stop()
})

test('Endpoints that somebody deletes are recreated', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  cluster.written()
  await cluster.api.delete(endpoints, { namespace: 'other', name: 'foo' })
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST other/foo 201'])
  await stop()
})

test('Endpoints that somebody changes are corrected at the next change of a Pod', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass()
  const found = await cluster.endpoints('foo')
  await cluster.api.update(endpoints, { ...found, metadata: { ...found?.metadata, labels: { x: 'y' } }, subsets: [] })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), [])
  await cluster.pod('b', { ip: '192.0.2.2' })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])
  assert.deepEqual((await cluster.endpoints('foo'))?.metadata?.labels, {
    'endpoints.kubernetes.io/managed-by': 'endpoint-controller',
  })
  await stop()
})

test('a new term deletes the Endpoints of Services deleted meanwhile, but no leader election lock', async () => {
  const cluster = await Cluster.started()
  const metadata = { namespace: 'other' }
  const annotations = { 'control-plane.alpha.kubernetes.io/leader': '{}' }
  await cluster.api.create(endpoints, { metadata: { ...metadata, name: 'leftover' } })
  await cluster.api.create(endpoints, { metadata: { ...metadata, name: 'lock', annotations } })
  await cluster.api.create(endpoints, { metadata: { ...metadata, name: 'by-hand' } })
  await cluster.api.create(services, { metadata: { ...metadata, name: 'by-hand' }, spec: { ports: [{ port: 80 }] } })
  const stop = await cluster.lead()
  assert.deepEqual(cluster.written(), ['DELETE other/leftover 200'])
  await stop()
})

test('Endpoints that appear after their Service was deleted are deleted, even if their POST had an unreadable response', async () => {
  const cluster = await Cluster.started()
  const late = { type: 'delay', ms: 500 } as const
  cluster.fault({ fault: late, stream: true, pathPrefix: '/api/v1/endpoints' })
  cluster.fault({
    fault: { type: 'garbage' },
    times: 1,
    methods: ['POST'],
    pathPrefix: '/api/v1/namespaces/other/endpoints',
  })
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass(1)
  await cluster.deleteService('foo')
  await cluster.pass(3_000)
  assert.deepEqual(cluster.written(), ['POST other/foo 201', 'DELETE other/foo 200'])
  await stop()
})

test('Endpoints stay if their Service is created while the server is asked whether it still exists', async () => {
  const cluster = await Cluster.started()
  const { api } = cluster
  const { metadata } = await api.create(endpoints, { metadata: { namespace: 'other', name: 'foo' } })
  const late = Promise.withResolvers<void>()
  const slow = passedOn(api, {
    async get(...args) {
      const answer = api.get(...args)
      await Promise.allSettled([answer])
      await late.promise
      return answer
    },
  })
  const stop = await cluster.lead({ api: slow })
  await cluster.service('foo')
  await cluster.pass(100)
  late.resolve()
  await cluster.pass()
  assert.equal((await cluster.endpoints('foo'))?.metadata?.uid, metadata?.uid)
  await stop()
})

test('Endpoints without a known Service stay if they appear before their Service or carry no managed-by label', async () => {
  const cluster = await Cluster.started()
  cluster.fault({ fault: { type: 'delay', ms: 5_000 }, stream: true, pathPrefix: '/api/v1/services' })
  const stop = await cluster.lead({}, 10_000)
  await cluster.service('foo')
  const labels = { 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' }
  await cluster.api.create(endpoints, { metadata: { namespace: 'other', name: 'foo', labels } })
  await cluster.api.create(endpoints, { metadata: { namespace: 'other', name: 'by-hand' } })
  await cluster.pass(4_000)
  assert.deepEqual(cluster.written(), [])
  await stop()
})

test('excluded Endpoints are neither written nor deleted', async () => {
  const cluster = await Cluster.started()
  await cluster.api.create(endpoints, { metadata: { namespace: 'other', name: 'leftover' } })
  await cluster.service('foo')
  const asked: string[] = []
  const stop = await cluster.lead({
    isExcluded: (key, current) => {
      asked.push(`${key} ${current?.metadata?.name}`)
      return true
    },
  })
  assert.deepEqual(cluster.written(), [])
  assert.deepEqual(asked.sort(), ['other/foo undefined', 'other/leftover leftover'])
  await stop()
})

for (const [change, patch] of [
  ['loses its selector', { selector: null }],
  ['becomes an ExternalName', { type: 'ExternalName', externalName: 'example.com', clusterIP: null, clusterIPs: null }],
] as const) {
  test(`a Service that ${change} keeps its Endpoints unchanged`, async () => {
    const cluster = await Cluster.started()
    const stop = await cluster.lead()
    await cluster.service('foo')
    await cluster.pod('a', { ip: '192.0.2.1' })
    await cluster.pass()
    cluster.written()
    await cluster.api.patch(services, { namespace: 'other', name: 'foo' }, { type: 'merge', body: { spec: patch } })
    await cluster.pod('b', { ip: '192.0.2.2' })
    await cluster.pass()
    assert.deepEqual(cluster.written(), [])
    assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
    await stop()
  })
}

test('if a Service without a selector replaces one with a selector, the Endpoints made from Pods are deleted', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.service('foo')
  await cluster.service('bar')
  await cluster.service('baz')
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  cluster.written()
  const hear = cluster.loseServices()
  await cluster.pass()
  for (const name of ['foo', 'bar', 'baz']) {
    await cluster.deleteService(name)
    await cluster.service(name, { selector: undefined })
  }
  const own = await cluster.endpoints('bar')
  await cluster.api.update(endpoints, { ...own, subsets: [{ addresses: [{ ip: '192.0.2.7' }] }] })
  const taken = await cluster.endpoints('baz')
  await cluster.api.update(endpoints, { ...taken, metadata: { ...taken?.metadata, labels: {} } })
  // Otherwise the watch would report the changes one after the other.
  cluster.embedded.server.compact()
  hear()
  await cluster.pass(60_000)
  assert.deepEqual(cluster.written(), ['DELETE other/foo 200'])
  assert.equal(await cluster.endpoints('foo'), undefined)
  assert.deepEqual(await cluster.listed('bar'), ['192.0.2.7'], 'Endpoints written for the new Service are preserved')
  assert.deepEqual(
    await cluster.listed('baz'),
    ['192.0.2.1 :8080'],
    'Endpoints that another client has changed are preserved',
  )
  await stop()
})

test('a recreated Service keeps its Endpoints when it loses its selector', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.service('foo')
  await cluster.pass()
  const hear = cluster.loseServices()
  await cluster.pass()
  await cluster.deleteService('foo')
  await cluster.service('foo')
  // Otherwise the watch would report the changes one after the other.
  cluster.embedded.server.compact()
  hear()
  await cluster.pass(60_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  const service = await cluster.api.get(services, { namespace: 'other', name: 'foo' })
  const { selector: _, ...spec } = service.spec ?? {}
  await cluster.api.update(services, { ...service, spec })
  await cluster.pass(60_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('while nothing changes, nothing is written', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass()
  cluster.written()
  await cluster.pass(3_600_000)
  assert.deepEqual(cluster.written(), [])
  await stop()
  const again = await cluster.lead()
  assert.deepEqual(cluster.written(), [])
  await again()
})

test('in a terminating namespace a refused creation is not retried, and no Event is recorded', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo', {}, { finalizers: ['example.com/hold'] })
  await cluster.pass()
  await cluster.api.delete(namespaces, { name: 'other' })
  await cluster.pass()
  const requests = cluster.written()
  await cluster.pass(60_000)
  assert.ok(requests.includes('POST other/foo 403'), requests.join())
  assert.deepEqual(cluster.written(), [], 'the creation is not retried')
  assert.deepEqual(cluster.events, [])
  await stop()
})

test('a refused write is recorded as an Event of the Endpoints, and retried', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  cluster.fault({ fault: { type: 'status', status: 403 }, methods: ['POST'], times: 2 })
  await cluster.service('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST other/foo 403', 'POST other/foo 403', 'POST other/foo 201'])
  cluster.fault({ fault: { type: 'status', status: 422 }, methods: ['PUT'], times: 1 })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['PUT other/foo 422', 'PUT other/foo 200'])
  const { uid } = (await cluster.endpoints('foo'))?.metadata ?? {}
  const [first, second, third] = cluster.events
  assert.deepEqual(first, {
    type: 'Warning',
    reason: 'FailedToCreateEndpoint',
    action: 'Sync',
    regarding: { apiVersion: 'v1', kind: 'Endpoints', namespace: 'other', name: 'foo' },
    note: 'Failed to create endpoint for service other/foo: injected fault: 403',
  })
  assert.deepEqual(second, first)
  assert.equal(third?.reason, 'FailedToUpdateEndpoint')
  assert.equal(third?.note, 'Failed to update endpoint other/foo: injected fault: 422')
  assert.equal(third?.regarding.uid, uid)
  await stop()
})

test('while the server is unreachable no Event is recorded, and expedite() retries the write at once', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  const heal = cluster.fault({ fault: { type: 'refuse' }, methods: ['POST'] })
  await cluster.service('foo')
  await cluster.pass(3_600_000)
  cluster.written()
  heal()
  cluster.controller?.expedite()
  await cluster.pass(0)
  assert.deepEqual(cluster.written(), ['POST other/foo 201'])
  assert.deepEqual(cluster.events, [])
  await stop()
})

test('the trigger time of a write is that of the change, and changes from before the Service do not count', async () => {
  const cluster = await Cluster.started()
  const triggerTime = async (): Promise<string | undefined> =>
    (await cluster.endpoints('foo'))?.metadata?.annotations?.['endpoints.kubernetes.io/last-change-trigger-time']
  const stop = await cluster.lead()
  await cluster.pod('a', { ip: '192.0.2.1', since: '2026-01-01T00:00:00Z' })
  const first = await cluster.service('foo')
  await cluster.pass()
  assert.equal(await triggerTime(), first.metadata?.creationTimestamp)
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false, since: '2026-01-01T00:00:04Z' })
  await cluster.pass()
  assert.equal(await triggerTime(), '2026-01-01T00:00:04Z')

  await cluster.deleteService('foo')
  await cluster.pass()
  await cluster.podStatus('a', { ip: '192.0.2.1', since: '2026-01-01T00:00:05Z' })
  await cluster.pass(60_000)
  const second = await cluster.service('foo')
  await cluster.pass()
  assert.equal(await triggerTime(), second.metadata?.creationTimestamp)
  await stop()
})

test('a deletion has the uid and resourceVersion of the observed object as preconditions', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  const { metadata } = await cluster.api.create(endpoints, { metadata: { namespace: 'other', name: 'foo' } })
  await cluster.service('foo', { selector: undefined })
  await cluster.pass()
  await cluster.deleteService('foo')
  await cluster.pass()
  const [request] = cluster.requests
  assert.equal(request?.method, 'DELETE')
  const { preconditions } = (request?.body ?? {}) as { readonly preconditions?: object }
  assert.deepEqual(preconditions, { uid: metadata?.uid, resourceVersion: metadata?.resourceVersion })
  await stop()
})
