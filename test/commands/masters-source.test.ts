import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MastersSource } from '../../src/commands/masters-source.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

test('close waits until its parts are closed', async () => {
  const closing = Promise.withResolvers<void>()
  const told: string[] = []
  const source = new MastersSource({
    clock: new VirtualClock().view(),
    leaseStore: 'etcd',
    place: 'here',
    inspector: { inspect: async () => [], evict: async () => false },
    api: 'no API server',
    close() {
      told.push('closing')
      return closing.promise
    },
  })
  const closed = source.close().then(() => told.push('closed'))
  await new Promise(setImmediate)
  assert.deepEqual(told, ['closing'])
  closing.resolve()
  await closed
})
