import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Collection, Compacted, Store, type StoredObject } from '../../src/apiserver/store.ts'

function object(name: string, more: object = {}): StoredObject {
  return { kind: 'Thing', apiVersion: 'v1', metadata: { name, uid: name, resourceVersion: '' }, ...more }
}

test('one revision counter serves all collections', () => {
  const store = new Store(10)
  const a = store.collection('a').put('x', object('x'))
  const b = store.collection('b').put('x', object('x'))
  assert.deepEqual([a.metadata.resourceVersion, b.metadata.resourceVersion, store.revision], ['2', '3', 3])
})

test('keys are sorted by code unit, whatever the order of their writes', () => {
  const collection = new Store(10).collection('a')
  for (const key of ['b/a', 'a/b', 'a-b/a', 'a.b/a', 'a/a']) collection.put(key, object(key))
  assert.deepEqual(collection.keys(''), ['a-b/a', 'a.b/a', 'a/a', 'a/b', 'b/a'])
  assert.deepEqual(collection.keys('a/'), ['a/a', 'a/b'])
})

test('reading changes older than the history limit throws Compacted', () => {
  const store = new Store(3)
  const collection = store.collection('a')
  for (let i = 0; i < 20; i++) collection.put('x', object('x'))
  assert.ok(collection.changesAfter(store.revision - 3).length === 3)
  assert.throws(() => collection.changesAfter(2), Compacted)
})

test('the history of a large object is limited by size; content that its versions share counts once', () => {
  const large = 'x'.repeat(2 ** 20)
  const collection = new Store(1000).collection('a')
  const retainedChanges = (spec: () => object): number => {
    for (let i = 0; i < 500; i++) collection.put('x', object('x', { spec: spec() }))
    let count = 0
    for (let from = 0; count === 0; from++) {
      try {
        count = collection.changesAfter(from).length
      } catch (error) {
        assert.ok(error instanceof Compacted)
      }
    }
    return count
  }
  const rewritten = retainedChanges(() => ({ large }))
  assert.ok(rewritten >= 31 && rewritten <= 64, `${rewritten}`)
  const shared = { large }
  assert.ok(retainedChanges(() => ({ shared })) >= 500)
})

test('compaction removes all changes of all collections, and later changes are recorded again', () => {
  const store = new Store(10)
  const collections = [store.collection('a'), store.collection('b')]
  for (const collection of collections) collection.put('x', object('x'))
  const { revision } = store
  store.compact()
  for (const collection of collections) {
    assert.throws(() => collection.changesAfter(revision - 1), { name: 'Compacted', oldest: revision })
    assert.deepEqual(collection.changesAfter(revision), [])
  }
  for (const collection of collections) collection.put('y', object('y'))
  for (const collection of collections) assert.equal(collection.changesAfter(revision).length, 1)
})

test('a subscriber receives each change synchronously until it unsubscribes', () => {
  const collection = new Store(10).collection('a')
  const received: string[] = []
  const stop = collection.subscribe((change) => received.push(`${change.type} ${change.revision}`))
  collection.put('x', object('x'))
  collection.put('x', object('x', { more: 1 }))
  collection.remove('x', object('x'))
  stop()
  collection.put('x', object('x'))
  assert.deepEqual(received, ['ADDED 2', 'MODIFIED 3', 'DELETED 4'])
})

const step = fc.record({ key: fc.constantFrom('a', 'b', 'c/d', 'e'), remove: fc.boolean() })

function play(collection: Collection, { key, remove }: { key: string; remove: boolean }): void {
  const live = collection.get(key)
  if (!remove) collection.put(key, object(key))
  else if (live !== undefined) collection.remove(key, live)
}

test('at(revision) returns the state as it was at that revision', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
      const store = new Store(100)
      const collection = store.collection('a')
      const states = new Map<number, [string, StoredObject | undefined][]>()
      const snapshot = () =>
        states.set(
          store.revision,
          collection.keys('').map((key) => [key, collection.get(key)]),
        )
      snapshot()
      for (const one of steps) {
        play(collection, one)
        snapshot()
      }
      for (const [revision, state] of states)
        assert.deepEqual(new Map([...collection.at(revision)].sort()), new Map(state))
    }),
  )
})
