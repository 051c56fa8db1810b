import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Trigger } from '../../src/runtime/trigger.ts'

const { signal } = new AbortController()

test('several causes are taken together, each once', async () => {
  const trigger = new Trigger<'a' | 'b'>()
  trigger.fire('a')
  trigger.fire('b')
  trigger.fire('a')
  assert.deepEqual([...(await trigger.take(signal))], ['a', 'b'])
  trigger.fire('b')
  assert.deepEqual([...(await trigger.take(signal))], ['b'])
})

test('the first cause wakes a waiting take', async () => {
  const trigger = new Trigger<'a'>()
  const taken = trigger.take(signal)
  trigger.fire('a')
  assert.deepEqual([...(await taken)], ['a'])
})

test('an aborted wait rejects with the reason of its signal and loses no cause', async () => {
  const trigger = new Trigger<'a'>()
  const stop = new AbortController()
  const taken = trigger.take(stop.signal)
  stop.abort(new Error('stopped'))
  await assert.rejects(taken, /stopped/)
  trigger.fire('a')
  await assert.rejects(trigger.take(stop.signal), /stopped/)
  assert.deepEqual([...(await trigger.take(signal))], ['a'])
})
