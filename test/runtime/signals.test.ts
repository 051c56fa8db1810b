import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { abortable, aborted, linkedController, together } from '../../src/runtime/signals.ts'

const listeners = (...signals: AbortSignal[]): number[] =>
  signals.map((signal) => getEventListeners(signal, 'abort').length)

test('the first aborted source aborts a linked controller with its reason; the controller removes its listeners from all sources', () => {
  const a = new AbortController()
  const b = new AbortController()
  const { controller } = linkedController(a.signal, undefined, b.signal)
  assert.equal(controller.signal.aborted, false)
  b.abort('b')
  assert.deepEqual(listeners(a.signal, b.signal), [0, 0])
  a.abort('a')
  assert.equal(controller.signal.reason, 'b')
})

test('a controller linked to an aborted signal is aborted from the start', () => {
  const a = new AbortController()
  const { controller } = linkedController(a.signal, AbortSignal.abort('early'))
  assert.equal(controller.signal.reason, 'early')
  assert.deepEqual(listeners(a.signal), [0])
})

test('an unlinked controller ignores its sources, but its owner can still abort it', () => {
  const source = new AbortController()
  const { controller, unlink } = linkedController(source.signal)
  unlink()
  unlink()
  assert.deepEqual(listeners(source.signal), [0])
  source.abort()
  assert.equal(controller.signal.aborted, false)
  controller.abort('own')
  assert.equal(controller.signal.reason, 'own')
})

test('an abortable promise settles as the promise does and leaves no listener', async () => {
  const { signal } = new AbortController()
  assert.equal(await abortable(Promise.resolve(1), signal), 1)
  await assert.rejects(abortable(Promise.reject(new Error('own')), signal), /own/)
  assert.equal(await abortable(Promise.resolve(2), undefined), 2)
  assert.deepEqual(listeners(signal), [0])
})

test('an abortable promise rejects with the reason of an aborted signal; a later rejection of the original promise is handled', async () => {
  const controller = new AbortController()
  const slow = Promise.withResolvers<void>()
  const waiting = abortable(slow.promise, controller.signal)
  controller.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  await assert.rejects(abortable(new Promise(() => {}), controller.signal), /enough/)
  slow.reject(new Error('late'))
  await new Promise(setImmediate)
})

test('aborted resolves when the signal is aborted, at once if it already is', async () => {
  const controller = new AbortController()
  const waiting = aborted(controller.signal)
  controller.abort()
  await waiting
  await aborted(controller.signal)
})

test('together ends when its signal is aborted, whether the tasks resolve or reject with its reason', async () => {
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

test('a task that fails aborts the others, and together rejects with its error after they have ended', async () => {
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
