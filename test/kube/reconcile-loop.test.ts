import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Availability } from '../../src/kube/availability.ts'
import { KubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import { ReconcileLoop, WriteRetry } from '../../src/kube/reconcile-loop.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

function setUp(
  reconcile: (reasons: readonly string[]) => Promise<void> | void,
  options: { readonly severalObjects?: boolean; readonly longestWaitMs?: number } = {},
) {
  const time = new VirtualClock()
  const clock = time.view()
  const reconciliations: string[] = []
  const availability = new Availability({ clock, logger: silentLogger })
  const loop = new ReconcileLoop<'changed'>({
    clock,
    random: seededRandom(1, 'loop'),
    availability,
    source: 'test',
    intervalMs: 10_000,
    ...options,
    async reconcile(reasons) {
      reconciliations.push(`${time.nowMs} ${[...reasons].join(' ')}`)
      await reconcile([...reasons])
    },
  })
  const stop = new AbortController()
  const ended = assert.rejects(loop.run(stop.signal), /the end/)
  const end = async (): Promise<void> => {
    stop.abort(new Error('the end'))
    await ended
  }
  return { time, loop, reconciliations, availability, end }
}

test('the loop reconciles at the start, at each interval, and at once on request', async () => {
  const { time, loop, reconciliations, end } = setUp(() => {})
  await time.advance(4_000)
  loop.trigger('changed')
  loop.trigger('changed')
  await time.advance(16_000)
  assert.deepEqual(reconciliations, ['0 start', '4000 changed', '10000 interval', '20000 interval'])
  await end()
})

test('a stream of requests does not postpone the interval', async () => {
  const { time, loop, reconciliations, end } = setUp(() => {})
  for (let i = 0; i < 25; i++) {
    await time.advance(1_000)
    loop.trigger('changed')
  }
  await time.advance(0)
  assert.deepEqual(reconciliations.filter((reconciliation) => reconciliation.includes('interval')).length, 2)
  await end()
})

test('no wait after a refusal exceeds longestWaitMs, however long the refusals last', async () => {
  let isRefused = true
  const refused = new KubeError('Forbidden', 'may not')
  const { time, reconciliations, end } = setUp(
    () => {
      if (isRefused) throw refused
    },
    { severalObjects: true, longestWaitMs: 1_500 },
  )
  await time.advance(33_000)
  const before = reconciliations.length
  isRefused = false
  await time.advance(1_500)
  assert.ok(reconciliations.length > before)
  await end()
})

test('intervals can be spread by up to a tenth, so that two loops do not reconcile together', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const stop = new AbortController()
  const loops = ['one', 'two'].map((name) => {
    const timesMs: number[] = []
    const loop = new ReconcileLoop({
      clock,
      random: seededRandom(1, name),
      availability: new Availability({ clock, logger: silentLogger }),
      source: name,
      intervalMs: 10_000,
      spread: 0.1,
      reconcile: async () => void timesMs.push(time.nowMs),
    })
    return { timesMs, ended: assert.rejects(loop.run(stop.signal), /the end/) }
  })
  await time.advance(200_000)
  for (const { timesMs } of loops) {
    const gaps = timesMs.slice(1).map((ms, index) => ms - (timesMs[index] ?? 0))
    assert.ok(gaps.length >= 17)
    for (const gap of gaps) assert.ok(gap >= 9_000 && gap <= 11_000, `${gap} ms`)
    assert.ok(Math.max(...gaps) - Math.min(...gaps) > 500)
  }
  const [one, two] = loops.map(({ timesMs }) => timesMs)
  assert.deepEqual(
    one?.filter((ms) => two?.includes(ms)),
    [0],
    'both begin at once',
  )
  stop.abort(new Error('the end'))
  await Promise.all(loops.map(({ ended }) => ended))
})

test('a failed reconciliation is retried with its reasons until it succeeds; only then is the loop settled', async () => {
  let failures = 3
  const { time, loop, reconciliations, availability, end } = setUp(() => {
    if (failures-- > 0) throw new KubeError('Unreachable', 'connection refused')
  })
  let settled = false
  void loop.settled.then(() => {
    settled = true
  })
  await time.advance(5)
  assert.equal(settled, false)
  assert.equal(availability.available, false)
  await time.advance(100)
  assert.deepEqual(reconciliations, ['0 start', '2 start', '6 start', '14 start'])
  assert.equal(settled, true)
  assert.equal(availability.available, true)
  await end()
})

test('a conflict is retried at once and is no outage', async () => {
  let conflicts = 2
  const { time, reconciliations, availability, end } = setUp(() => {
    if (conflicts-- > 0) throw new KubeError('Conflict', 'somebody was faster')
  })
  await time.advance(0)
  assert.deepEqual(reconciliations, ['0 start', '0 start', '0 start'])
  assert.equal(availability.available, true)
  await end()
})

test('a permanent refusal is retried at growing intervals, however often the loop is requested meanwhile', async () => {
  const { time, loop, reconciliations, end } = setUp(() => {
    throw new KubeError('Forbidden', 'not for you')
  })
  for (let ms = 0; ms < 60_000; ms += 50) {
    loop.trigger('changed')
    await time.advance(50)
  }
  assert.ok(reconciliations.length >= 10 && reconciliations.length <= 20, reconciliations.join(', '))
  await end()
})

test('a permanent refusal of one of several objects does not hold up a requested reconciliation', async () => {
  let refused = true
  const { time, loop, reconciliations, end } = setUp(
    () => {
      if (refused) throw new KubeError('Forbidden', 'not for you')
    },
    { severalObjects: true },
  )
  await time.advance(60_000)
  assert.ok(reconciliations.length >= 10 && reconciliations.length <= 20, reconciliations.join(', '))
  // Begins at least two seconds after an attempt; otherwise the next attempt would not be far away.
  await time.runUntil(() => reconciliations.at(-1)?.startsWith(`${time.nowMs} `) === true, 20_000)
  await time.advance(2_000)
  reconciliations.splice(0)
  const startMs = time.nowMs
  for (let ms = 0; ms < 1_000; ms += 50) {
    loop.trigger('changed')
    await time.advance(50)
  }
  const atMs = reconciliations.map((reconciliation) => Number(reconciliation.split(' ')[0]) - startMs)
  assert.deepEqual(atMs, [0, 250, 500, 750, 1_000])
  assert.ok(
    reconciliations.every((reconciliation) => reconciliation.endsWith('start changed')),
    reconciliations.join(', '),
  )
  refused = false
  reconciliations.splice(0)
  loop.trigger('changed')
  await time.advance(5_000)
  assert.deepEqual(reconciliations, [`${startMs + 1_250} start changed`, `${startMs + 1_250} interval`])
  await end()
})

test('a request during a reconciliation causes another one', async () => {
  const { time, loop, reconciliations, end } = setUp((reasons) => {
    if (reasons.includes('start')) loop.trigger('changed')
  })
  await time.advance(10)
  assert.deepEqual(reconciliations, ['0 start', '0 changed'])
  await end()
})

const table: readonly [codes: readonly KubeErrorCode[], waits: readonly number[]][] = [
  [
    ['Invalid', 'NotFound', 'ServerError', 'Timeout', 'Unreachable', 'TooManyRequests', 'NoCredentials', 'BadResponse'],
    [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000],
  ],
  [
    ['Forbidden', 'Unauthorized', 'BadRequest', 'Refused'],
    [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_000, 10_000],
  ],
  [['Conflict'], [0, 0, 0, 2, 4, 8]],
]

for (const [codes, waits] of table) {
  test(`after ${codes.join(', ')} the waits are ${waits.slice(0, 4).join(', ')}, … ${waits.at(-1)} ms`, () => {
    for (const code of codes) {
      const retry = new WriteRetry(seededRandom(1, code))
      const error = new KubeError(code, 'no')
      assert.deepEqual(
        waits.map(() => retry.next(error)),
        waits,
      )
      retry.reset()
      assert.equal(retry.next(error), waits[0])
    }
  })
}

test('if refusals are expected to last, a 422 is retried after long waits, an outage after short ones', () => {
  const retry = new WriteRetry(seededRandom(1, 'x'), 'lasting')
  const waitsAfter = (code: KubeErrorCode) => Array.from({ length: 12 }, () => retry.next(new KubeError(code, 'no')))
  assert.equal(waitsAfter('Invalid').at(-1), 10_000)
  assert.equal(waitsAfter('ServerError').at(-1), 1_000)
  assert.deepEqual(waitsAfter('Conflict').slice(0, 3), [0, 0, 0])
})

test('a wait that the server requests is observed up to a second', () => {
  const retry = new WriteRetry(seededRandom(1, 'asked'))
  const waitMs = (code: KubeErrorCode, retryAfterMs: number) =>
    retry.next(new KubeError(code, 'later', { retryAfterMs }))
  assert.equal(waitMs('TooManyRequests', 700), 700)
  assert.equal(waitMs('ServerError', 20_000), 1_000)
  for (let failures = 0; failures < 10; failures++) retry.next(new KubeError('Forbidden', 'no'))
  assert.equal(waitMs('Forbidden', 20_000), 10_000, 'a longer back-off takes precedence')
  assert.equal(waitMs('Conflict', 20_000), 0)
})

test('an error that is not the answer of a server is retried like an outage', () => {
  assert.equal(new WriteRetry(seededRandom(1, 'x')).next(new Error('no live masters')), 2)
})
