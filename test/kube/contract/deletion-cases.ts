import assert from 'node:assert/strict'
import { endpoints } from '../../../src/kube/resources.ts'
import { type ContractCase, endpointsIn, fieldsOf, isNewer, rejectsWith, withMeta } from './contract-case.ts'

const stale = '1'

/** delete: preconditions, finalizers, and the state afterwards. */
export const deletionCases: readonly ContractCase[] = [
  {
    name: 'delete removes an object, and a second delete is NotFound',
    async run({ api, namespace }) {
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.delete(endpoints, { namespace, name: 'a' })
      await rejectsWith('NotFound', api.get(endpoints, { namespace, name: 'a' }))
      await rejectsWith('NotFound', api.delete(endpoints, { namespace, name: 'a' }))
    },
  },
  {
    name: 'delete with the current uid and resourceVersion removes the object',
    async run({ api, namespace }) {
      const { metadata } = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const { uid, resourceVersion } = metadata ?? {}
      await api.delete(endpoints, { namespace, name: 'a' }, { uid, resourceVersion })
      await rejectsWith('NotFound', api.get(endpoints, { namespace, name: 'a' }))
    },
  },
  {
    name: 'delete with another uid or an old resourceVersion is a Conflict and does not change the object',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const ref = { namespace, name: 'a' }
      await rejectsWith('Conflict', api.delete(endpoints, ref, { uid: 'other' }))
      await rejectsWith('Conflict', api.delete(endpoints, ref, { resourceVersion: stale }))
      await rejectsWith('Conflict', api.delete(endpoints, ref, { uid: created.metadata?.uid, resourceVersion: stale }))
      assert.deepEqual(await api.get(endpoints, ref), created)
    },
  },
  {
    name: 'an object with a finalizer gets a deletionTimestamp, and is removed together with its last finalizer',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      const created = await api.create(endpoints, endpointsIn(namespace, 'a', { finalizers: ['example.com/hold'] }))
      await api.delete(endpoints, ref)
      const marked = await api.get(endpoints, ref)
      assert.match(marked.metadata?.deletionTimestamp ?? '', /Z$/)
      assert.ok(isNewer(marked, created))
      await api.update(endpoints, withMeta(marked, { finalizers: [] }))
      await rejectsWith('NotFound', api.get(endpoints, ref))
    },
  },
  {
    name: 'a second delete of an object with a deletionTimestamp changes nothing',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.create(endpoints, endpointsIn(namespace, 'a', { finalizers: ['example.com/hold'] }))
      await api.delete(endpoints, ref)
      const marked = await api.get(endpoints, ref)
      await api.delete(endpoints, ref)
      assert.deepEqual(await api.get(endpoints, ref), marked)
    },
  },
  {
    name: 'an object with a deletionTimestamp can be changed, but cannot get a new finalizer',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.create(endpoints, endpointsIn(namespace, 'a', { finalizers: ['example.com/hold'] }))
      await api.delete(endpoints, ref)
      const marked = await api.get(endpoints, ref)
      const labelled = await api.update(endpoints, withMeta(marked, { labels: { x: 'y' } }))
      assert.equal(labelled.metadata?.deletionTimestamp, marked.metadata?.deletionTimestamp)
      const held = withMeta(labelled, { finalizers: ['example.com/hold', 'example.com/more'] })
      assert.ok(fieldsOf(await rejectsWith('Invalid', api.update(endpoints, held))).includes('metadata.finalizers'))
      await rejectsWith('AlreadyExists', api.create(endpoints, endpointsIn(namespace, 'a')))
    },
  },
  {
    name: 'an object that is created again has a new uid, and a delete with the former uid is a Conflict',
    async run({ api, namespace }) {
      const first = await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.delete(endpoints, { namespace, name: 'a' })
      const second = await api.create(endpoints, endpointsIn(namespace, 'a'))
      assert.notEqual(second.metadata?.uid, first.metadata?.uid)
      assert.ok(isNewer(second, first))
      const { uid } = first.metadata ?? {}
      await rejectsWith('Conflict', api.delete(endpoints, { namespace, name: 'a' }, { uid }))
    },
  },
]
