import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Mutex } from '../../src/runtime/mutex.ts'

test('pieces of work run one at a time, in their order, whatever happens to the ones before', async () => {
  const mutex = new Mutex()
  const done: string[] = []
  const first = Promise.withResolvers<void>()
  const results = [
    mutex.run(async () => {
      await first.promise
      done.push('first')
      throw new Error('failed')
    }),
    mutex.run(async () => {
      done.push('second')
      return 2
    }),
  ]
  await Promise.resolve()
  assert.deepEqual(done, [])
  first.resolve()
  const [one, two] = await Promise.allSettled(results)
  assert.equal(one?.status, 'rejected')
  assert.deepEqual(two, { status: 'fulfilled', value: 2 })
  assert.deepEqual(done, ['first', 'second'])
})
