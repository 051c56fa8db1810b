import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import type { RetryRate } from '../../src/runtime/work-queue.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { ServiceQueue, StaleCacheError, WritePacing } from '../../src/workloads/service-queue.ts'

type Sync = (key: string, signal: AbortSignal) => Promise<void>

/** A running queue. `syncs` has the time and key of each sync that began. */
function setUp(t: TestContext, sync: Sync, options: { readonly workers?: number; readonly retry?: RetryRate } = {}) {
  const time = new VirtualClock()
  const clock = time.view()
  const logger = memoryLogger()
  const queue = new ServiceQueue({ clock, logger, workers: options.workers ?? 3, retry: options.retry })
  const controller = new AbortController()
  const syncs: string[] = []
  const running = queue.run(controller.signal, (key, signal) => {
    syncs.push(`${time.nowMs} ${key}`)
    return sync(key, signal)
  })
  t.after(async () => {
    controller.abort()
    await running
  })
  return { time, clock, queue, controller, running, syncs, lines: logger.lines }
}

const slow: RetryRate = { firstMs: 1000 }

test('a Service is never synced twice at once, however often it is added', async (t) => {
  let under = 0
  let most = 0
  const { time, clock, queue, syncs } = setUp(t, async (_, signal) => {
    most = Math.max(most, ++under)
    await sleep(clock, 10, signal)
    under--
  })
  for (let ms = 0; ms < 10; ms++) {
    queue.add('ns/web')
    await time.advance(1)
  }
  await time.advance(100)
  assert.equal(most, 1)
  assert.deepEqual(syncs, ['0 ns/web', '10 ns/web'])
})

test('as many Services are synced at once as there are workers', async (t) => {
  const { time, clock, queue, syncs } = setUp(t, (_, signal) => sleep(clock, 10, signal), { workers: 2 })
  for (const key of ['ns/a', 'ns/b', 'ns/c']) queue.add(key)
  await time.advance(50)
  assert.deepEqual(syncs, ['0 ns/a', '0 ns/b', '10 ns/c'])
})

test('a Service that is added twice with a delay is synced once, after the shorter delay', async (t) => {
  const { time, queue, syncs } = setUp(t, async () => {})
  queue.add('ns/web', 500)
  queue.add('ns/web', 700)
  await time.advance(2000)
  assert.deepEqual(syncs, ['500 ns/web'])
})

test('a failing Service is retried at the given rate until it succeeds, and the rate starts over afterwards', async (t) => {
  let failures = 3
  const { time, queue, syncs } = setUp(
    t,
    async () => {
      if (failures-- > 0) throw new Error('refused')
    },
    { retry: slow },
  )
  queue.add('ns/web')
  await time.advance(10_000)
  assert.deepEqual(syncs, ['0 ns/web', '1000 ns/web', '3000 ns/web', '7000 ns/web'])
  failures = 1
  queue.add('ns/web')
  await time.advance(10_000)
  assert.deepEqual(syncs.slice(4), ['10000 ns/web', '11000 ns/web'])
})

test('a Service refused after many server failures is logged as any other: a warning, then an error', async (t) => {
  let code: 'Unreachable' | 'Forbidden' = 'Unreachable'
  const { time, queue, lines } = setUp(t, () => Promise.reject(new KubeError(code, 'failed')), {
    retry: { maxMs: 1_000 },
  })
  queue.add('ns/web')
  await time.advance(30_000)
  assert.deepEqual(
    lines.filter(({ level }) => level !== 'debug'),
    [],
  )
  code = 'Forbidden'
  await time.advance(30_000)
  assert.deepEqual(
    lines.filter(({ level }) => level !== 'debug').map(({ level }) => level),
    ['warn', 'error'],
  )
})

test('after minutes of 429 a Service is retried within 15 s', async (t) => {
  let busy = true
  const { time, queue, syncs } = setUp(
    t,
    async () => {
      if (busy) throw new KubeError('TooManyRequests', 'no')
    },
    { retry: slow },
  )
  queue.add('ns/web')
  await time.advance(260_000)
  busy = false
  syncs.length = 0
  await time.advance(15_000)
  assert.equal(syncs.length, 1)
})

test('a failing Service is retried forever', async (t) => {
  const { time, queue, syncs, lines } = setUp(t, () => Promise.reject(new Error('refused')), { retry: { maxMs: 1000 } })
  queue.add('ns/web')
  await time.advance(60_000)
  assert.ok(syncs.length > 60, `${syncs.length}`)
  const logged = lines.filter(({ level }) => level !== 'debug').map(({ level, fields }) => `${level} ${fields.retries}`)
  assert.deepEqual(logged, ['warn 0', 'error 15'])
})

test('a sync that found a stale copy is due as soon as the copy has caught up', async (t) => {
  let stale = true
  const { time, queue, syncs, lines } = setUp(
    t,
    async () => {
      if (stale) throw new StaleCacheError('not caught up')
    },
    { retry: slow },
  )
  queue.add('ns/web')
  await time.advance(20)
  queue.caughtUp('ns/other')
  await time.advance(20)
  stale = false
  queue.caughtUp('ns/web')
  await time.advance(5000)
  assert.deepEqual(syncs, ['0 ns/web', '40 ns/web'])
  assert.deepEqual(lines, [])
})

test('if the copy is still stale after a change, the sync is retried at the next change', async (t) => {
  let stale = true
  const { time, queue, syncs } = setUp(
    t,
    async () => {
      if (stale) throw new StaleCacheError('not caught up')
    },
    { retry: slow },
  )
  queue.add('ns/web')
  await time.advance(10)
  queue.caughtUp('ns/web')
  await time.advance(10)
  stale = false
  queue.caughtUp('ns/web')
  await time.advance(10_000)
  assert.deepEqual(syncs, ['0 ns/web', '10 ns/web', '20 ns/web'])
})

test('a sync is due at once if its copy caught up while it was running', async (t) => {
  let stale = true
  const { time, queue, syncs } = setUp(
    t,
    async (key) => {
      if (!stale) return
      stale = false
      queue.caughtUp(key)
      throw new StaleCacheError('not caught up')
    },
    { retry: slow },
  )
  queue.add('ns/web')
  await time.advance(10_000)
  assert.deepEqual(syncs, ['0 ns/web', '0 ns/web'])
})

test('a change of the copy expedites only syncs that failed because of a stale copy', async (t) => {
  let failing = true
  const { time, queue, syncs } = setUp(
    t,
    async (key) => {
      queue.caughtUp(key)
      if (failing) throw new Error('refused')
    },
    { retry: slow },
  )
  queue.add('ns/web')
  await time.advance(10)
  queue.caughtUp('ns/web')
  failing = false
  await time.advance(10_000)
  assert.deepEqual(syncs, ['0 ns/web', '1000 ns/web'])
  queue.add('ns/web', 500)
  queue.caughtUp('ns/web')
  await time.advance(10_000)
  assert.deepEqual(syncs.slice(2), ['10510 ns/web'])
})

test('after a successful sync a change of the copy no longer expedites the Service', async (t) => {
  let stale = true
  const { time, queue, syncs } = setUp(
    t,
    async () => {
      if (stale) throw new StaleCacheError('not caught up')
    },
    { retry: slow },
  )
  queue.add('ns/web')
  await time.advance(10)
  stale = false
  await time.advance(2000)
  queue.add('ns/web', 500)
  queue.caughtUp('ns/web')
  await time.advance(2000)
  assert.deepEqual(syncs, ['0 ns/web', '1000 ns/web', '2510 ns/web'])
})

test('expedite() runs all failed syncs at once, but no delayed one', async (t) => {
  let failing = true
  const { time, queue, syncs } = setUp(
    t,
    async () => {
      if (failing) throw new KubeError('Unreachable', 'connection refused')
    },
    { retry: slow },
  )
  queue.add('ns/a')
  queue.add('ns/b')
  await time.advance(4000)
  failing = false
  queue.add('ns/c', 1000)
  syncs.length = 0
  queue.expedite()
  await time.advance(10_000)
  assert.deepEqual(syncs, ['4000 ns/a', '4000 ns/b', '5000 ns/c'])
})

test('the first failure of a Service is a warning, except for an unreachable server or a conflict', async (t) => {
  const errors: Readonly<Record<string, Error>> = {
    'ns/a': new Error('strange'),
    'ns/b': new KubeError('Unreachable', 'connection refused'),
    'ns/c': new KubeError('Conflict', 'the object has been modified'),
  }
  const { time, queue, lines } = setUp(t, (key) => Promise.reject(errors[key]), { workers: 1, retry: slow })
  for (const key of Object.keys(errors)) queue.add(key)
  await time.advance(1500)
  const logged = lines.map(({ level, fields }) => `${level} ${fields.service} ${fields.retries}`)
  assert.deepEqual(logged, [
    'warn ns/a 0',
    'debug ns/b 0',
    'debug ns/c 0',
    'debug ns/a 1',
    'debug ns/b 1',
    'debug ns/c 1',
  ])
  assert.equal(lines[0]?.fields.error, errors['ns/a'])
})

test('a refusal after an outage is a warning too, once until a sync succeeds', async (t) => {
  const errors: (Error | undefined)[] = [
    new KubeError('Unreachable', 'connection refused'),
    new KubeError('Forbidden', 'not you'),
    new KubeError('Forbidden', 'not you'),
    undefined,
    new KubeError('Forbidden', 'not you'),
  ]
  const sync = async (): Promise<void> => {
    const error = errors.shift()
    if (error !== undefined) throw error
  }
  const { time, queue, lines } = setUp(t, sync, { workers: 1, retry: slow })
  queue.add('ns/a')
  await time.advance(60_000)
  queue.add('ns/a')
  await time.advance(500)
  assert.deepEqual(
    lines.map(({ level, fields }) => `${level} ${fields.retries}`),
    ['debug 0', 'warn 1', 'debug 2', 'warn 0'],
  )
})

test('the queue ends when its signal is aborted, after the running sync', async (t) => {
  const { time, clock, queue, controller, running, syncs } = setUp(
    t,
    () => sleep(clock, 100, new AbortController().signal),
    {
      workers: 1,
    },
  )
  queue.add('ns/a')
  queue.add('ns/b')
  await time.advance(10)
  controller.abort()
  let ended = false
  const end = running.then(() => {
    ended = true
  })
  await time.advance(10)
  assert.equal(ended, false)
  await time.advance(100)
  await end
  assert.deepEqual(syncs, ['0 ns/a'])
})

test('Services that wait for their copies do not use up the retries of failing Services', async (t) => {
  const { time, queue, syncs } = setUp(t, async (key) => {
    if (key === 'ns/bad') throw new KubeError('ServerError', 'refused')
    throw new StaleCacheError('old')
  })
  for (let i = 0; i < 300; i++) {
    queue.add('ns/stale')
    await time.advance(1)
    queue.caughtUp('ns/stale')
    await time.advance(1)
  }
  syncs.length = 0
  queue.add('ns/bad')
  await time.advance(6)
  assert.deepEqual(
    syncs.filter((sync) => sync.endsWith('ns/bad')),
    ['600 ns/bad', '605 ns/bad'],
  )
})

test('however often refused Services are expedited, another Service that fails once is retried soon', async (t) => {
  let failures = 1
  const { time, queue, syncs } = setUp(t, async (key) => {
    if (key !== 'ns/good' || failures-- > 0) throw new KubeError('ServerError', 'refused')
  })
  for (let i = 0; i < 200; i++) queue.add(`ns/refused-${i}`)
  for (let i = 0; i < 60; i++) {
    await time.advance(1_000)
    queue.expedite()
  }
  await time.advance(0)
  syncs.length = 0
  queue.add('ns/good')
  await time.advance(21_000)
  assert.equal(syncs.filter((sync) => sync.endsWith('ns/good')).length, 2)
})

test('however often a refused Service changes, another Service that fails once is retried soon', async (t) => {
  let failures = 1
  const { time, queue, syncs } = setUp(t, async (key) => {
    if (key !== 'ns/good' || failures-- > 0) throw new KubeError('ServerError', 'refused')
  })
  for (let i = 0; i < 1_000; i++) {
    queue.add('ns/refused')
    await time.advance(10)
  }
  syncs.length = 0
  queue.add('ns/good')
  await time.advance(1_000)
  assert.equal(syncs.filter((sync) => sync.endsWith('ns/good')).length, 2)
})

test('the first write does not wait, the next waits until the pause is over', () => {
  const pacing = new WritePacing((size) => size * 50)
  assert.equal(pacing.delayMs('default/web', 1_000), 0)
  pacing.written('default/web', 1_000, 2)
  assert.equal(pacing.delayMs('default/web', 1_000), 100)
  assert.equal(pacing.delayMs('default/web', 1_099), 1)
  assert.equal(pacing.delayMs('default/web', 1_100), 0)
  assert.equal(pacing.delayMs('default/web', 9_000), 0)
  assert.equal(pacing.delayMs('default/api', 1_000), 0)
})

test('an empty write causes no pause, and a deleted Service leaves none', () => {
  const pacing = new WritePacing((size) => size * 50)
  pacing.written('default/web', 1_000, 0)
  assert.equal(pacing.delayMs('default/web', 1_000), 0)
  pacing.written('default/web', 1_000, 9)
  pacing.delete('default/web')
  assert.equal(pacing.delayMs('default/web', 1_000), 0)
})
