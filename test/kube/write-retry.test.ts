import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import { WriteRetry } from '../../src/kube/write-retry.ts'
import { seededRandom } from '../../src/runtime/random.ts'

const table: readonly [codes: readonly KubeErrorCode[], waits: readonly number[]][] = [
  [
    ['Invalid', 'NotFound', 'ServerError', 'Timeout', 'Unreachable', 'TooManyRequests', 'NoCredentials', 'BadResponse'],
    [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000],
  ],
  [
    ['Forbidden', 'Unauthorized', 'BadRequest', 'Refused'],
    [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_000, 10_000],
  ],
  [['Conflict'], [0, 0, 0, 2, 4, 8]],
]

for (const [codes, waits] of table) {
  test(`after ${codes.join(', ')} the waits are ${waits.slice(0, 4).join(', ')}, … ${waits.at(-1)} ms`, () => {
    for (const code of codes) {
      const retry = new WriteRetry(seededRandom(1, code))
      const error = new KubeError(code, 'no')
      assert.deepEqual(
        waits.map(() => retry.next(error)),
        waits,
      )
      retry.reset()
      assert.equal(retry.next(error), waits[0])
    }
  })
}

test('what is no answer of a server is tried again like an outage', () => {
  assert.equal(new WriteRetry(seededRandom(1, 'x')).next(new Error('no live masters')), 2)
})
