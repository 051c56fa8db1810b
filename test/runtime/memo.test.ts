import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoize } from '../../src/runtime/memo.ts'

test('memoize remembers results up to its limit and computes the oldest again', () => {
  const read: string[] = []
  const lengthOf = memoize((text) => {
    read.push(text)
    return { length: text.length }
  }, 2)
  const first = lengthOf('a')
  assert.equal(lengthOf('a'), first)
  assert.deepEqual(lengthOf('bb'), { length: 2 })
  assert.deepEqual(lengthOf('ccc'), { length: 3 })
  assert.deepEqual(lengthOf('a'), { length: 1 })
  assert.deepEqual(read, ['a', 'bb', 'ccc', 'a'])
})
