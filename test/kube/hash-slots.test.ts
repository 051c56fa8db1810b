import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { HashSlots, hashOf } from '../../src/kube/hash-slots.ts'

function idsOf(slots: HashSlots, hash: number): readonly number[] {
  const found: number[] = []
  slots.find(hash, (id) => {
    found.push(id)
    return false
  })
  return found.sort((a, b) => a - b)
}

test('after any additions and deletions a search finds exactly the ids of each hash', () => {
  // Neighbours, one value that all tables of up to 1,024 slots mix up with another, and negative ones.
  const hash = fc.oneof(fc.integer({ min: 12, max: 19 }), fc.constantFrom(1024 + 15, -1, -(2 ** 31), 2 ** 31 - 1))
  const step = fc.record({ hash, id: fc.integer({ min: 0, max: 5 }), adds: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
      const slots = new HashSlots()
      const model = new Map<number, Set<number>>()
      for (const { hash, id, adds } of steps) {
        const ids = model.get(hash) ?? new Set()
        if (adds && !ids.has(id)) slots.add(hash, id)
        if (!adds) slots.delete(hash, id)
        if (adds) ids.add(id)
        else ids.delete(id)
        model.set(hash, ids)
        for (const [known, expected] of model) {
          assert.deepEqual(
            idsOf(slots, known),
            [...expected].sort((a, b) => a - b),
          )
        }
      }
    }),
  )
})

test('hundreds of ids with one hash, and with a neighbouring one, are all found after the tables have grown', () => {
  const slots = new HashSlots()
  const ids = Array.from({ length: 2_000 }, (_, id) => id)
  for (const id of ids) slots.add(id % 3 === 0 ? 15 : 16, id)
  for (const id of ids) if (id % 5 === 0) slots.delete(id % 3 === 0 ? 15 : 16, id)
  for (const id of ids) slots.add(id + 3_000, id)
  const left = (rest: boolean) => ids.filter((id) => id % 5 !== 0 && (id % 3 === 0) === rest)
  assert.deepEqual(idsOf(slots, 15), left(true))
  assert.deepEqual(idsOf(slots, 16), left(false))
  for (const id of ids) assert.deepEqual(idsOf(slots, id + 3_000), [id])
})

test('a search returns the first id that passes the test, or -1; renumber changes the ids that it finds', () => {
  const slots = new HashSlots()
  for (const id of [7, 8, 9]) slots.add(3, id)
  assert.equal(
    slots.find(3, (id) => id > 7),
    8,
  )
  assert.equal(
    slots.find(4, () => true),
    -1,
  )
  slots.renumber(new Int32Array([0, 0, 0, 0, 0, 0, 0, 1, 2, 0]))
  assert.deepEqual(idsOf(slots, 3), [0, 1, 2])
})

test('hashes of similar texts differ in their last bits, and with the seed', () => {
  for (const [what, texts] of Object.entries({
    addresses: Array.from({ length: 4096 }, (_, index) => `10.0.${index >> 8}.${index & 255}`),
    names: Array.from({ length: 4096 }, (_, index) => `service-${index}`),
  })) {
    // 4,096 random numbers of 12 bits have 2,589 different values on average; 128 fewer are 5 standard deviations.
    const places = new Set(texts.map((text) => hashOf(text, 1) & 4095))
    assert.ok(places.size > 2_461, `${what}: ${places.size}`)
  }
  assert.notEqual(hashOf('web', 1), hashOf('web', 2))
  assert.equal(hashOf('web', 1), hashOf('web', 1))
})
