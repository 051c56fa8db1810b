import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { TokenBucket } from '../../src/runtime/token-bucket.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

const bucketOf = (qps: number, burst: number) => {
  const time = new VirtualClock()
  const clock = time.view()
  return { time, bucket: new TokenBucket({ clock, qps, burst }) }
}

test('a full bucket gives its burst at once and then one token per interval', async () => {
  const { time, bucket } = bucketOf(10, 3)
  assert.deepEqual(
    [1, 2, 3, 4].map(() => bucket.tryTake()),
    [true, true, true, false],
  )
  await time.advance(99)
  assert.equal(bucket.tryTake(), false)
  await time.advance(1)
  assert.deepEqual(
    [1, 2].map(() => bucket.tryTake()),
    [true, false],
  )
})

test('an idle bucket never holds more than its burst', async () => {
  const { time, bucket } = bucketOf(10, 2)
  await time.advance(60_000)
  assert.deepEqual(
    [1, 2, 3].map(() => bucket.tryTake()),
    [true, true, false],
  )
})

test('each reservation waits behind the previous ones', () => {
  const { bucket } = bucketOf(10, 1)
  assert.deepEqual(
    [1, 2, 3].map(() => bucket.reserve()),
    [0, 100, 200],
  )
  assert.equal(bucket.tryTake(), false)
})

test('in any period the bucket gives at most the burst plus the rate times the period', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(300), { minLength: 1, maxLength: 40, size: 'max' }), async (gaps) => {
      const { time, bucket } = bucketOf(20, 4)
      const takenAtMs: number[] = []
      for (const gapMs of gaps) {
        await time.advance(gapMs)
        takenAtMs.push(time.nowMs + bucket.reserve())
      }
      for (let from = 0; from < takenAtMs.length; from++) {
        for (let to = from; to < takenAtMs.length; to++) {
          const spanMs = (takenAtMs[to] as number) - (takenAtMs[from] as number)
          assert.ok(to - from + 1 <= 4 + (spanMs / 1000) * 20 + 1e-6)
        }
      }
    }),
    { numRuns: 100 },
  )
})
