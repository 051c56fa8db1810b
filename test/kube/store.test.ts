import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { KubeObject } from '../../src/kube/resources.ts'
import { type Change, keyOf, keyOfObject, refOfKey, Store } from '../../src/kube/store.ts'
import { atOnce } from '../../src/runtime/steps.ts'
import { objectMapOf } from './object-map-of.ts'

function object(name: string, resourceVersion: string, uid = 'u', namespace = 'ns'): KubeObject {
  return { metadata: { namespace, name, uid, resourceVersion } }
}

test('a key is namespace/name, or the bare name if the object has no namespace', () => {
  assert.equal(keyOf({ namespace: 'a', name: 'b' }), 'a/b')
  assert.equal(keyOf({ name: 'b' }), 'b')
  assert.equal(keyOf({ namespace: '', name: 'b' }), 'b')
  assert.equal(keyOfObject({ metadata: { name: 'b', namespace: 'a' } }), 'a/b')
  assert.deepEqual([refOfKey('a/bc'), refOfKey('b')], [{ namespace: 'a', name: 'bc' }, { name: 'b' }])
})

test('a change carries the previously stored object', () => {
  const store = new Store()
  const first = object('a', '1')
  const second = object('a', '2')
  assert.deepEqual(store.apply({ type: 'ADDED', object: first }), { type: 'added', object: first })
  assert.deepEqual(store.apply({ type: 'MODIFIED', object: second }), { type: 'updated', old: first, object: second })
  assert.equal(store.get({ namespace: 'ns', name: 'a' }), second)
  // The object of a DELETED event may have a state that was never reported. The change carries the stored object.
  assert.deepEqual(store.apply({ type: 'DELETED', object: object('a', '3') }), { type: 'deleted', old: second })
  assert.equal(store.list().length, 0)
})

test('an event with the stored uid and resourceVersion is no change, nor is the deletion of an unknown object', () => {
  const store = new Store()
  store.apply({ type: 'ADDED', object: object('a', '1') })
  assert.equal(store.apply({ type: 'MODIFIED', object: object('a', '1') }), undefined)
  assert.equal(store.apply({ type: 'DELETED', object: object('b', '1') }), undefined)
  assert.equal(store.apply({ type: 'MODIFIED', object: object('a', '1', 'other') })?.type, 'updated')
})

test('replace yields deletions first, and a recreated object as deleted and as added', () => {
  const store = new Store()
  for (const name of ['same', 'gone', 'remade', 'changed']) store.apply({ type: 'ADDED', object: object(name, '1') })
  const present = [object('new', '5'), object('changed', '4'), object('remade', '3', 'other'), object('same', '1')]
  const changes = [...atOnce(store.replace(objectMapOf(present)))]
  assert.deepEqual(
    changes.map((change) => [change.type, (change.type === 'deleted' ? change.old : change.object).metadata?.name]),
    [
      ['deleted', 'gone'],
      ['deleted', 'remade'],
      ['added', 'new'],
      ['updated', 'changed'],
      ['added', 'remade'],
    ],
  )
})

test('list groups the objects by namespace, and orders those of a namespace by their arrival', () => {
  const store = new Store()
  atOnce(store.replace(objectMapOf([object('b', '1'), object('b', '1', 'u', 'other'), object('a', '1')])))
  assert.deepEqual(store.list().map(keyOfObject), ['ns/b', 'ns/a', 'other/b'])
  assert.deepEqual(
    [store.at('ns/a'), store.at('other/b')].map((one) => one && keyOfObject(one)),
    ['ns/a', 'other/b'],
  )
  assert.deepEqual([store.at('other/a'), store.get({ name: 'a' })], [undefined, undefined])
})

test('an index built from the changes alone always equals the store', () => {
  const anyObject = fc
    .tuple(
      fc.constantFrom('a', 'b', 'c'),
      fc.constantFrom('1', '2', '3'),
      fc.constantFrom('u', 'v'),
      fc.constantFrom('ns', ''),
    )
    .map((parts) => object(...parts))
  const step = fc.oneof(
    fc.record({ type: fc.constantFrom('ADDED' as const, 'MODIFIED' as const, 'DELETED' as const), object: anyObject }),
    fc.array(anyObject, { maxLength: 6 }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30, size: 'max' }), (steps) => {
      const store = new Store()
      const index = new Set<KubeObject>()
      for (const one of steps) {
        const changes: readonly (Change<KubeObject> | undefined)[] =
          'type' in one ? [store.apply(one)] : [...atOnce(store.replace(objectMapOf(one)))]
        for (const change of changes) {
          if (change === undefined) continue
          if (change.type !== 'added') assert.ok(index.delete(change.old), 'a removed object was reported before')
          if (change.type !== 'deleted') index.add(change.object)
        }
        assert.deepEqual(index, new Set(store.list()))
      }
    }),
    { numRuns: 300 },
  )
})
