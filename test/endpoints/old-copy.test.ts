import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpoints } from '../../src/kube/resources.ts'
import { Cluster } from './cluster.ts'

/** The controller receives events of Endpoints half a second late. */
async function hardOfHearing(): Promise<Cluster> {
  const cluster = await Cluster.started()
  cluster.fault({ fault: { type: 'delay', ms: 500 }, stream: true, pathPrefix: '/api/v1/endpoints' })
  return cluster
}

test('Endpoints that were just created are not created again before the copy has them', async () => {
  const cluster = await hardOfHearing()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass(50)
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('b', { ip: '192.0.2.2' })
  await cluster.pass(200)
  assert.deepEqual(cluster.written(), ['POST other/foo 201'])
  await cluster.pass(300)
  assert.deepEqual(
    cluster.written(),
    ['PUT other/foo 200'],
    'the Endpoints are written as soon as the informer has them',
  )
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])
  assert.deepEqual(cluster.events, [])
  await stop()
})

test('Endpoints that were just replaced are not replaced again before the copy has them', async () => {
  const cluster = await hardOfHearing()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  const stop = await cluster.lead({}, 2_000)
  cluster.written()
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false })
  await cluster.pass(50)
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: true })
  await cluster.pass(400)
  assert.deepEqual(cluster.written(), ['PUT other/foo 200'])
  await cluster.pass(100)
  assert.deepEqual(
    cluster.written(),
    ['PUT other/foo 200'],
    'the Endpoints are written as soon as the informer has them',
  )
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('the Endpoints of a Service that is deleted and recreated are deleted and recreated with one request each', async () => {
  const cluster = await hardOfHearing()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  const stop = await cluster.lead({}, 2_000)
  cluster.written()
  await cluster.deleteService('foo')
  await cluster.pass(10)
  await cluster.service('foo')
  await cluster.pod('b', { ip: '192.0.2.2' })
  await cluster.pass(3_000)
  assert.deepEqual(cluster.written(), ['DELETE other/foo 200', 'POST other/foo 201'])
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])
  await stop()
})

test('the Endpoints of a Service that is deleted before the copy has them are deleted', async () => {
  const cluster = await hardOfHearing()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass(50)
  await cluster.deleteService('foo')
  await cluster.pass(3_000)
  // The event of the creation arrives after the answer to the deletion, so the object seems not to be deleted.
  assert.deepEqual(cluster.written(), ['POST other/foo 201', 'DELETE other/foo 200', 'DELETE other/foo 404'])
  assert.equal(await cluster.endpoints('foo'), undefined)
  await stop()
})

test('Endpoints that are deleted soon after their creation are recreated at once', async () => {
  const cluster = await hardOfHearing()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass(600)
  await cluster.api.delete(endpoints, { namespace: 'other', name: 'foo' })
  await cluster.pass(500)
  assert.deepEqual(cluster.written(), ['POST other/foo 201', 'POST other/foo 201'])
  await stop()
})

test('Endpoints are deleted once, however often their Service is deleted and recreated before the copy is current', async () => {
  const cluster = await hardOfHearing()
  await cluster.service('foo')
  const stop = await cluster.lead({}, 2_000)
  cluster.written()
  for (let round = 0; round < 3; round++) {
    await cluster.deleteService('foo')
    await cluster.pass(10)
    await cluster.service('foo')
    await cluster.pass(10)
  }
  await cluster.deleteService('foo')
  await cluster.pass(3_000)
  assert.deepEqual(cluster.written(), ['DELETE other/foo 200'])
  await stop()
})

test('Endpoints that somebody else deleted first are not requested to be deleted again', async () => {
  const cluster = await hardOfHearing()
  await cluster.service('foo')
  const stop = await cluster.lead({}, 2_000)
  cluster.written()
  await cluster.api.delete(endpoints, { namespace: 'other', name: 'foo' })
  await cluster.deleteService('foo')
  await cluster.pass(5_000)
  assert.deepEqual(cluster.written(), ['DELETE other/foo 404'])
  await stop()
})

test('a foreign write to Endpoints is overwritten as soon as the copy has it', async () => {
  const cluster = await hardOfHearing()
  await cluster.service('foo')
  const stop = await cluster.lead({}, 2_000)
  cluster.written()
  const found = await cluster.endpoints('foo')
  await cluster.api.update(endpoints, { ...found, subsets: [{ addresses: [{ ip: '198.51.100.1' }] }] })
  await cluster.pass(50)
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(449)
  const refused = cluster.written()
  assert.ok(refused.length > 0 && refused.every((line) => line === 'PUT other/foo 409'), refused.join())
  assert.equal(cluster.events[0]?.reason, 'FailedToUpdateEndpoint')
  await cluster.pass(1)
  assert.deepEqual(cluster.written(), ['PUT other/foo 200'])
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('Endpoints that were created and deleted without a watch event are recreated within eleven seconds', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  cluster.fault({ fault: { type: 'status', status: 500 }, pathPrefix: '/api/v1/endpoints', methods: ['GET'] })
  cluster.faults.resetStreams()
  await cluster.service('foo')
  await cluster.pass()
  await cluster.api.delete(endpoints, { namespace: 'other', name: 'foo' })
  await cluster.pass()
  cluster.faults.clear()
  await cluster.pass(11_000)
  assert.deepEqual(cluster.written(), ['POST other/foo 201', 'POST other/foo 201'])
  await stop()
})

test('Endpoints that were created and deleted while no watch was open are recreated after the next list', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  const pathPrefix = '/api/v1/endpoints'
  cluster.fault({ fault: { type: 'status', status: 500 }, pathPrefix, methods: ['GET'] })
  cluster.faults.resetStreams()
  await cluster.service('foo')
  await cluster.pass()
  await cluster.api.delete(endpoints, { namespace: 'other', name: 'foo' })
  cluster.faults.clear()
  cluster.fault({ fault: { type: 'status', status: 410 }, pathPrefix, stream: true, times: 1 })
  await cluster.pass(3_000)
  assert.deepEqual(cluster.written(), ['POST other/foo 201', 'POST other/foo 201'])
  await stop()
})

test('if the watch of Endpoints delivers nothing while requests work, the controller lists them again and corrects them', async () => {
  for (const afterEvents of [1, 2]) {
    const cluster = await Cluster.started()
    // The events are the end of the first list, which is empty, and in the second round also the new Endpoints.
    cluster.fault({ fault: { type: 'stall', afterEvents }, pathPrefix: '/api/v1/endpoints', stream: true, times: 1 })
    const stop = await cluster.lead()
    await cluster.service('foo')
    await cluster.pod('a', { ip: '192.0.2.1' })
    await cluster.pass(2_000)
    await cluster.deletePod('a')
    await cluster.pass(2_000)
    assert.deepEqual(cluster.written().length, afterEvents, 'a late event causes no list')
    await cluster.pass(2_500)
    assert.deepEqual(await cluster.listed('foo'), [])
    assert.deepEqual(cluster.events, [])
    await stop()
  }
})

test('without watch events of Endpoints a conflicting write is retried rarely, and no Event is recorded', {
  timeout: 60_000,
}, async () => {
  for (const [prepared, written, refused, everyMs] of [
    [false, 'POST other/foo 201', 'POST other/foo 409', 10_000],
    [true, 'PUT other/foo 200', 'PUT other/foo 409', 100_000],
  ] as const) {
    const cluster = await Cluster.started()
    if (prepared) await cluster.service('foo')
    const stop = await cluster.lead()
    cluster.written()
    cluster.fault({ fault: { type: 'status', status: 500 }, pathPrefix: '/api/v1/endpoints', methods: ['GET'] })
    cluster.faults.resetStreams()
    if (!prepared) await cluster.service('foo')
    await cluster.pod('a', { ip: '192.0.2.1' })
    await cluster.pass(30_000)
    await cluster.podStatus('a', { ip: '192.0.2.7' })
    await cluster.pass(30_000)
    await cluster.pass(240_000)
    const [first, ...again] = cluster.written()
    assert.equal(first, written)
    assert.ok(again.length > 0 && again.length <= 300_000 / everyMs, `${again.length}`)
    assert.deepEqual([...new Set(again)], [refused])
    assert.deepEqual(cluster.events, [])
    cluster.faults.clear()
    await cluster.pass(60_000)
    assert.deepEqual(await cluster.listed('foo'), ['192.0.2.7 :8080'])
    await stop()
  }
})

test('a write that succeeded although its response was lost is detected', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  cluster.fault({ fault: { type: 'garbage' }, methods: ['PUT'], times: 1 })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('b', { ip: '192.0.2.2' })
  await cluster.pass(5_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])
  await stop()
})

test('Endpoints for which the server wrongly reports 404 are deleted later, or corrected for a new Service', {
  timeout: 60_000,
}, async () => {
  for (const returns of [false, true]) {
    const cluster = await Cluster.started()
    await cluster.pod('a', { ip: '192.0.2.1' })
    await cluster.service('foo')
    const stop = await cluster.lead({}, 2_000)
    cluster.fault({ fault: { type: 'status', status: 404 }, methods: ['DELETE'], times: 1 })
    await cluster.deleteService('foo')
    await cluster.pass()
    if (returns) await cluster.service('foo')
    await cluster.podStatus('a', { ip: '192.0.2.7' })
    await cluster.pass(200_000)
    assert.deepEqual(await cluster.listed('foo'), returns ? ['192.0.2.7 :8080'] : [])
    assert.equal((await cluster.endpoints('foo')) === undefined, !returns)
    await stop()
  }
})
