import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WritePacing } from '../../src/workloads/write-pacing.ts'

test('the first write waits for nothing, the next until the pause after it is over', () => {
  const pacing = new WritePacing((size) => size * 50)
  assert.equal(pacing.delayMs('default/web', 1_000), 0)
  pacing.written('default/web', 1_000, 2)
  assert.equal(pacing.delayMs('default/web', 1_000), 100)
  assert.equal(pacing.delayMs('default/web', 1_099), 1)
  assert.equal(pacing.delayMs('default/web', 1_100), 0)
  assert.equal(pacing.delayMs('default/web', 9_000), 0)
  assert.equal(pacing.delayMs('default/api', 1_000), 0)
})

test('what writes nothing is followed by no pause, and a Service that goes leaves none', () => {
  const pacing = new WritePacing((size) => size * 50)
  pacing.written('default/web', 1_000, 0)
  assert.equal(pacing.delayMs('default/web', 1_000), 0)
  pacing.written('default/web', 1_000, 9)
  pacing.delete('default/web')
  assert.equal(pacing.delayMs('default/web', 1_000), 0)
})
