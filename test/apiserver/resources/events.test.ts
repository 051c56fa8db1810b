import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from '../embedded.ts'

const core = '/api/v1/namespaces/default/events'
const grouped = '/apis/events.k8s.io/v1/namespaces/default/events'
const involvedObject = { kind: 'Pod', name: 'web', namespace: 'default' }
const event = { metadata: { name: 'web.1' }, involvedObject, reason: 'Started', message: 'it runs', type: 'Normal' }

test('an Event created in the core group is readable in events.k8s.io with the field names of that group', async () => {
  const embedded = await Embedded.started()
  const { body: created } = await embedded.send('POST', core, event)
  assert.equal(created.apiVersion, 'v1')
  assert.equal(created.reportingComponent, '')
  const { body: read } = await embedded.send('GET', `${grouped}/web.1`)
  assert.equal(read.apiVersion, 'events.k8s.io/v1')
  assert.deepEqual(read.regarding, involvedObject)
  assert.equal(read.note, 'it runs')
  assert.equal(read.involvedObject, undefined)
  assert.equal(read.reportingController, undefined)
  assert.equal(read.metadata.uid, created.metadata.uid)
  assert.equal(read.metadata.resourceVersion, created.metadata.resourceVersion)
})

test('a watch of core Events receives all changes, including a deletion through events.k8s.io', async () => {
  const embedded = await Embedded.started()
  const events = await embedded.watch('', undefined, core)
  await embedded.send('POST', core, event)
  await embedded.send('PATCH', `${core}/web.1`, { count: 2 }, 'application/merge-patch+json')
  await embedded.send('DELETE', `${grouped}/web.1`)
  for (const expected of [
    ['ADDED', 'v1', 'it runs', undefined],
    ['MODIFIED', 'v1', 'it runs', 2],
    ['DELETED', 'v1', 'it runs', 2],
  ]) {
    const { type, object } = (await events.next()).value
    assert.deepEqual([type, object.apiVersion, object.message, object.count], expected)
  }
})

for (const [watched, written, apiVersion, words] of [
  [grouped, core, 'events.k8s.io/v1', 'note'],
  [core, grouped, 'v1', 'message'],
] as const) {
  test(`a watch of Events in ${apiVersion} receives what is written through the other group`, async () => {
    const embedded = await Embedded.started()
    const events = await embedded.watch('', undefined, watched)
    const { message, involvedObject: regarding, ...common } = event
    const rest = { note: message, regarding, action: 'Start', eventTime: '2026-01-01T00:00:00.000000Z' }
    const controller = { reportingController: 'example.com/web', reportingInstance: 'web-1' }
    const body = written === core ? event : { ...common, ...rest, ...controller }
    assert.equal((await embedded.send('POST', written, body)).status, 201)
    const metadata = { labels: { a: '1' } }
    await embedded.send('PATCH', `${written}/web.1`, { metadata }, 'application/merge-patch+json')
    await embedded.send('DELETE', `${written}/web.1`)
    for (const expected of [
      ['ADDED', apiVersion, 'it runs', undefined],
      ['MODIFIED', apiVersion, 'it runs', '1'],
      ['DELETED', apiVersion, 'it runs', '1'],
    ]) {
      const { type, object } = (await events.next()).value
      assert.deepEqual([type, object.apiVersion, object[words], object.metadata.labels?.a], expected)
    }
  })
}

test('a patch that does not change an Event writes nothing', async () => {
  const embedded = await Embedded.started()
  const { body: created } = await embedded.send('POST', core, event)
  const { body: again } = await embedded.send(
    'PATCH',
    `${core}/web.1`,
    { reason: 'Started' },
    'application/merge-patch+json',
  )
  assert.equal(again.metadata.resourceVersion, created.metadata.resourceVersion)
})

test('Events support the field selectors of kubectl describe', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', core, event)
  const select = async (selector: string): Promise<number> =>
    (await embedded.send('GET', `${core}?fieldSelector=${encodeURIComponent(selector)}`)).body.items.length
  assert.equal(await select('involvedObject.name=web,involvedObject.namespace=default'), 1)
  assert.equal(await select('involvedObject.name=web,involvedObject.namespace=blue'), 0, 'every term must hold')
  assert.equal(await select('involvedObject.uid=other'), 0)
  assert.equal(await select('source=kubelet'), 0)
})

test('deleting a Namespace deletes its Events', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', '/api/v1/namespaces', { metadata: { name: 'blue' } })
  const path = core.replace('default', 'blue')
  await embedded.send('POST', path, { ...event, involvedObject: { ...involvedObject, namespace: 'blue' } })
  await embedded.send('DELETE', '/api/v1/namespaces/blue')
  await embedded.time.advance(10)
  assert.equal((await embedded.send('GET', '/api/v1/namespaces/blue')).status, 404)
  assert.deepEqual((await embedded.send('GET', path)).body.items, [])
})
