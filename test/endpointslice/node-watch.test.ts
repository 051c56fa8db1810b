import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AwaitedNodes } from '../../src/endpointslice/node-watch.ts'

test('who waits for a Node is told by its name, until it waits no more', () => {
  const awaited = new AwaitedNodes()
  awaited.set('n/a', new Set(['x', 'y']))
  awaited.set('n/b', new Set(['x']))
  assert.deepEqual(awaited.waitingFor('x'), ['n/a', 'n/b'])
  assert.deepEqual(awaited.waitingFor('y'), ['n/a'])
  awaited.set('n/a', new Set(['z']))
  assert.deepEqual(awaited.waitingFor('x'), ['n/b'])
  assert.deepEqual(awaited.waitingFor('y'), [])
  awaited.set('n/b', new Set())
  assert.deepEqual(awaited.waitingFor('x'), [])
  assert.deepEqual(awaited.waitingFor('z'), ['n/a'])
})
