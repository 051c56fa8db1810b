import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aborted } from '../../src/runtime/signals.ts'
import { together } from '../../src/runtime/together.ts'

test('all end with the signal, whether they resolve or reject with its reason', async () => {
  const stop = new AbortController()
  const ended: string[] = []
  const running = together(stop.signal, [
    (signal) => aborted(signal).then(() => ended.push('resolves')),
    async (signal) => {
      await aborted(signal)
      ended.push('rejects')
      throw signal.reason
    },
  ])
  stop.abort(new Error('enough'))
  await running
  assert.deepEqual(ended.sort(), ['rejects', 'resolves'])
})

test('one that fails ends the others, and its failure is told when they have ended', async () => {
  const ended: string[] = []
  const running = together(new AbortController().signal, [
    (signal) => aborted(signal).then(() => ended.push('the other')),
    async () => {
      throw new Error('a mistake')
    },
  ])
  await assert.rejects(running, /a mistake/)
  assert.deepEqual(ended, ['the other'])
})
