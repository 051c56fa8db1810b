import assert from 'node:assert/strict'
import { endpoints, namespaces, serviceCidrs } from '../../../src/kube/resources.ts'
import { type ContractCase, endpointsIn, rejectsWith, WatchReader, withMeta } from './contract-case.ts'

const initialEventsEnd = 'k8s.io/initial-events-end'

/** watch: where it begins, which events it sends, how it ends. */
export const watchCases: readonly ContractCase[] = [
  {
    name: 'a watch reports each change after its resourceVersion once and in order',
    async run({ api, namespace }, t) {
      const first = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const { resourceVersion } = first.metadata ?? {}
      const watch = await new WatchReader(api, endpoints, { namespace, resourceVersion }, t).open()
      const second = await api.create(endpoints, endpointsIn(namespace, 'b'))
      const third = await api.update(endpoints, withMeta(first, { labels: { x: 'y' } }))
      await api.delete(endpoints, { namespace, name: 'b' })
      assert.deepEqual(await watch.next(), { type: 'ADDED', object: second })
      assert.deepEqual(await watch.next(), { type: 'MODIFIED', object: third })
      assert.equal(await watch.nextText(), 'DELETED b')
    },
  },
  {
    name: 'a watch from an earlier resourceVersion reports the changes since then first',
    async run({ api, namespace }, t) {
      const { metadata } = await api.list(endpoints, { namespace })
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      await api.delete(endpoints, { namespace, name: 'a' })
      const watch = new WatchReader(api, endpoints, { namespace, resourceVersion: metadata.resourceVersion }, t)
      assert.deepEqual(await watch.nextTexts(3), ['ADDED a', 'ADDED b', 'DELETED a'])
      await api.create(endpoints, endpointsIn(namespace, 'c'))
      assert.equal(await watch.nextText(), 'ADDED c')
    },
  },
  ...[undefined, '0'].map(
    (resourceVersion): ContractCase => ({
      name: `a watch ${resourceVersion === undefined ? 'without a resourceVersion' : 'from "0"'} reports the existing objects first`,
      async run({ api, namespace }, t) {
        await api.create(endpoints, endpointsIn(namespace, 'a'))
        await api.create(endpoints, endpointsIn(namespace, 'b'))
        await api.delete(endpoints, { namespace, name: 'a' })
        await api.list(endpoints, { namespace })
        const watch = new WatchReader(api, endpoints, { namespace, resourceVersion }, t)
        assert.equal(await watch.nextText(), 'ADDED b')
        await api.create(endpoints, endpointsIn(namespace, 'c'))
        assert.equal(await watch.nextText(), 'ADDED c')
      },
    }),
  ),
  {
    name: 'with sendInitialEvents an annotated bookmark follows the existing objects, and another watch can start from it',
    async run({ api, namespace }, t) {
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      const query = { namespace, sendInitialEvents: true, allowWatchBookmarks: true }
      const watch = new WatchReader(api, endpoints, query, t)
      assert.deepEqual(await watch.nextTexts(2), ['ADDED a', 'ADDED b'])
      const bookmark = await watch.next()
      assert.ok(bookmark.type === 'BOOKMARK')
      assert.deepEqual(bookmark.object.metadata?.annotations, { [initialEventsEnd]: 'true' })
      assert.equal(bookmark.object.kind, 'Endpoints')
      const { resourceVersion } = bookmark.object.metadata ?? {}
      await api.create(endpoints, endpointsIn(namespace, 'c'))
      assert.equal(await watch.nextText(), 'ADDED c')
      const next = new WatchReader(api, endpoints, { namespace, resourceVersion }, t)
      assert.equal(await next.nextText(), 'ADDED c')
    },
  },
  {
    name: 'with sendInitialEvents a watch of an empty collection reports only the bookmark',
    async run({ api, namespace }, t) {
      const query = { namespace, sendInitialEvents: true, allowWatchBookmarks: true }
      const watch = new WatchReader(api, endpoints, query, t)
      assert.equal(await watch.nextText(), 'BOOKMARK')
    },
  },
  {
    name: 'with sendInitialEvents only existing objects that the selector selects are reported',
    async run({ api, namespace }, t) {
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      const query = { namespace, fieldSelector: 'metadata.name=b', sendInitialEvents: true, allowWatchBookmarks: true }
      const watch = new WatchReader(api, endpoints, query, t)
      assert.deepEqual(await watch.nextTexts(2), ['ADDED b', 'BOOKMARK'])
    },
  },
  {
    name: 'an object that begins to match the selector is ADDED, and one that no longer matches is DELETED in its last selected state',
    async run({ api, namespace }, t) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const { resourceVersion } = created.metadata ?? {}
      const query = { namespace, labelSelector: 'app=x', resourceVersion }
      const watch = await new WatchReader(api, endpoints, query, t).open()
      const entered = await api.update(endpoints, withMeta(created, { labels: { app: 'x' } }))
      const changed = await api.update(endpoints, withMeta(entered, { labels: { app: 'x', more: '1' } }))
      const left = await api.update(endpoints, withMeta(changed, { labels: { app: 'y' } }))
      await api.update(endpoints, withMeta(left, { labels: { app: 'z' } }))
      await api.create(endpoints, endpointsIn(namespace, 'b', { labels: { app: 'x' } }))
      assert.deepEqual(await watch.next(), { type: 'ADDED', object: entered })
      assert.deepEqual(await watch.next(), { type: 'MODIFIED', object: changed })
      const gone = await watch.next()
      assert.ok(gone.type === 'DELETED')
      assert.deepEqual(gone.object.metadata?.labels, { app: 'x', more: '1' })
      assert.equal(gone.object.metadata?.resourceVersion, left.metadata?.resourceVersion)
      assert.equal(await watch.nextText(), 'ADDED b')
    },
  },
  {
    name: 'a watch of one name reports no other object',
    async run({ api, namespace }, t) {
      const { metadata } = await api.list(endpoints, { namespace })
      const { resourceVersion } = metadata
      const query = { namespace, fieldSelector: 'metadata.name=b', resourceVersion }
      const watch = await new WatchReader(api, endpoints, query, t).open()
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      assert.equal(await watch.nextText(), 'ADDED b')
    },
  },
  {
    name: 'a watch of a namespace reports no other namespace, and a watch without a namespace reports all',
    async run({ api, namespace }, t) {
      const other = `${namespace}-x`
      await api.create(namespaces, { metadata: { name: other } })
      const { resourceVersion } = (await api.list(endpoints, { namespace })).metadata
      const fieldSelector = `metadata.name=${namespace}`
      const one = await new WatchReader(api, endpoints, { namespace, fieldSelector, resourceVersion }, t).open()
      const all = await new WatchReader(api, endpoints, { fieldSelector, resourceVersion }, t).open()
      await api.create(endpoints, endpointsIn(other, namespace))
      await api.create(endpoints, endpointsIn(namespace, namespace))
      const event = await one.next()
      assert.ok(event.type === 'ADDED')
      assert.equal(event.object.metadata?.namespace, namespace)
      const both = [await all.next(), await all.next()].map(
        (event) => event.type !== 'ERROR' && event.object.metadata?.namespace,
      )
      assert.deepEqual(both, [other, namespace])
    },
  },
  {
    name: 'a watch reports no write without a change',
    async run({ api, namespace }, t) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const { resourceVersion } = created.metadata ?? {}
      const watch = await new WatchReader(api, endpoints, { namespace, resourceVersion }, t).open()
      await api.update(endpoints, created)
      await api.patch(endpoints, { namespace, name: 'a' }, { type: 'merge', body: {} })
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      assert.equal(await watch.nextText(), 'ADDED b')
    },
  },
  {
    name: 'a DELETED event has the last state of the object and a resourceVersion from which a watch can start',
    async run({ api, namespace }, t) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a', { labels: { x: 'y' } }))
      const { resourceVersion } = created.metadata ?? {}
      const watch = await new WatchReader(api, endpoints, { namespace, resourceVersion }, t).open()
      await api.delete(endpoints, { namespace, name: 'a' })
      const gone = await watch.next()
      assert.ok(gone.type === 'DELETED')
      assert.ok(BigInt(gone.object.metadata?.resourceVersion ?? '') > BigInt(resourceVersion ?? ''))
      assert.deepEqual(withMeta(gone.object, { resourceVersion }), created)
      await api.create(endpoints, endpointsIn(namespace, 'b'))
      const after = gone.object.metadata?.resourceVersion
      const next = new WatchReader(api, endpoints, { namespace, resourceVersion: after }, t)
      assert.equal(await next.nextText(), 'ADDED b')
    },
  },
  {
    name: 'an object with a finalizer is MODIFIED when it gets a deletionTimestamp and DELETED when it is removed',
    async run({ api, namespace }, t) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a', { finalizers: ['example.com/hold'] }))
      const { resourceVersion } = created.metadata ?? {}
      const watch = await new WatchReader(api, endpoints, { namespace, resourceVersion }, t).open()
      await api.delete(endpoints, { namespace, name: 'a' })
      await api.patch(endpoints, { namespace, name: 'a' }, { type: 'merge', body: { metadata: { finalizers: null } } })
      const marked = await watch.next()
      assert.ok(marked.type === 'MODIFIED' && marked.object.metadata?.deletionTimestamp !== undefined)
      assert.equal(await watch.nextText(), 'DELETED a')
    },
  },
  {
    name: 'a watch reports writes to a status',
    async run({ api, namespace }, t) {
      const name = namespace
      const created = await api.create(serviceCidrs, { metadata: { name }, spec: { cidrs: ['198.51.100.0/24'] } })
      const { resourceVersion } = created.metadata ?? {}
      const query = { fieldSelector: `metadata.name=${name}`, resourceVersion }
      const watch = await new WatchReader(api, serviceCidrs, query, t).open()
      const ready = {
        type: 'Ready',
        status: 'True',
        reason: 'Tested',
        message: '',
        lastTransitionTime: '2026-01-01T00:00:00Z',
      }
      const updated = await api.update(
        serviceCidrs,
        { ...created, status: { conditions: [ready] } },
        { subresource: 'status' },
      )
      assert.deepEqual(await watch.next(), { type: 'MODIFIED', object: updated })
    },
  },
  {
    name: 'a watch that starts during writes and one that starts before them report the same events',
    async run({ api, namespace }, t) {
      const { resourceVersion } = (await api.list(endpoints, { namespace })).metadata
      const one = await new WatchReader(api, endpoints, { namespace, resourceVersion }, t).open()
      const names = ['a', 'b', 'c', 'd', 'e', 'f']
      await Promise.all(names.map((name) => api.create(endpoints, endpointsIn(namespace, name))))
      const two = await new WatchReader(api, endpoints, { namespace, resourceVersion }, t).open()
      const received = await one.nextTexts(names.length)
      assert.deepEqual(await two.nextTexts(names.length), received)
      assert.deepEqual(
        [...received].sort(),
        names.map((name) => `ADDED ${name}`),
      )
    },
  },
  {
    name: 'the server ends a watch after its timeoutSeconds',
    async run({ api, namespace }, t) {
      const { resourceVersion } = (await api.list(endpoints, { namespace })).metadata
      const watch = await new WatchReader(api, endpoints, { namespace, resourceVersion, timeoutSeconds: 1 }, t).open()
      await watch.ends()
    },
  },
  {
    name: 'an abort of the signal ends the iteration without an error',
    async run({ api, namespace }, t) {
      const { resourceVersion } = (await api.list(endpoints, { namespace })).metadata
      const watch = await new WatchReader(api, endpoints, { namespace, resourceVersion }, t).open()
      watch.stop()
      await watch.ends()
    },
  },
  {
    name: 'a watch with an aborted signal ends at once without an event',
    async run({ api, namespace }) {
      for await (const event of api.watch(endpoints, { namespace, signal: AbortSignal.abort() })) {
        assert.fail(`the watch reported ${event.type}`)
      }
    },
  },
  {
    name: 'after the loop over a watch was left early, another watch can be opened',
    async run({ api, namespace }) {
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      const { signal } = new AbortController()
      for (let round = 0; round < 3; round++) {
        for await (const event of api.watch(endpoints, { namespace, signal })) {
          assert.equal(event.type, 'ADDED')
          break
        }
      }
    },
  },
  {
    name: 'a watch from a malformed resourceVersion is refused',
    async run({ api, namespace }, t) {
      const watch = new WatchReader(api, endpoints, { namespace, resourceVersion: 'yesterday' }, t)
      await rejectsWith('ServerError', watch.next())
    },
  },
  {
    name: 'a watch with a malformed selector is a BadRequest',
    async run({ api, namespace }, t) {
      const watch = new WatchReader(api, endpoints, { namespace, labelSelector: '=' }, t)
      await rejectsWith('BadRequest', watch.next())
    },
  },
]
