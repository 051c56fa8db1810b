import assert from 'node:assert/strict'
import { test } from 'node:test'
import { patiently } from '../../../src/drill/live/patience.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'

test('what fails is tried again each second until it succeeds, and said once', async () => {
  const time = new VirtualClock()
  const said: unknown[] = []
  let tries = 0
  const attempt = async (): Promise<void> => {
    if (++tries < 4) throw new Error(`no ${tries}`)
  }
  const done = patiently(attempt, { clock: time.view(), limitMs: 60_000, say: (failure) => said.push(`${failure}`) })
  await time.advance(3_000)
  await done
  assert.deepEqual([tries, said], [4, ['Error: no 1']])
})

test('when the time is over it fails with the last failure', async () => {
  const time = new VirtualClock()
  let tries = 0
  const attempt = async (): Promise<void> => {
    throw new Error(`no ${++tries}`)
  }
  const done = patiently(attempt, { clock: time.view(), limitMs: 5_000, say: () => {} })
  const failed = assert.rejects(done, /^Error: no 6$/)
  await time.advance(10_000)
  await failed
})
