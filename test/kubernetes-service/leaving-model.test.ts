import assert from 'node:assert/strict'
import { test } from 'node:test'
import { playLeaving } from './leaving-model.ts'

/** Ten times as many: test/long/leaving-model.test.ts. */
const seeds = Number(process.env.SEEDS ?? 500)

test('whatever the order of the steps of two masters that leave, the list is never empty and never without one that serves', async () => {
  for (let seed = 1; seed <= seeds; seed++) {
    const { what, violations, trace } = await playLeaving(seed)
    assert.deepEqual(violations, [], `seed ${seed}: ${JSON.stringify(what)}\n${trace.join('\n')}`)
  }
})
