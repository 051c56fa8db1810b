import assert from 'node:assert/strict'
import { test } from 'node:test'
import { humanDuration } from '../../src/documents/human-duration.ts'

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

test("a span is written as in upstream's table (k8s.io/apimachinery pkg/util/duration)", () => {
  const table: readonly (readonly [ms: number, text: string])[] = [
    [second, '1s'],
    [70 * second, '70s'],
    [190 * second, '3m10s'],
    [70 * minute, '70m'],
    [47 * hour, '47h'],
    [49 * hour, '2d1h'],
    [8 * day + 2 * hour, '8d'],
    [367 * day, '367d'],
    [730 * day + 25 * hour, '2y1d'],
    [2920 * day + 2 * hour, '8y'],
  ]
  for (const [ms, text] of table) assert.equal(humanDuration(ms), text)
})

test('at its borders too, and what is below a second is cut off', () => {
  const table: readonly (readonly [ms: number, text: string])[] = [
    [-5 * second, '0s'],
    [0, '0s'],
    [999, '0s'],
    [2 * minute - 1, '119s'],
    [2 * minute, '2m'],
    [3 * minute + 4 * second, '3m4s'],
    [10 * minute - 1, '9m59s'],
    [10 * minute, '10m'],
    [3 * hour - 1, '179m'],
    [3 * hour, '3h'],
    [8 * hour - 1, '7h59m'],
    [8 * hour, '8h'],
    [2 * day, '2d'],
    [8 * day - 1, '7d23h'],
    [730 * day, '2y'],
  ]
  for (const [ms, text] of table) assert.equal(humanDuration(ms), text)
})
