import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Semaphore } from '../../src/runtime/semaphore.ts'

const never = new AbortController().signal

test('so many are let in at a time, the others in the order in which they came, and who gives up keeps nobody waiting', async () => {
  const semaphore = new Semaphore(2)
  const entered: string[] = []
  const enter = (name: string, signal = never) =>
    semaphore.acquire(signal).then((slot) => {
      entered.push(name)
      return slot
    })
  const leaver = new AbortController()
  const first = await enter('first')
  const second = await enter('second')
  const gone = assert.rejects(enter('gone', leaver.signal), { message: 'too late' })
  const third = enter('third')
  const fourth = enter('fourth')
  leaver.abort(new Error('too late'))
  await gone
  assert.deepEqual(entered, ['first', 'second'])
  first.release()
  ;(await third).release()
  ;(await fourth).release()
  second.release()
  assert.deepEqual(entered, ['first', 'second', 'third', 'fourth'])
  await assert.rejects(semaphore.acquire(AbortSignal.abort(new Error('over'))), { message: 'over' })
  await Promise.all([enter('fifth'), enter('sixth')])
})
