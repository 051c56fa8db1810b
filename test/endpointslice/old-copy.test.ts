import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointSlices } from '../../src/kube/resources.ts'
import { Cluster } from './cluster.ts'

const pathPrefix = '/apis/discovery.k8s.io/v1/endpointslices'

test('a slice created and deleted while no watch was open is created again after the next list', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  cluster.fault({ fault: { type: 'status', status: 500 }, pathPrefix, methods: ['GET'] })
  cluster.faults.resetStreams()
  await cluster.service('foo')
  await cluster.pass()
  const { metadata: { name = '' } = {} } = await cluster.slice('foo')
  await cluster.api.delete(endpointSlices, { namespace: 'other', name })
  cluster.faults.clear()
  cluster.fault({ fault: { type: 'status', status: 410 }, pathPrefix, stream: true, times: 1 })
  await cluster.pass(3_000)
  assert.deepEqual(cluster.written(), ['POST 201', 'POST 201'])
  assert.deepEqual(await cluster.listed('foo'), [''])
  await stop()
})

test('if the slice watch stalls while requests work, slices are listed again and corrected', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('b', { ip: '192.0.2.2' })
  // The events are the end of the first list, which is empty, and the new slice.
  cluster.fault({ fault: { type: 'stall', afterEvents: 2 }, pathPrefix, stream: true, times: 1 })
  const stop = await cluster.lead()
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false })
  await cluster.pass(2_000)
  await cluster.deletePod('b')
  await cluster.pass(2_000)
  assert.deepEqual(await cluster.listed('foo'), ['!192.0.2.1 192.0.2.2 :8080'], 'a late event causes no list')
  await cluster.pass(2_500)
  assert.deepEqual(await cluster.listed('foo'), ['!192.0.2.1 :8080'])
  await stop()
})
