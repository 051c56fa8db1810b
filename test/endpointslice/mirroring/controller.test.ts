import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EndpointSlice, endpointSlices, endpoints, namespaces, services } from '../../../src/kube/resources.ts'
import { MirroredCluster, subsetOf } from './mirrored-cluster.ts'

const slicesPath = '/apis/discovery.k8s.io/v1'

test('Endpoints of a Service without a selector are mirrored from creation to deletion', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.endpoints('db', subsetOf('192.0.2.1', '2001:db8::1'))
  await cluster.pass()
  assert.deepEqual(cluster.written(), [], 'there is no Service yet')
  await cluster.service('db')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST 201', 'POST 201'])
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1', '2001:db8::1'])

  await cluster.updateEndpoints('db', subsetOf('!192.0.2.1', '192.0.2.2'))
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['PUT 200', 'DELETE 200'])
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.2 !192.0.2.1'])

  await cluster.updateEndpoints('db', subsetOf('!192.0.2.1', '192.0.2.2'), { labels: { tier: 'back' } })
  await cluster.pass()
  assert.equal((await cluster.slices('db'))[0]?.metadata?.labels?.tier, 'back')

  cluster.written()
  await cluster.api.delete(endpoints, { namespace: 'other', name: 'db' })
  await cluster.pass(5_000)
  assert.deepEqual(cluster.written(), ['DELETE 200'])
  assert.deepEqual(await cluster.listed('db'), [])
  assert.deepEqual(cluster.events, [])
  await stop()
})

test('adding a selector to a Service deletes its mirrored slices; removing the selector restores them', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1'])
  await cluster.updateSpec('db', { selector: { app: 'db' } })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), [])
  assert.equal(await cluster.metric('num_endpoint_slices'), 0)
  await cluster.updateSpec('db', { selector: undefined })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1'])
  await cluster.api.delete(services, { namespace: 'other', name: 'db' })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), [])
  await stop()
})

test('a slice created and deleted while no watch was open is mirrored again after the next list', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  const pathPrefix = `${slicesPath}/endpointslices`
  cluster.fault({ fault: { type: 'status', status: 500 }, pathPrefix, methods: ['GET'] })
  cluster.faults.resetStreams()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass()
  const [slice] = await cluster.slices('db')
  await cluster.api.delete(endpointSlices, { namespace: 'other', name: slice?.metadata?.name ?? '' })
  cluster.faults.clear()
  cluster.fault({ fault: { type: 'status', status: 410 }, pathPrefix, stream: true, times: 1 })
  await cluster.pass(3_000)
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1'])
  await stop()
})

test('if the slice watch stalls while requests work, slices are listed again and corrected', async () => {
  const cluster = await MirroredCluster.started()
  const pathPrefix = `${slicesPath}/endpointslices`
  // The events are the end of the first list, which is empty, and the new slice.
  cluster.fault({ fault: { type: 'stall', afterEvents: 2 }, pathPrefix, stream: true, times: 1 })
  const stop = await cluster.lead()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass()
  await cluster.updateEndpoints('db', subsetOf('192.0.2.2'))
  await cluster.pass()
  await cluster.updateEndpoints('db', subsetOf('192.0.2.3'))
  await cluster.pass(3_000)
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.2'], 'a late event causes no list')
  await cluster.pass(2_500)
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.3'])
  await stop()
})

test('the label skip-mirror ends mirroring, and removing the label starts it', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('db')
  const skip = { 'endpointslice.kubernetes.io/skip-mirror': 'true' }
  await cluster.endpoints('db', subsetOf('192.0.2.1'), { labels: skip })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), [])
  await cluster.updateEndpoints('db', subsetOf('192.0.2.1'), { labels: {} })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1'])
  await cluster.updateEndpoints('db', subsetOf('192.0.2.1'), { labels: skip })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), [])
  await stop()
})

test('changes of a mirrored slice by others are reverted; slices of other managers are left alone', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  const labels = { 'kubernetes.io/service-name': 'db', 'endpointslice.kubernetes.io/managed-by': 'me' }
  const own = { addressType: 'IPv4', endpoints: [{ addresses: ['192.0.2.9'] }], ports: [] }
  await cluster.api.create(endpointSlices, { metadata: { namespace: 'other', name: 'own', labels }, ...own })
  await cluster.pass()
  const mirrored = async () => {
    const slice = (await cluster.slices('db')).find(({ metadata }) => metadata?.name !== 'own')
    assert.ok(slice)
    return slice
  }
  const good = await mirrored()
  cluster.written()

  await cluster.api.update(endpointSlices, { ...good, endpoints: [] })
  await cluster.pass()
  assert.deepEqual((await mirrored()).endpoints, good.endpoints)
  assert.deepEqual(cluster.written(), ['PUT 200'])

  await cluster.api.delete(endpointSlices, { namespace: 'other', name: good.metadata?.name ?? '' })
  await cluster.pass()
  assert.deepEqual((await mirrored()).endpoints, good.endpoints)
  assert.deepEqual(cluster.written(), ['POST 201'])

  const given = await mirrored()
  const elsewhere = { ...given.metadata?.labels, 'kubernetes.io/service-name': 'web' }
  await cluster.api.update(endpointSlices, { ...given, metadata: { ...given.metadata, labels: elsewhere } as never })
  await cluster.pass()
  assert.deepEqual((await mirrored()).endpoints, good.endpoints)
  assert.deepEqual(await cluster.listed('web'), [])
  assert.deepEqual(cluster.written().toSorted(), ['DELETE 200', 'POST 201'])

  await cluster.api.delete(endpoints, { namespace: 'other', name: 'db' })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), ['!192.0.2.9'])
  await stop()
})

test('a new term deletes obsolete slices of an earlier one and writes nothing else in a steady state', async () => {
  const cluster = await MirroredCluster.started()
  const stopFirst = await cluster.lead()
  for (const name of ['db', 'gone', 'lost']) {
    await cluster.service(name)
    await cluster.endpoints(name, subsetOf('192.0.2.1'))
  }
  await cluster.pass()
  await stopFirst()
  for (const name of ['gone', 'lost']) {
    await cluster.api.delete(endpoints, { namespace: 'other', name })
    await cluster.api.delete(services, { namespace: 'other', name })
  }
  const [lost] = await cluster.slices('lost')
  await cluster.api.delete(endpointSlices, { namespace: 'other', name: lost?.metadata?.name ?? '' })
  cluster.written()
  const stopSecond = await cluster.lead()
  await cluster.pass(600_000)
  assert.deepEqual(cluster.written(), ['DELETE 200'])
  assert.deepEqual(await cluster.listed('gone'), [])
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1'])
  assert.equal(await cluster.metric('num_endpoint_slices'), 1)
  await stopSecond()
})

test('a change that leaves the generation of a slice unchanged causes no sync, as upstream', async () => {
  const cluster = await MirroredCluster.started()
  const stopFirst = await cluster.lead()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass()
  await stopFirst()
  const stop = await cluster.lead()
  const [slice] = await cluster.slices('db')
  assert.ok(slice)
  cluster.written()
  const annotated = { ...slice, metadata: { ...slice.metadata, annotations: { own: '1' } } as never }
  assert.equal((await cluster.api.update(endpointSlices, annotated)).metadata?.generation, slice.metadata?.generation)
  await cluster.pass(5_000)
  assert.deepEqual(cluster.written(), [])
  await cluster.updateEndpoints('db', subsetOf('192.0.2.1'), { labels: { tier: 'back' } })
  await cluster.pass()
  assert.deepEqual((await cluster.slices('db'))[0]?.metadata?.annotations ?? {}, {})
  await stop()
})

test('while the slice cache is outdated nothing is written twice, and the next sync runs as soon as it catches up', async () => {
  const cluster = await MirroredCluster.started()
  cluster.faults.add({ fault: { type: 'delay', ms: 300 }, pathPrefix: slicesPath, stream: true })
  const stop = await cluster.lead()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass(50)
  assert.deepEqual(cluster.written(), ['POST 201'])
  await cluster.updateEndpoints('db', subsetOf('192.0.2.2'))
  await cluster.pass(100)
  assert.deepEqual(cluster.written(), [])
  await cluster.pass(300)
  assert.deepEqual(cluster.written(), ['PUT 200'], 'long before the second that a failed sync waits')
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.2'])
  await stop()
})

test('a slow deletion of a mirrored slice does not delay mirroring', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.endpoints('foo', subsetOf('192.0.2.1', '2001:db8::1'))
  await cluster.pass()
  const held = (await cluster.slices('foo')).find(({ addressType }) => addressType === 'IPv6') as EndpointSlice
  await cluster.api.update(endpointSlices, {
    ...held,
    metadata: { ...held.metadata, finalizers: ['test/hold'] } as never,
  })
  await cluster.updateEndpoints('foo', subsetOf('192.0.2.1'))
  await cluster.pass(3_000)
  await cluster.updateEndpoints('foo', subsetOf('192.0.2.2', '2001:db8::2'))
  await cluster.pass(5_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.2', '2001:db8::1', '2001:db8::2'])
  await stop()
})

test('a failed write is retried after one second, then after two more; expedite() retries it at once', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('db')
  const endFault = cluster.faults.add({
    fault: { type: 'status', status: 500 },
    pathPrefix: slicesPath,
    methods: ['POST'],
  })
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass(900)
  assert.deepEqual(cluster.written(), ['POST 500'])
  await cluster.pass(200)
  assert.deepEqual(cluster.written(), ['POST 500'])
  await cluster.pass(1_500)
  assert.deepEqual(cluster.written(), [])
  await cluster.pass(500)
  assert.deepEqual(cluster.written(), ['POST 500'])
  await cluster.pass(1_500)
  assert.deepEqual(cluster.written(), [])
  endFault()
  cluster.controller?.expedite()
  await cluster.pass(0)
  assert.deepEqual(cluster.written(), ['POST 201'])
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1'])
  await stop()
})

test('a slice changed or deleted during its update is corrected', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass()
  const [slice] = await cluster.slices('db')
  assert.ok(slice)
  cluster.written()
  // The server receives an update half a second after it was sent.
  cluster.faults.add({ fault: { type: 'delay', ms: 500 }, pathPrefix: slicesPath, methods: ['PUT'] })
  await cluster.updateEndpoints('db', subsetOf('192.0.2.2'))
  await cluster.pass(100)
  await cluster.api.update(endpointSlices, { ...slice, endpoints: [] })
  await cluster.pass(4_000)
  assert.deepEqual(cluster.written(), ['PUT 409', 'PUT 200'])
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.2'])
  await cluster.updateEndpoints('db', subsetOf('192.0.2.3'))
  await cluster.pass(100)
  await cluster.api.delete(endpointSlices, { namespace: 'other', name: slice.metadata?.name ?? '' })
  await cluster.pass(4_000)
  assert.deepEqual(cluster.written(), ['PUT 404', 'POST 201'])
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.3'])
  await stop()
})

test('nothing is created in a terminating Namespace, and the attempt is not retried', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('db')
  const keep = cluster.faults.add({ fault: { type: 'status', status: 500 }, pathPrefix: slicesPath, methods: ['POST'] })
  await cluster.endpoints('db', subsetOf('192.0.2.1'), { finalizers: ['example.com/keep'] })
  await cluster.api.delete(namespaces, { name: 'other' })
  await cluster.pass(100)
  keep()
  cluster.written()
  await cluster.pass(30_000)
  const written = cluster.written()
  assert.ok(written.length <= 1 && written.every((write) => write === 'POST 403'), written.join())
  await stop()
})

test('Endpoints of excluded Services are not mirrored, and their mirrored slices are deleted', async () => {
  const cluster = await MirroredCluster.started()
  const stopFirst = await cluster.lead()
  await cluster.service('db')
  await cluster.endpoints('db', subsetOf('192.0.2.1'))
  await cluster.pass()
  await stopFirst()
  cluster.written()
  const stopSecond = await cluster.lead({ isExcluded: (key) => key === 'other/db' })
  await cluster.updateEndpoints('db', subsetOf('192.0.2.2'))
  await cluster.pass(5_000)
  assert.deepEqual(cluster.written(), ['DELETE 200'])
  assert.deepEqual(await cluster.listed('db'), [])
  await stopSecond()
})

test('Endpoints of Services with a selector cause no sync', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead()
  await cluster.service('web', { selector: { app: 'web' } })
  await cluster.endpoints('web', subsetOf('192.0.2.1'))
  for (let host = 2; host < 20; host++) await cluster.updateEndpoints('web', subsetOf(`192.0.2.${host}`))
  await cluster.pass()
  assert.equal(await cluster.metric('endpoints_sync_duration_count'), 0)
  assert.deepEqual(cluster.written(), [])
  await stop()
})

test('addresses over the limit are reported in an event about the Endpoints and counted in metrics', async () => {
  const cluster = await MirroredCluster.started()
  const stop = await cluster.lead({ maxEndpointsPerSubset: 2 })
  await cluster.service('db')
  const { metadata } = await cluster.endpoints('db', subsetOf('192.0.2.1', '192.0.2.2', '!192.0.2.3'))
  await cluster.pass()
  assert.deepEqual(await cluster.listed('db'), ['192.0.2.1 192.0.2.2'])
  const { uid, resourceVersion } = metadata ?? {}
  assert.deepEqual(cluster.events, [
    {
      reason: 'TooManyAddressesToMirror',
      type: 'Warning',
      action: 'Mirror',
      regarding: { apiVersion: 'v1', kind: 'Endpoints', namespace: 'other', name: 'db', uid, resourceVersion },
      note: 'A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped',
    },
  ])
  assert.equal(await cluster.metric('endpoints_desired'), 2)
  assert.equal(await cluster.metric('desired_endpoint_slices'), 1)
  assert.equal(await cluster.metric('num_endpoint_slices'), 1)
  assert.equal(await cluster.metric('changes{operation="create"}'), 1)
  assert.equal(await cluster.metric('addresses_skipped_per_sync_sum'), 1)
  assert.equal(await cluster.metric('endpoints_added_per_sync_sum'), 2)
  await stop()
})
