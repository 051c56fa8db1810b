import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BackoffOptions, exponentialBackoff } from '../../src/runtime/backoff.ts'
import { seededRandom } from '../../src/runtime/random.ts'

const delays = (options: BackoffOptions, random: number, count: number): number[] => {
  const backoff = exponentialBackoff(options, { next: () => random })
  return Array.from({ length: count }, () => backoff.next())
}

test('delays double up to the limit and then stay constant', () => {
  assert.deepEqual(delays({ firstMs: 2, maxMs: 20 }, 0.9, 6), [2, 4, 8, 16, 20, 20])
})

test('the first delay respects the limit too', () => {
  assert.deepEqual(delays({ firstMs: 50, maxMs: 20 }, 0.9, 2), [20, 20])
})

test('full jitter chooses between zero and the whole delay', () => {
  assert.deepEqual(delays({ firstMs: 100, maxMs: 400, jitter: 'full' }, 0, 3), [0, 0, 0])
  assert.deepEqual(delays({ firstMs: 100, maxMs: 400, jitter: 'full' }, 0.5, 4), [50, 100, 200, 200])
})

test('a jitter factor adds to every delay, even to the longest', () => {
  assert.deepEqual(delays({ firstMs: 100, maxMs: 200, jitter: 1 }, 0.5, 3), [150, 300, 300])
})

test('a reset restarts the delays at the first', () => {
  const backoff = exponentialBackoff({ firstMs: 1, maxMs: 100 }, seededRandom(1, 'backoff'))
  for (let i = 0; i < 5; i++) backoff.next()
  backoff.reset()
  assert.equal(backoff.next(), 1)
})
