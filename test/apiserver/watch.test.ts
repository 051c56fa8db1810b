import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { drain, Embedded, type WatchedEvent } from './embedded.ts'

const path = '/api/v1/namespaces/default/endpoints'

async function make(embedded: Embedded, ...names: readonly string[]): Promise<void> {
  for (const name of names) await embedded.send('POST', path, { metadata: { name } })
}

async function nextOf(events: AsyncIterator<WatchedEvent>): Promise<WatchedEvent> {
  const result = await events.next()
  assert.ok(result.done !== true)
  return result.value
}

test('a watch with allowWatchBookmarks receives a bookmark with the latest revision every minute; others do not', async () => {
  const embedded = await Embedded.started()
  const { revision } = embedded.server
  const asking = await embedded.watch(`resourceVersion=${revision}&allowWatchBookmarks=true`)
  const silent = await embedded.watch(`resourceVersion=${revision}`)
  await embedded.time.advance(59_000)
  await embedded.send('POST', '/api/v1/namespaces', { metadata: { name: 'elsewhere' } })
  await embedded.time.advance(1_000)
  const bookmark = await nextOf(asking)
  assert.deepEqual(bookmark, {
    type: 'BOOKMARK',
    object: { kind: 'Endpoints', apiVersion: 'v1', metadata: { resourceVersion: String(revision + 1) } },
  })
  await embedded.time.advance(120_000)
  assert.deepEqual(await drain(asking), [`BOOKMARK ${revision + 1}`, `BOOKMARK ${revision + 1}`])
  assert.deepEqual(await drain(silent), [])
})

test('only a watch with sendInitialEvents receives a bookmark after the initial events', async () => {
  const embedded = await Embedded.started()
  await make(embedded, 'a')
  const { revision } = embedded.server
  const query = 'allowWatchBookmarks=true'
  for (const older of [query, `${query}&resourceVersion=0`]) {
    assert.deepEqual(await drain(await embedded.watch(older)), ['ADDED a'], older)
  }
  const asking = `${query}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`
  assert.deepEqual(await drain(await embedded.watch(asking)), ['ADDED a', `BOOKMARK ${revision}`])
})

test('a watch from a compacted revision receives an ERROR event with 410 and ends', async () => {
  const embedded = await Embedded.started()
  const { revision } = embedded.server
  await make(embedded, 'a')
  embedded.server.compact()
  const events = await embedded.watch(`resourceVersion=${revision}`)
  const { type, object } = await nextOf(events)
  assert.equal(type, 'ERROR')
  assert.deepEqual(object, {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: `too old resource version: ${revision} (${revision + 1})`,
    reason: 'Expired',
    code: 410,
  })
  assert.deepEqual(await drain(events), ['END'])
  assert.deepEqual(await drain(await embedded.watch(`resourceVersion=${revision + 1}`)), [])
})

test('a watch for initial events from a future revision receives an ERROR event with 504 and ends', async () => {
  const embedded = await Embedded.started()
  const events = await embedded.watch('resourceVersion=1000&sendInitialEvents=true&resourceVersionMatch=NotOlderThan')
  assert.deepEqual(await drain(events), ['ERROR 504', 'END'])
})

test('a watch from a future revision receives only the changes after it', async () => {
  const embedded = await Embedded.started()
  const events = await embedded.watch(`resourceVersion=${embedded.server.revision + 1}`)
  await make(embedded, 'a', 'b')
  assert.deepEqual(await drain(events), ['ADDED b'])
})

test('without timeoutSeconds a watch ends after 30 to 60 minutes', async () => {
  const embedded = await Embedded.started()
  const { revision } = embedded.server
  await make(embedded, 'a')
  const one = await embedded.watch(`resourceVersion=${revision}`)
  const two = await embedded.watch(`resourceVersion=${revision}`)
  await embedded.time.advance(1_799_000)
  assert.deepEqual(await drain(one), ['ADDED a'])
  await embedded.time.advance(1_801_000)
  assert.deepEqual(await drain(two), ['ADDED a', 'END'])
})

test('a watch ends after exactly timeoutSeconds', async () => {
  const embedded = await Embedded.started()
  const { revision } = embedded.server
  const one = await embedded.watch(`resourceVersion=${revision}&timeoutSeconds=5`)
  const two = await embedded.watch(`resourceVersion=${revision}&timeoutSeconds=5`)
  await embedded.time.advance(4_999)
  assert.deepEqual(await drain(one), [])
  await embedded.time.advance(1)
  assert.deepEqual(await drain(two), ['END'])
})

test('a watcher over the buffer limit is disconnected; initial events do not count towards it', async () => {
  const embedded = await Embedded.started([], { watchBufferLimit: 3 })
  await make(embedded, 'a', 'b', 'c', 'd', 'e')
  const events = await embedded.watch('')
  assert.equal((await drain(events)).length, 5)
  const unread = await embedded.watch('')
  await make(embedded, 'x', 'y', 'z')
  assert.equal((await drain(unread)).length, 8)
  const slow = await embedded.watch(`resourceVersion=${embedded.server.revision}`)
  await make(embedded, 'f', 'g', 'h')
  const behind = await embedded.watch(`resourceVersion=${embedded.server.revision}`)
  assert.deepEqual(await drain(slow), ['ADDED f', 'ADDED g', 'ADDED h'])
  await make(embedded, 'i', 'j', 'k', 'l')
  assert.deepEqual(await drain(behind), ['END'])
})

const maps = '/api/v1/namespaces/default/configmaps'

function mapOf(index: number, labels: object = {}): object {
  return { metadata: { name: 'large', labels }, data: { a: `${index}`.padEnd(1024 * 1024, 'x') } }
}

test('a watcher with too much unread data is disconnected; one that reads its events is not', {
  timeout: 60_000,
}, async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', maps, mapOf(0))
  const all = `resourceVersion=${embedded.server.revision}`
  const [unread, read] = [await embedded.watch(all, undefined, maps), await embedded.watch(all, undefined, maps)]
  for (let index = 0; index < 70; index++) {
    await embedded.send('PUT', `${maps}/large`, mapOf(index + 1))
    assert.equal((await nextOf(read)).object.data.a.slice(0, 3), `${index + 1}`.padEnd(3, 'x'))
  }
  assert.deepEqual(await drain(unread), ['END'])
})

test('small changes of a large object do not overflow a watch; a label selector that hides the former states does', {
  timeout: 60_000,
}, async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', maps, mapOf(0))
  const all = `resourceVersion=${embedded.server.revision}`
  const unread = await embedded.watch(all, undefined, maps)
  const selecting = await embedded.watch(`${all}&labelSelector=show`, undefined, maps)
  const label = (show: string | null) =>
    embedded.send('PATCH', `${maps}/large`, { metadata: { labels: { show } } }, 'application/merge-patch+json')
  for (let index = 0; index < 35; index++) {
    await label('')
    await label(null)
  }
  assert.equal((await drain(unread)).length, 70)
  for (let index = 0; index < 35; index++) {
    await embedded.send('PUT', `${maps}/large`, mapOf(index + 1))
    await label('')
    await label(null)
  }
  assert.deepEqual(await drain(selecting), ['END'])
})

test('an ended watch leaves no abort listener and no timer', async () => {
  const embedded = await Embedded.started()
  const { timers } = embedded.clock
  const controller = new AbortController()
  const query = `resourceVersion=${embedded.server.revision}&allowWatchBookmarks=true`
  const aborted = await embedded.watch(query, controller.signal)
  const returned = await embedded.watch(query, controller.signal)
  assert.equal(getEventListeners(controller.signal, 'abort').length, 2)
  // Each watch has sent one bookmark, and waits for the next.
  await embedded.time.advance(90_000)
  await returned.return?.()
  assert.equal(getEventListeners(controller.signal, 'abort').length, 1)
  controller.abort()
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  assert.equal(embedded.clock.timers, timers)
  assert.deepEqual(await drain(aborted), ['END'])
  await make(embedded, 'a')
  await embedded.time.advance(120_000)
  assert.deepEqual(await drain(returned), ['END'])
})

test('a second concurrent read of a watch is rejected', async () => {
  const embedded = await Embedded.started()
  const events = await embedded.watch(`resourceVersion=${embedded.server.revision}`)
  const first = events.next()
  await assert.rejects(events.next(), /one reader/)
  await make(embedded, 'a')
  assert.equal((await first).done, false)
})

for (const as of ['Table', 'PartialObjectMetadata']) {
  test(`a watch as ${as} ends on return(), both during a pending read and before the first one`, async () => {
    const embedded = await Embedded.started()
    const timers = embedded.clock.timers
    const open = async (): Promise<AsyncIterator<WatchedEvent>> => {
      const headers = { accept: `application/json;as=${as};g=meta.k8s.io;v=v1` }
      const request = { method: 'GET', path, query: [['watch', 'true']], headers, stream: true } as const
      const response = await embedded.server.handle(request, new AbortController().signal)
      if (!('stream' in response)) return assert.fail('no watch')
      return response.stream[Symbol.asyncIterator]() as AsyncIterator<WatchedEvent>
    }
    const waiting = await open()
    const next = waiting.next()
    await waiting.return?.()
    assert.equal((await next).done, true)
    const unread = await open()
    assert.equal(embedded.clock.timers, timers + 1)
    await unread.return?.()
    assert.equal(embedded.clock.timers, timers)
  })
}
