import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleep } from '../../src/runtime/clock.ts'
import { type RequestKind, RequestLimit, RequestTimeout, Semaphore } from '../../src/runtime/request-limit.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

const { signal } = new AbortController()

function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const limit = new RequestLimit({ clock, limitMs: 100 })
  /** After how long the request was given up; undefined if it was answered. */
  const send = (tookMs: number, kind: RequestKind = 'write'): Promise<number | undefined> => {
    const startMs = time.nowMs
    return limit
      .run(kind, signal, (limited) => sleep(clock, tookMs, limited))
      .then(
        () => undefined,
        (error: unknown) => {
          assert.ok(error instanceof RequestTimeout)
          return time.nowMs - startMs
        },
      )
  }
  const ask = async (tookMs: number, kind?: RequestKind): Promise<number | undefined> => {
    const ended = send(tookMs, kind)
    await time.advance(tookMs)
    return ended
  }
  return { time, limit, send, ask }
}

test('a request is abandoned at the limit, and the next one has the same limit', async () => {
  const { ask } = setUp()
  assert.deepEqual([await ask(99), await ask(5_000), await ask(5_000), await ask(99)], [undefined, 100, 100, undefined])
})

test('after a few timeouts a constantly slow store gets a longer limit, until it is fast again', async () => {
  const { ask } = setUp()
  for (let request = 0; request < 4; request++) assert.equal(await ask(150), 100)
  for (let request = 0; request < 3; request++) assert.equal(await ask(150), undefined)
  assert.equal(await ask(50), undefined)
  assert.equal(await ask(150), 100)
})

test('fast reads neither shorten the limit of slow writes nor abandon them', async () => {
  const { time, send, ask } = setUp()
  for (let request = 0; request < 4; request++) {
    const write = send(150)
    await time.advance(50)
    assert.equal(await ask(10, 'read'), undefined)
    await time.advance(90)
    assert.equal(await write, 100)
    assert.equal(await ask(10, 'read'), undefined)
  }
  const write = send(150)
  assert.equal(await ask(10, 'read'), undefined)
  await time.advance(140)
  assert.equal(await write, undefined)
})

test('after an outage of all requests the first read that is answered in time gives lost writes the normal limit', async () => {
  const { time, send, ask } = setUp()
  for (let request = 0; request < 6; request++) {
    const lost = [send(5_000), send(5_000, 'read')]
    await time.advance(5_000)
    await Promise.all(lost)
  }
  const write = send(5_000)
  assert.equal(await ask(10, 'read'), undefined)
  await time.advance(100)
  assert.equal(await write, 100)
})

test('requests that hang at the same time count as one timeout', async () => {
  const { time, send, ask } = setUp()
  for (let round = 0; round < 3; round++) {
    const hung = [send(5_000), send(5_000)]
    await time.advance(50)
    hung.push(send(5_000))
    await time.advance(5_000)
    assert.deepEqual(await Promise.all(hung), [100, 100, 100])
  }
  assert.equal(await ask(150), 100, 'the fourth time-out still has the short limit')
  assert.equal(await ask(150), undefined)
})

test('after a long outage a few answers in time restore the short limit', async () => {
  const { ask } = setUp()
  for (let request = 0; request < 30; request++) await ask(5_000)
  assert.equal(await ask(5_000), 1_600)
  for (let request = 0; request < 4; request++) assert.equal(await ask(50), undefined)
  assert.equal(await ask(5_000), 100)
})

test('requests lost in an outage are abandoned at the normal limit once the store answers in time again', async () => {
  const { time, send, ask } = setUp()
  for (let request = 0; request < 5; request++) await ask(5_000)
  // Both of these requests have a limit of 400 ms.
  const swallowed = send(5_000)
  await time.advance(80)
  const sentLater = send(5_000)
  await time.advance(70)
  assert.equal(await ask(10), undefined)
  await time.advance(5_000)
  assert.deepEqual([await swallowed, await sentLater], [160, 100])
})

test('a slow list among fast requests is cut short only once', async () => {
  const { time, send, ask } = setUp()
  for (let request = 0; request < 5; request++) await ask(5_000)
  const cut = send(350)
  await time.advance(150)
  await ask(10)
  const list = send(150)
  await ask(10)
  await time.advance(5_000)
  assert.deepEqual([await cut, await list], [160, undefined])
})

test('an abort ends a request at once, with the reason of the abort', async () => {
  const { limit } = setUp()
  const stop = new AbortController()
  const ended = limit.run('read', stop.signal, () => new Promise(() => {}))
  stop.abort(new Error('stopped'))
  await assert.rejects(ended, { message: 'stopped' })
})

const never = new AbortController().signal

test('a semaphore admits callers up to its limit, the others in order of arrival; a caller that gives up blocks nobody', async () => {
  const semaphore = new Semaphore(2)
  const entered: string[] = []
  const enter = (name: string, signal = never) =>
    semaphore.acquire(signal).then((release) => {
      entered.push(name)
      return release
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
  first()
  ;(await third)()
  ;(await fourth)()
  second()
  assert.deepEqual(entered, ['first', 'second', 'third', 'fourth'])
  await assert.rejects(semaphore.acquire(AbortSignal.abort(new Error('over'))), { message: 'over' })
  await Promise.all([enter('fifth'), enter('sixth')])
})

test('a caller that gives up as it is admitted removes no other from the queue', { timeout: 5_000 }, async () => {
  const semaphore = new Semaphore(1)
  const release = await semaphore.acquire(signal)
  const leaver = new AbortController()
  const left = semaphore.acquire(leaver.signal)
  const next = semaphore.acquire(signal)
  release()
  leaver.abort(new Error('too late'))
  ;(await left)()
  await next
})
