import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PackedObjects, type Packing } from '../../src/kube/packed-objects.ts'
import type { KubeObject } from '../../src/kube/resources.ts'
import { keyOfObject, refOfObject } from '../../src/kube/store.ts'

interface Sample extends KubeObject {
  readonly texts: readonly (string | undefined)[]
  readonly kind: string
}

const packing: Packing<Sample> = {
  split: ({ texts, kind }) => ({ texts, shared: { kind } }),
  join: (ref, texts, shared) => ({ metadata: ref, texts, ...(shared as { readonly kind: string }) }),
  keysOf: ({ texts }) => texts.filter((text) => text !== undefined),
}

function sample(name: string, texts: readonly (string | undefined)[], kind = 'a', namespace?: string): Sample {
  return { metadata: { namespace, name } as object, texts, kind }
}

const someText = fc.oneof(
  fc.constantFrom('', 'x', '10.0.0.1', '\u0000\u00ff', 'ж', 'a'.repeat(253), 'b'.repeat(254), 'c'.repeat(70_000)),
  fc.string({ unit: 'binary', maxLength: 20 }),
)
const someSample = fc
  .tuple(
    fc.constantFrom('a', 'b', 'c', 'd', 'e'.repeat(254)),
    fc.array(fc.option(someText, { nil: undefined }), { maxLength: 4 }),
    fc.constantFrom('a', 'b', 'k'.repeat(600)),
    fc.constantFrom(undefined, 'ns', 'other'),
  )
  .map((parts) => sample(...parts))

test('after any changes each object can be read back unchanged, by name and by key', () => {
  const step = fc.record({ object: someSample, deletes: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const objects = new PackedObjects(packing)
      const model = new Map<string, Sample>()
      for (const { object, deletes } of steps) {
        const key = keyOfObject(object)
        if (deletes) {
          objects.delete(refOfObject(object))
          model.delete(key)
        } else {
          objects.set(refOfObject(object), object)
          // An object that exists keeps its place.
          model.set(key, object)
        }
        assert.equal(objects.size, model.size)
        assert.deepEqual(objects.get(refOfObject(object)), model.get(key))
        assert.deepEqual([...objects], [...model.values()])
        assert.deepEqual([...objects.snapshot()], [...model.values()])
        for (const text of object.texts) {
          if (text === undefined) continue
          const holders = [...model.values()].filter(({ texts }) => texts.includes(text))
          assert.deepEqual(new Set(objects.by(text).map(keyOfObject)), new Set(holders.map(keyOfObject)))
          assert.equal(objects.by(text).length, holders.length)
        }
      }
      assert.equal(objects.get({ namespace: 'none', name: 'a' }), undefined)
      assert.deepEqual(objects.by('no such key'), [])
    }),
  )
})

test('an iteration visits each unchanged object once, even if many others are deleted meanwhile', () => {
  const objects = new PackedObjects(packing)
  const put = (name: string, text: string): void => objects.set({ name }, sample(name, [text]))
  for (let index = 0; index < 1_000; index++) put(`n${index}`, `t${index}`)
  const visited: string[] = []
  const snapshot = objects.snapshot()
  let visits = 0
  for (const { metadata } of objects) {
    const name = metadata?.name as string
    visited.push(name)
    if (++visits !== 100) continue
    for (let index = 0; index < 1_000; index++) if (index < 100 || index >= 200) objects.delete({ name: `n${index}` })
    for (let index = 0; index < 50; index++) put(`later${index}`, 'x')
  }
  const unchanged = Array.from({ length: 100 }, (_, index) => `n${100 + index}`)
  assert.deepEqual(
    visited.filter((name) => unchanged.includes(name)),
    unchanged,
  )
  assert.equal(new Set(visited).size, visited.length)
  assert.equal([...snapshot].length, 1_000)
  assert.equal(objects.size, 150)
  assert.deepEqual(
    unchanged.map((name) => objects.get({ name })?.texts[0]),
    unchanged.map((name) => name.replace('n', 't')),
  )
  assert.deepEqual(objects.by('t150').map(keyOfObject), ['n150'])
  assert.deepEqual(objects.by('t3'), [])
})

test('objects stay intact when they have more distinct values than can be shared', () => {
  const objects = new PackedObjects(packing)
  const count = 66_000
  const at = (index: number): Sample => sample(`n${index}`, [`t${index}`, undefined], `kind ${index}`, `ns${index % 7}`)
  for (let index = 0; index < count; index++) objects.set(refOfObject(at(index)), at(index))
  for (const index of [0, 65_534, 65_535, 65_536, count - 1]) {
    assert.deepEqual(objects.get(refOfObject(at(index))), at(index))
    assert.deepEqual(objects.by(`t${index}`), [at(index)])
  }
  objects.delete(refOfObject(at(count - 1)))
  assert.equal(objects.get(refOfObject(at(count - 1))), undefined)
})
