import assert from 'node:assert/strict'
import { test } from 'node:test'
import { messageOf } from '../../src/runtime/message-of.ts'

test('an error says its message, without its class; anything else says itself', () => {
  const thrown: readonly unknown[] = [new RangeError('too far'), new Error(''), 'text', undefined, null, 7]
  assert.deepEqual(thrown.map(messageOf), ['too far', '', 'text', 'undefined', 'null', '7'])
})
