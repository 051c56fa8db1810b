import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleep } from '../../src/runtime/clock.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { type RetryRate, WorkQueue } from '../../src/runtime/work-queue.ts'

function setUp(retry?: RetryRate) {
  const time = new VirtualClock()
  const clock = time.view()
  return { time, clock, queue: new WorkQueue<string>({ clock, retry }) }
}

/** Takes a key off the queue, and is done with it at once. */
async function work(queue: WorkQueue): Promise<string | undefined> {
  const key = await queue.get()
  if (key !== undefined) queue.done(key)
  return key
}

test('reconciles that never wait leave turns of the event loop to timers and I/O', async () => {
  const queue = new WorkQueue<string>({ clock: systemClock })
  const end = new AbortController()
  const keys = Array.from({ length: 40 }, (_, index) => `${index}`)
  for (const key of keys) queue.add(key)
  const turns: number[] = []
  let done = 0
  const count = (): void => {
    turns.push(done)
    if (done < keys.length) setImmediate(count)
  }
  setImmediate(count)
  const run = queue.run({
    workers: 5,
    signal: end.signal,
    reconcile: async () => {
      const beganMs = performance.now()
      while (performance.now() < beganMs + 2);
      if (++done === keys.length) end.abort(new Error('done'))
    },
  })
  await run
  assert.equal(done, keys.length)
  const between = turns.filter((count) => count > 0 && count < keys.length)
  assert.ok(new Set(between).size >= 4, `after ${turns.join()} of ${keys.length}`)
})

test('the queue hands out keys in the order in which they were added', async () => {
  const { queue } = setUp()
  for (const key of ['b', 'a', 'c']) queue.add(key)
  assert.equal(queue.length, 3)
  assert.deepEqual([await work(queue), await work(queue), await work(queue)], ['b', 'a', 'c'])
})

test('a key that is added many times before its turn is processed once and keeps its place', async () => {
  const { queue } = setUp()
  for (const key of ['a', 'b', 'a', 'a']) queue.add(key)
  assert.equal(queue.length, 2)
  assert.deepEqual([await work(queue), await work(queue)], ['a', 'b'])
})

test('a key that is added during its processing is handed out once more afterwards', async () => {
  const { queue } = setUp()
  queue.add('a')
  assert.equal(await queue.get(), 'a')
  queue.add('a')
  queue.add('a')
  queue.add('b')
  assert.equal(queue.length, 1)
  assert.equal(await queue.get(), 'b')
  queue.done('a')
  assert.equal(await queue.get(), 'a')
  queue.done('a')
  queue.done('b')
  assert.equal(queue.length, 0)
})

test('callers that wait for a key receive one in turn, as keys are added', async () => {
  const { queue } = setUp()
  const waiting = [queue.get(), queue.get()]
  queue.add('a')
  queue.add('b')
  assert.deepEqual(await Promise.all(waiting), ['a', 'b'])
})

test('a waiting worker receives a key that became dirty during its processing as soon as that ends', async () => {
  const { queue } = setUp()
  queue.add('a')
  await queue.get()
  queue.add('a')
  const waiting = queue.get()
  queue.done('a')
  assert.equal(await waiting, 'a')
})

test('done throws for a key that is not being processed', () => {
  const { queue } = setUp()
  queue.add('a')
  assert.throws(() => queue.done('a'), /no work on "a" is under way/)
  assert.equal(queue.length, 1)
})

test('a long queue keeps its order', async () => {
  const { queue } = setUp()
  const keys = Array.from({ length: 5000 }, (_, index) => `key-${index}`)
  for (const key of keys) queue.add(key)
  for (const key of keys.slice(0, 3000)) assert.equal(await work(queue), key)
  queue.add('last')
  for (const key of [...keys.slice(3000), 'last']) assert.equal(await work(queue), key)
  assert.equal(queue.length, 0)
})

test('a delayed key is added when its delay is over', async () => {
  const { time, queue } = setUp()
  queue.addAfter('a', 50)
  await time.advance(49)
  assert.equal(queue.length, 0)
  await time.advance(1)
  assert.equal(queue.length, 1)
})

test('a delay of zero or less adds the key at once', () => {
  const { queue } = setUp()
  queue.addAfter('a', 0)
  queue.addAfter('b', -5)
  assert.equal(queue.length, 2)
})

test('of two delays for one key the one that ends first counts, and the key is added once', async () => {
  for (const delays of [
    [50, 20],
    [20, 50],
  ]) {
    const { time, queue } = setUp()
    for (const delayMs of delays) queue.addAfter('a', delayMs)
    await time.advance(20)
    assert.equal(await work(queue), 'a')
    await time.advance(100)
    assert.equal(queue.length, 0)
  }
})

test('rate-limited delays double for each key separately, until the key is forgotten', async () => {
  const { time, queue } = setUp({ firstMs: 10, maxMs: 35 })
  const delayOf = async (key: string): Promise<number> => {
    const beganMs = time.nowMs
    queue.addRateLimited(key)
    await time.runUntil(() => queue.length === 1, 60_000)
    await work(queue)
    return time.nowMs - beganMs
  }
  const delays: number[] = []
  for (let i = 0; i < 4; i++) delays.push(await delayOf('a'))
  assert.deepEqual(delays, [10, 20, 35, 35])
  assert.equal(queue.numRequeues('a'), 4)
  assert.equal(await delayOf('b'), 10)
  queue.forget('a')
  assert.equal(queue.numRequeues('a'), 0)
  assert.equal(await delayOf('a'), 10)
})

test('by default the first retry comes after 5 ms, and the delay doubles up to 1000 s', async () => {
  const { time, queue } = setUp()
  for (let i = 0; i < 30; i++) {
    const beganMs = time.nowMs
    queue.addRateLimited('a')
    await time.runUntil(() => queue.length === 1, 2_000_000)
    await work(queue)
    assert.equal(time.nowMs - beganMs, Math.min(5 * 2 ** i, 1_000_000))
  }
})

test('a key that fails at many changes within three seconds is retried after four seconds, then with doubled delays', async () => {
  const { time, queue } = setUp({ firstMs: 1_000 })
  const delays: number[] = []
  for (let i = 0; i < 12; i++) {
    queue.addRateLimited('a')
    await time.advance(250)
    queue.add('a')
    await work(queue)
  }
  for (let i = 0; i < 3; i++) {
    const beganMs = time.nowMs
    queue.addRateLimited('a')
    await time.runUntil(() => queue.length === 1, 60_000)
    await work(queue)
    delays.push(time.nowMs - beganMs)
  }
  assert.deepEqual(delays, [4_000, 8_000, 16_000])
})

test('all retries together, but for the first of each key, respect the overall rate', async () => {
  const { time, queue } = setUp({ firstMs: 1, qps: 10, burst: 2 })
  const keys = Array.from({ length: 6 }, (_, index) => `key-${index}`)
  for (const key of keys) queue.addRateLimited(key)
  await time.advance(1)
  assert.equal(queue.length, 6, 'the first retry of a key needs no token')
  for (const _ of keys) await work(queue)
  for (const key of keys) queue.addRateLimited(key)
  await time.advance(2)
  assert.equal(queue.length, 2)
  await time.advance(397)
  assert.equal(queue.length, 5)
  await time.advance(1)
  assert.equal(queue.length, 6)
})

test('a key that fails again while its retry waits uses the overall rate once, and no longer after it succeeds', async () => {
  const { time, queue } = setUp({ firstMs: 1, qps: 10, burst: 2 })
  const flapping = Array.from({ length: 30 }, (_, index) => `key-${index}`)
  for (let round = 0; round < 8; round++) {
    for (const key of flapping) queue.addRateLimited(key)
    await time.advance(10)
    while (queue.length > 0) await work(queue)
  }
  for (const key of flapping) queue.forget(key)
  queue.addRateLimited('quiet')
  await time.advance(300)
  const ready: unknown[] = []
  while (queue.length > 0) ready.push(await work(queue))
  assert.ok(ready.includes('quiet'), `${ready}`)
})

test('after shutDown the queue accepts no keys, drops delayed ones, hands out waiting ones and then ends', async () => {
  const { time, queue } = setUp()
  queue.add('a')
  queue.addAfter('b', 10)
  queue.shutDown()
  queue.add('c')
  queue.addAfter('d', 10)
  queue.addRateLimited('e')
  await time.advance(100)
  assert.equal(await work(queue), 'a')
  assert.equal(await work(queue), undefined)
})

test('shutDown wakes waiting callers', async () => {
  const { queue } = setUp()
  const waiting = [queue.get(), queue.get()]
  queue.shutDown()
  assert.deepEqual(await Promise.all(waiting), [undefined, undefined])
})

test('run processes keys in parallel, but never one key twice at a time', async () => {
  const { time, clock, queue } = setUp()
  const controller = new AbortController()
  const busy = new Set<string>()
  let most = 0
  let count = 0
  const running = queue.run({
    workers: 3,
    signal: controller.signal,
    reconcile: async (key) => {
      assert.ok(!busy.has(key))
      busy.add(key)
      most = Math.max(most, busy.size)
      await sleep(clock, 10)
      busy.delete(key)
      count++
    },
  })
  for (const key of ['a', 'b', 'c', 'd']) queue.add(key)
  await time.advance(5)
  for (const key of ['a', 'b', 'c', 'd']) queue.add(key)
  await time.advance(100)
  controller.abort()
  await running
  assert.equal(most, 3)
  assert.equal(count, 7, 'd had not been begun when it was added again')
})

test('run retries a failed key with a growing delay and forgets it after success', async () => {
  const { time, queue } = setUp()
  const controller = new AbortController()
  const failures: string[] = []
  const triedAtMs: number[] = []
  const running = queue.run({
    workers: 1,
    signal: controller.signal,
    reconcile: async () => {
      triedAtMs.push(time.nowMs)
      if (triedAtMs.length < 4) throw new Error(`no ${triedAtMs.length}`)
    },
    failed: (key, error) => failures.push(`${key}: ${(error as Error).message}`),
  })
  queue.add('a')
  await time.advance(1000)
  assert.deepEqual(triedAtMs, [0, 5, 15, 35])
  assert.deepEqual(failures, ['a: no 1', 'a: no 2', 'a: no 3'])
  assert.equal(queue.numRequeues('a'), 0)
  controller.abort()
  await running
})

test('an aborted run waits for the reconcile in progress and leaves the other keys in the queue', async () => {
  const { time, clock, queue } = setUp()
  const controller = new AbortController()
  const log: string[] = []
  const running = queue
    .run({
      workers: 1,
      signal: controller.signal,
      reconcile: async (key, signal) => {
        log.push(`begin ${key}`)
        await sleep(clock, 20)
        log.push(`end ${key}, aborted: ${signal.aborted}`)
        throw new Error('the echo of the abort')
      },
      failed: () => assert.fail('an error of an aborted run is not reported'),
    })
    .then(() => log.push('over'))
  queue.add('a')
  queue.add('b')
  await time.advance(10)
  controller.abort()
  await time.advance(5)
  assert.deepEqual(log, ['begin a'])
  await time.advance(5)
  await running
  assert.deepEqual(log, ['begin a', 'end a, aborted: true', 'over'])
})

test('run with an aborted signal does nothing', async () => {
  const { queue } = setUp()
  queue.add('a')
  await queue.run({ workers: 2, signal: AbortSignal.abort(), reconcile: () => assert.fail('no work') })
  assert.equal(queue.length, 1)
})

test('run does not begin a key that was handed out just before the abort', async () => {
  const { queue } = setUp()
  const controller = new AbortController()
  let begun = false
  const running = queue.run({
    workers: 1,
    signal: controller.signal,
    reconcile: async () => {
      begun = true
    },
  })
  queue.add('a')
  controller.abort()
  await running
  assert.equal(begun, false)
})

test('an error thrown by `failed` ends the run and all its workers', async () => {
  const { time, clock, queue } = setUp()
  const running = queue.run({
    workers: 2,
    signal: new AbortController().signal,
    reconcile: async (key, signal) => {
      if (key === 'bad') throw new Error('broken')
      await sleep(clock, 1000, signal)
    },
    failed: (_key, error) => {
      throw error
    },
  })
  const rejected = assert.rejects(running, /broken/)
  queue.add('slow')
  queue.add('bad')
  await time.advance(1)
  await rejected
  assert.equal(time.nowMs, 1)
})

test('expedite ends the delay of a key at once, and the key is not added again at the original time', async () => {
  const { time, queue } = setUp()
  queue.addAfter('a', 1000)
  queue.addAfter('b', 1000)
  await time.advance(10)
  assert.equal(queue.expedite('a'), true)
  assert.equal(await work(queue), 'a')
  assert.equal(queue.length, 0)
  await time.advance(2000)
  assert.equal(queue.length, 1)
  assert.equal(await work(queue), 'b')
})

test('expedite has no effect on a key without a delay', async () => {
  const { time, queue } = setUp()
  assert.equal(queue.expedite('a'), false)
  assert.equal(queue.length, 0)
  queue.add('b')
  queue.expedite('b')
  assert.equal(queue.length, 1)
  assert.equal(await queue.get(), 'b')
  queue.expedite('b')
  queue.done('b')
  await time.advance(1000)
  assert.equal(queue.length, 0)
})

test('a key that is expedited during its processing is handed out once more afterwards', async () => {
  const { queue } = setUp()
  queue.add('a')
  await queue.get()
  queue.addAfter('a', 1000)
  queue.expedite('a')
  assert.equal(queue.length, 0)
  queue.done('a')
  assert.equal(await work(queue), 'a')
})

test('expediteFailed expedites only failed keys', async () => {
  const { time, queue } = setUp({ firstMs: 100 })
  queue.addRateLimited('failed')
  queue.addRateLimited('forgotten')
  queue.forget('forgotten')
  queue.addAfter('later', 100)
  queue.expediteFailed()
  assert.equal(queue.length, 1)
  assert.equal(await work(queue), 'failed')
  await time.advance(100)
  assert.deepEqual([await work(queue), await work(queue)].sort(), ['forgotten', 'later'])
})

test('after expediteFailed a key that fails again, or that was in progress, is retried after the first delay', async () => {
  const { time, queue } = setUp({ firstMs: 100 })
  for (let i = 0; i < 5; i++) {
    queue.addRateLimited('a')
    await time.runUntil(() => queue.length === 1, 60_000)
    assert.equal(await queue.get(), 'a')
    if (i === 4) queue.expediteFailed()
    queue.done('a')
  }
  queue.addRateLimited('a')
  await time.advance(100)
  assert.equal(queue.length, 1)
  assert.equal(queue.numRequeues('a'), 6)
})

test('expediteFailed does not add a failed key whose retry is already in progress', async () => {
  const { time, queue } = setUp({ firstMs: 100 })
  queue.addRateLimited('a')
  await time.advance(100)
  assert.equal(await queue.get(), 'a')
  queue.expediteFailed()
  queue.done('a')
  assert.equal(queue.length, 0)
})

test('a queue that is shutting down ignores expedite and expediteFailed', async () => {
  const { queue } = setUp()
  queue.addRateLimited('a')
  queue.shutDown()
  queue.expedite('a')
  queue.expediteFailed()
  assert.equal(await queue.get(), undefined)
})
