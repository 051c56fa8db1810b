import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Bitmap } from '../../src/net/bitmap.ts'

const pairs = fc.integer({ min: 0, max: 200 }).chain((size) => {
  const numbers: fc.Arbitrary<number[]> =
    size === 0 ? fc.constant([]) : fc.uniqueArray(fc.integer({ min: 0, max: size - 1 }), { maxLength: size })
  return fc.record({ size: fc.constant(size), a: numbers, b: numbers })
})

function bitmapOf(size: number, numbers: readonly number[]): Bitmap {
  const bitmap = new Bitmap(size)
  for (const number of numbers) bitmap.add(number)
  return bitmap
}

test('minus, and, or return the set difference, intersection and union, and do not change their operands', () => {
  fc.assert(
    fc.property(pairs, ({ size, a, b }) => {
      const [one, other] = [bitmapOf(size, a), bitmapOf(size, b)]
      const [as, bs] = [new Set(a), new Set(b)]
      for (const [result, expected] of [
        [one.minus(other), a.filter((number) => !bs.has(number))],
        [one.and(other), a.filter((number) => bs.has(number))],
        [one.or(other), [...new Set([...a, ...b])]],
      ] as const) {
        assert.deepEqual(
          [...result],
          expected.toSorted((x, y) => x - y),
        )
        assert.equal(result.count, expected.length)
        assert.deepEqual(result.toBytes(), bitmapOf(size, expected).toBytes())
        assert.deepEqual(Bitmap.fromBytes(size, result.toBytes())?.toBytes(), result.toBytes())
      }
      assert.deepEqual(new Set(one), as)
      assert.deepEqual(new Set(other), bs)
    }),
  )
})
