import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointSlices } from '../../src/kube/resources.ts'
import { Cluster } from './cluster.ts'

const pathPrefix = '/apis/discovery.k8s.io/v1/endpointslices'

test('a slice that was made and deleted while no watch was open is made again after the next list', async () => {
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
