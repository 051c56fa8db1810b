import assert from 'node:assert/strict'
import { test } from 'node:test'
import { playLeaving } from '../kubernetes-service/leaving-model.ts'

const seeds = 10_000

test('in 10,000 orders of the steps of masters that leave, the list is never empty and never without one that serves', async (t) => {
  const calls = { most: 0, all: 0 }
  for (let seed = 1; seed <= seeds; seed++) {
    const { what, violations, trace } = await playLeaving(seed)
    assert.deepEqual(violations, [], `seed ${seed}: ${JSON.stringify(what)}\n${trace.join('\n')}`)
    calls.most = Math.max(calls.most, trace.length)
    calls.all += trace.length
  }
  t.diagnostic(`${Math.round(calls.all / seeds)} calls in a row on average, ${calls.most} at most`)
})
