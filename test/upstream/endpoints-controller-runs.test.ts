import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { EndpointsTracker } from '../../src/endpoints/endpoints-writer.ts'
import { endpoints, services } from '../../src/kube/resources.ts'
import { Cluster } from '../endpoints/cluster.ts'
import { type BatchingCase, endpointsController } from './endpoints-controller-tables.ts'

// These are upstream's tests that take time or need a server. They run on the embedded server, and count requests as
// upstream does. One difference: upstream counts the create among the writes of a batch, because its Service has no
// Endpoints yet and nobody requested a sync. Here the Endpoints exist already, so the counted writes are updates.

const { tables, file } = endpointsController

describe(`${file}, batching`, () => {
  for (const one of tables.batching) {
    test(one.name, async () => assert.equal(await writesWhile(one), one.expect.writes))
  }
})

async function writesWhile({ given }: BatchingCase): Promise<number> {
  const cluster = await Cluster.started()
  for (let index = 0; index < given.pods; index++) await cluster.pod(`pod${index}`, { ip: `192.0.2.${index + 1}` })
  await cluster.service('foo')
  const stop = await cluster.lead({ batchPeriodMs: given.batchPeriodMs })
  cluster.written()
  for (const [index, delayMs] of given.delaysMs.entries()) {
    await cluster.pass(delayMs)
    // The controller sees both writes of a new Pod as one, because nothing happens in between.
    if (given.verb === 'add') await cluster.pod(`pod${index}`, { ip: `192.0.2.${index + 1}` })
    else if (given.verb === 'update') await cluster.podStatus(`pod${index}`, { ip: `203.0.113.${index + 1}` })
    else await cluster.deletePod(`pod${index}`)
  }
  await cluster.pass(3_000)
  await stop()
  return cluster.written().length
}

describe(`${file}, waitsForInformers`, () => {
  for (const { name, given, expect } of tables.waitsForInformers) {
    test(name, async () => {
      const cluster = await Cluster.started()
      await cluster.service('foo')
      await cluster.pod('pod0', { ip: '192.0.2.1' })
      for (const plural of given.unsynced) {
        cluster.fault({ fault: { type: 'status', status: 500 }, methods: ['GET'], pathPrefix: `/api/v1/${plural}` })
      }
      const stop = await cluster.lead({}, 10_000)
      assert.equal(cluster.written().length, expect.writes)
      await stop()
    })
  }
})

describe(`${file}, tests that are not tables`, () => {
  const ref = { namespace: 'other', name: 'foo' }

  test('CheckLeftoverEndpoints', async () => {
    const cluster = await Cluster.started()
    await cluster.api.create(endpoints, { metadata: ref, subsets: [{ addresses: [{ ip: '192.0.2.9' }] }] })
    const stop = await cluster.lead()
    assert.deepEqual(cluster.written(), ['DELETE other/foo 200'])
    await stop()
  })

  test('EndpointsDeletionEvents', async () => {
    const cluster = await Cluster.started()
    await cluster.service('foo')
    const stop = await cluster.lead()
    cluster.written()
    await cluster.api.delete(endpoints, ref)
    await cluster.pass(0)
    assert.deepEqual(cluster.written(), ['POST other/foo 201'])
    await stop()
  })

  test('MultipleServiceChanges', async () => {
    const cluster = await Cluster.started()
    cluster.fault({ fault: { type: 'delay', ms: 500 }, stream: true, pathPrefix: '/api/v1/endpoints' })
    await cluster.pod('pod0', { ip: '192.0.2.1' })
    const stop = await cluster.lead()
    const headless = { clusterIP: 'None', ports: undefined }
    await cluster.service('foo', headless)
    await cluster.pass()
    assert.deepEqual(cluster.written(), ['POST other/foo 201'])
    await cluster.api.delete(services, ref)
    await cluster.pass(100)
    assert.deepEqual(cluster.written(), ['DELETE other/foo 200'])
    await cluster.service('foo', headless)
    await cluster.pass(100)
    assert.deepEqual(cluster.written(), [], 'the informer still has the Endpoints')
    await cluster.pass()
    assert.deepEqual(cluster.written(), ['POST other/foo 201'])
    await stop()
  })

  test('MultiplePodChanges', async () => {
    const cluster = await Cluster.started()
    cluster.fault({ fault: { type: 'delay', ms: 500 }, stream: true, pathPrefix: '/api/v1/endpoints' })
    await cluster.pod('pod0', { ip: '192.0.2.1' })
    await cluster.service('foo')
    const stop = await cluster.lead({}, 2_000)
    cluster.written()
    await cluster.podStatus('pod0', { ip: '192.0.2.1', ready: false })
    await cluster.pass(50)
    assert.deepEqual(cluster.written(), ['PUT other/foo 200'])
    await cluster.podStatus('pod0', { ip: '192.0.2.1', ready: true })
    await cluster.pass(100)
    assert.deepEqual(cluster.written(), [], 'the informer is out of date')
    await cluster.pass(400)
    assert.deepEqual(cluster.written(), ['PUT other/foo 200'])
    await stop()
  })

  test('StaleEndpointsTracker', () => {
    const tracker = new EndpointsTracker()
    const at = (resourceVersion: string) => ({ metadata: { ...ref, resourceVersion } })
    assert.equal(tracker.isStale('other/foo', at('1'), 0), false, 'before it is replaced')
    tracker.replaced(at('1'), at('2'), 0)
    assert.equal(tracker.isStale('other/foo', at('1'), 0), true, 'after it was replaced')
    assert.equal(tracker.isStale('other/foo', at('2'), 0), false, 'after the informer has received the event')
    tracker.delete('other/foo')
    assert.equal(tracker.isStale('other/foo', at('1'), 0), false, 'after it was forgotten')
  })
})
