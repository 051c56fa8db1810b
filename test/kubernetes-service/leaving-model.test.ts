import assert from 'node:assert/strict'
import { test } from 'node:test'
import { playLeaving } from './leaving-model.ts'

/** test/long/leaving-model.test.ts plays ten times as many. */
const seeds = 1_000

test('whatever the order of the steps of masters that leave, the list is never empty and never without one that serves', async () => {
  for (let seed = 1; seed <= seeds; seed++) {
    const { what, violations, trace } = await playLeaving(seed)
    assert.deepEqual(violations, [], `seed ${seed}: ${JSON.stringify(what)}\n${trace.join('\n')}`)
  }
})
