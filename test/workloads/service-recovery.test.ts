import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import type { RetryRate } from '../../src/runtime/work-queue.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { ServiceQueue } from '../../src/workloads/service-queue.ts'

/**
 * A running queue with five workers. Syncs of the keys in `refused` are refused after `takesMs`, all others succeed at
 * once. `syncs` has the time and key of each sync that began.
 */
function setUp(t: TestContext, options: { readonly takesMs?: number; readonly retry?: RetryRate } = {}) {
  const time = new VirtualClock()
  const clock = time.view()
  const refused = new Set<string>()
  const syncs: string[] = []
  const queue = new ServiceQueue({
    clock,
    logger: silentLogger,
    workers: 5,
    retry: options.retry ?? { firstMs: 1_000 },
  })
  const controller = new AbortController()
  const running = queue.run(controller.signal, async (key, signal) => {
    syncs.push(`${time.nowMs} ${key}`)
    if (!refused.has(key)) return
    if (options.takesMs !== undefined) await sleep(clock, options.takesMs, signal)
    throw new KubeError('ServerError', 'a webhook fails')
  })
  t.after(async () => {
    controller.abort()
    await running
  })
  const refuse = (...keys: string[]): void => {
    for (const key of keys) {
      refused.add(key)
      queue.add(key)
    }
  }
  const accept = (key: string): void => {
    refused.delete(key)
    queue.add(key)
  }
  return { time, queue, refused, syncs, refuse, accept }
}

function names(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
}

test('when one refused Service is accepted, all others are tried at once, one after the other', async (t) => {
  const { time, refused, syncs, refuse, accept } = setUp(t)
  const others = names('ns/web', 300)
  refuse('ns/first', ...others)
  await time.advance(300_000)
  refused.clear()
  syncs.length = 0
  accept('ns/first')
  await time.advance(100)
  assert.deepEqual(new Set(syncs.map((sync) => sync.split(' ')[1])), new Set(['ns/first', ...others]))
})

test('after such a recovery of many Services, one that fails once is retried soon', async (t) => {
  const { time, refused, syncs, refuse, accept } = setUp(t)
  refuse('ns/first', ...names('ns/web', 1_000))
  await time.advance(300_000)
  refused.clear()
  accept('ns/first')
  await time.advance(1_000)
  syncs.length = 0
  refuse('ns/other')
  await time.advance(4_000)
  assert.deepEqual(syncs, ['301000 ns/other', '302000 ns/other', '304000 ns/other'])
})

test('another Service that stays refused is tried once, and not again for ten seconds', async (t) => {
  const { time, syncs, refuse, accept } = setUp(t, { retry: { firstMs: 60_000 } })
  refuse('ns/bad', 'ns/early')
  await time.advance(100)
  refuse('ns/late')
  await time.advance(900)
  syncs.length = 0
  accept('ns/early')
  await time.advance(500)
  accept('ns/late')
  await time.advance(500)
  assert.deepEqual(syncs, ['1000 ns/early', '1000 ns/bad', '1500 ns/late'])
  refuse('ns/next')
  await time.advance(15_000)
  assert.deepEqual(syncs.slice(3), ['2000 ns/next', '11000 ns/bad'])
})

test('Services of the namespace of the accepted one are tried first', async (t) => {
  const { time, refused, syncs, refuse, accept } = setUp(t, { retry: { firstMs: 60_000 } })
  refuse('bad/a', 'bad/b')
  await time.advance(100)
  refuse('good/a', 'good/b', 'good/c')
  await time.advance(900)
  syncs.length = 0
  for (const key of ['good/a', 'good/c']) refused.delete(key)
  accept('good/b')
  await time.advance(5_000)
  assert.deepEqual(syncs, ['1000 good/b', '1000 good/a', '1000 good/c', '1000 bad/a'])
})

test('a Service whose retry was under way when another was accepted is tried ten seconds later', async (t) => {
  const { time, refused, syncs, refuse, accept } = setUp(t, { takesMs: 5_000 })
  refuse('ns/b')
  await time.advance(2_000)
  refuse('ns/a')
  await time.advance(21_000)
  assert.equal(syncs.at(-1), '22000 ns/b', 'until 27 s, and without help again 8 s later')
  accept('ns/a')
  await time.advance(5_000)
  refused.clear()
  syncs.length = 0
  await time.advance(20_000)
  assert.deepEqual(syncs, ['33000 ns/b'])
})

test('while syncs of ten Services hang, the acceptance of another does not occupy the workers', async (t) => {
  const { time, queue, syncs, refuse, accept } = setUp(t, { takesMs: 10_000 })
  refuse(...names('bad/hanging', 10))
  // Their next own retries are far away.
  await time.advance(1_400_000)
  let longestMs = 0
  for (let i = 0; i < 20; i++) {
    refuse('bad/flapping')
    await time.advance(10_100)
    accept('bad/flapping')
    const addedMs = time.nowMs
    queue.add('good/web')
    await time.advance(10_000)
    const [startedMs = 0] = syncs
      .filter((sync) => sync.endsWith('good/web'))
      .slice(-1)
      .map((sync) => Number.parseInt(sync, 10))
    longestMs = Math.max(longestMs, startedMs - addedMs)
  }
  assert.equal(syncs.filter((sync) => sync.endsWith('good/web')).length, 20)
  assert.ok(longestMs < 1_000, `${longestMs} ms`)
})

test('beside 1,500 refused Services, one that fails once is retried soon', async (t) => {
  const { time, refused, syncs, refuse } = setUp(t)
  refuse(...names('bad/web', 1_500))
  await time.advance(60_000)
  refuse('good/web')
  await time.advance(100)
  refused.delete('good/web')
  await time.advance(2_000)
  assert.deepEqual(
    syncs.filter((sync) => sync.endsWith('good/web')),
    ['60000 good/web', '61000 good/web'],
  )
})

test('with 800 refused Services, the acceptance of others every ten seconds causes one more request each', async (t) => {
  const { time, syncs, refuse, accept } = setUp(t)
  refuse(...names('bad/web', 800))
  await time.advance(600_000)
  syncs.length = 0
  for (let i = 0; i < 6; i++) {
    refuse('good/web')
    await time.advance(100)
    accept('good/web')
    await time.advance(9_900)
  }
  const count = syncs.filter((sync) => sync.includes('bad')).length
  assert.ok(count <= 60 * 10 + 6, `${count} in a minute`)
})
