import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Random, randomInteger, randomSuffix, randomUuid, seededRandom } from '../../src/runtime/random.ts'
import { systemRandom } from '../../src/runtime/system-clock.ts'

const constant = (value: number): Random => ({ next: () => value })
const take = (random: Random, count: number): number[] => Array.from({ length: count }, () => random.next())

test('a seed and a name always give the same sequence', () => {
  assert.deepEqual(
    take(seededRandom(1, 'a'), 3).map((value) => value * 2 ** 32),
    [1_339_353_147, 885_437_699, 3_277_212_408],
  )
})

test('another seed or another name gives another sequence', () => {
  const sequences = [seededRandom(1, 'a'), seededRandom(2, 'a'), seededRandom(1, 'b'), seededRandom(1, '')]
  assert.equal(new Set(sequences.map((random) => take(random, 4).join())).size, 4)
})

for (const [name, random] of [
  ['the system', systemRandom()],
  ['a seed', seededRandom(7, 'test')],
] as const) {
  test(`the numbers of ${name} lie in [0, 1) and are evenly distributed`, () => {
    const tenths = new Array<number>(10).fill(0)
    for (const value of take(random, 20_000)) {
      assert.ok(value >= 0 && value < 1)
      tenths[Math.floor(value * 10)] = (tenths[Math.floor(value * 10)] as number) + 1
    }
    for (const count of tenths) assert.ok(Math.abs(count - 2000) < 300, tenths.join())
  })
}

test('random integers range from 0 to just below the limit', () => {
  assert.equal(randomInteger(constant(0), 6), 0)
  assert.equal(randomInteger(constant(1 - 2 ** -53), 6), 5)
})

test('a random suffix has the requested length and uses the alphabet of generated names', () => {
  assert.match(randomSuffix(seededRandom(1, 's'), 500), /^[bcdfghjklmnpqrstvwxz2456789]{500}$/)
})

test('a UUID has version 4 for any random numbers', () => {
  for (const random of [constant(0), constant(1 - 2 ** -53), seededRandom(3, 'u')]) {
    assert.match(randomUuid(random), /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  }
})
