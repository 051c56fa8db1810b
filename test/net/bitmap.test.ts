import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Bitmap } from '../../src/net/bitmap.ts'

/** What Go's big.Int.Bytes() gives for a number with these bits. */
function goBytes(numbers: Iterable<number>): Buffer {
  let value = 0n
  for (const number of numbers) value |= 1n << BigInt(number)
  if (value === 0n) return Buffer.of()
  const hex = value.toString(16)
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
}

function ascending(numbers: Iterable<number>): number[] {
  return [...numbers].sort((a, b) => a - b)
}

function bitmapOf(size: number, numbers: Iterable<number>): Bitmap {
  const bitmap = new Bitmap(size)
  for (const number of numbers) bitmap.add(number)
  return bitmap
}

const sets = fc.integer({ min: 1, max: 300 }).chain((size) =>
  fc.record({
    size: fc.constant(size),
    numbers: fc.uniqueArray(fc.nat(size - 1)),
    others: fc.uniqueArray(fc.nat(size - 1)),
    steps: fc.array(fc.record({ add: fc.boolean(), number: fc.nat(size - 1) })),
  }),
)

test('a bitmap behaves like a set of numbers under any sequence of adds and deletes', () => {
  fc.assert(
    fc.property(sets, ({ size, steps }) => {
      const bitmap = new Bitmap(size)
      const model = new Set<number>()
      for (const { add, number } of steps) {
        const before = model.has(number)
        assert.equal(bitmap.has(number), before)
        if (add) assert.equal(bitmap.add(number), model.add(number) && !before)
        else assert.equal(bitmap.delete(number), model.delete(number))
        assert.equal(bitmap.count, model.size)
      }
      assert.deepEqual([...bitmap], ascending(model))
      for (let number = 0; number < size; number++) assert.equal(bitmap.has(number), model.has(number))
    }),
    { numRuns: 2000 },
  )
})

test("the bytes equal those of Go's big.Int and read back to the same numbers, with or without leading zero bytes", () => {
  fc.assert(
    fc.property(sets, fc.nat(3), ({ size, numbers }, zeros) => {
      const bytes = bitmapOf(size, numbers).toBytes()
      assert.deepEqual(Buffer.from(bytes), goBytes(numbers))
      const read = Bitmap.fromBytes(size, Buffer.concat([Buffer.alloc(zeros), bytes]))
      assert.deepEqual(read && [...read], ascending(numbers))
      assert.equal(read?.count, numbers.length)
    }),
    { numRuns: 2000 },
  )
})

test('bytes are accepted exactly if every number in them is below the size', () => {
  fc.assert(
    fc.property(fc.nat(80), fc.uint8Array({ maxLength: 10 }), (size, bytes) => {
      const value = BigInt(`0x0${Buffer.from(bytes).toString('hex')}`)
      const read = Bitmap.fromBytes(size, bytes)
      assert.equal(read !== undefined, value < 1n << BigInt(size))
      if (read !== undefined) assert.deepEqual(Buffer.from(read.toBytes()), goBytes(read))
    }),
    { numRuns: 5000 },
  )
})

test('two bitmaps have the same bytes exactly if they have the same numbers, in whatever order these were added', () => {
  fc.assert(
    fc.property(sets, ({ size, numbers, others }) => {
      const bytes = Buffer.from(bitmapOf(size, numbers).toBytes())
      const areSame = ascending(numbers).join() === ascending(others).join()
      assert.equal(bytes.equals(bitmapOf(size, others).toBytes()), areSame)
      assert.ok(bytes.equals(bitmapOf(size, numbers.toReversed()).toBytes()))
    }),
    { numRuns: 1000 },
  )
})

test('later changes of the input bytes do not change the bitmap', () => {
  const bytes = Buffer.of(1, 0)
  const bitmap = Bitmap.fromBytes(16, bytes)
  bytes.fill(0xff)
  assert.deepEqual(bitmap && [...bitmap], [8])
})

test('add refuses a number out of range; has and delete return false for it', () => {
  const bitmap = bitmapOf(10, [0, 1, 9])
  for (const number of [-1, 10, 16, 1.5, 2 ** 32, 2 ** 32 + 1, -(2 ** 32), Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.throws(() => bitmap.add(number), {
      name: 'RangeError',
      message: `${number} is not one of the numbers 0 to 9`,
    })
    assert.equal(bitmap.has(number), false, `${number}`)
    assert.equal(bitmap.delete(number), false, `${number}`)
  }
  assert.deepEqual([...bitmap], [0, 1, 9])
})

test('a bitmap of the largest range of kube-apiserver can be filled', () => {
  const size = 2 ** 20
  const bitmap = new Bitmap(size)
  for (let number = size - 1; number >= 0; number--) bitmap.add(number)
  assert.equal(bitmap.count, size)
  const bytes = bitmap.toBytes()
  assert.ok(bytes.length === size / 8 && bytes.every((byte) => byte === 0xff))
  let expected = 0
  for (const number of bitmap) assert.equal(number, expected++)
  assert.equal(expected, size)
})
