import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleep } from '../../src/runtime/clock.ts'
import { RequestLimit, RequestTimeout } from '../../src/runtime/request-limit.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

const { signal } = new AbortController()

function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const limit = new RequestLimit({ clock, limitMs: 100 })
  /** How long it was before the request was given up; undefined when it was answered. */
  const ask = async (tookMs: number): Promise<number | undefined> => {
    const startMs = time.nowMs
    const ended = limit
      .run(signal, (limited) => sleep(clock, tookMs, limited))
      .then(
        () => undefined,
        (error: unknown) => {
          assert.ok(error instanceof RequestTimeout)
          return time.nowMs - startMs
        },
      )
    await time.advance(tookMs)
    return ended
  }
  return { time, limit, ask }
}

test('a request is given up at the limit, and the next one has as long', async () => {
  const { ask } = setUp()
  assert.deepEqual([await ask(99), await ask(5_000), await ask(5_000), await ask(99)], [undefined, 100, 100, undefined])
})

test('a store that is slow all the time gets more time after a few requests, until it is fast again', async () => {
  const { ask } = setUp()
  for (let request = 0; request < 4; request++) assert.equal(await ask(150), 100)
  for (let request = 0; request < 3; request++) assert.equal(await ask(150), undefined)
  assert.equal(await ask(50), undefined)
  assert.equal(await ask(150), 100)
})

test('an abort ends a request with its own reason, at once', async () => {
  const { limit } = setUp()
  const stop = new AbortController()
  const ended = limit.run(stop.signal, () => new Promise(() => {}))
  stop.abort(new Error('stopped'))
  await assert.rejects(ended, { message: 'stopped' })
})
