import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { contentionLimits } from '../../src/kubernetes-service/contention.ts'
import { LeaseKeeper } from '../../src/kubernetes-service/lease-keeper.ts'
import { ReadinessMonitor } from '../../src/kubernetes-service/readiness-monitor.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

function setUp(t: TestContext, renewed: (keeper: LeaseKeeper, times: number) => Promise<void> = async () => {}) {
  const time = new VirtualClock()
  const clock = time.view()
  const renewals: number[] = []
  const looks: number[] = []
  const phases: string[] = []
  const keeper: LeaseKeeper = new LeaseKeeper({
    clock,
    random: seededRandom(1, 'keeper'),
    monitor: new ReadinessMonitor({
      readiness: { probe: async () => ({ answered: true, ready: true, checks: [] }) },
      clock,
      logger: silentLogger,
      gate: 'startup',
      periodMs: 1_000,
    }),
    intervalMs: 10_000,
    limits: contentionLimits(5_000),
    renew: async () => {
      renewals.push(time.nowMs)
      await renewed(keeper, renewals.length)
    },
    isFinal: () => false,
    report: () => {},
    onContention: (_input, before, now) => {
      if (before.phase !== now.phase) phases.push(now.phase)
    },
    look: () => looks.push(time.nowMs),
  })
  const stop = new AbortController()
  const ended = keeper.run(stop.signal).catch(() => {})
  t.after(async () => {
    stop.abort()
    await time.advance(0)
    await ended
    assert.equal(keeper.renewedMs, undefined)
  })
  return { time, keeper, renewals, looks, phases }
}

test('a lease is renewed each interval, and at once when it has gone', async (t) => {
  const { time, keeper, renewals, phases } = setUp(t)
  await time.advance(25_000)
  keeper.hurry()
  await time.advance(20_000)
  assert.deepEqual(renewals, [10_000, 20_000, 25_000, 35_000, 45_000])
  assert.deepEqual(phases, [])
})

test('a lease that has gone anew while it was being made is looked at once more, not made again for that', async (t) => {
  const { time, renewals, looks, keeper } = setUp(t, async (own, times) => {
    if (times === 1) own.hurry()
  })
  await time.advance(1_000)
  keeper.hurry()
  await time.advance(5_000)
  assert.deepEqual(renewals, [1_000])
  assert.deepEqual(looks, [1_000])
})

test('a lease that is taken away again and again is made ten times at once, then at growing distances of at most the longest', async (t) => {
  const { time, keeper, renewals, phases } = setUp(t)
  for (let passedMs = 0; passedMs < 120_000; passedMs += 10) {
    keeper.hurry()
    await time.advance(10)
  }
  const gaps = renewals.map((atMs, index) => atMs - (renewals[index - 1] ?? 0)).slice(1)
  assert.equal(gaps.filter((gapMs) => gapMs < 250).length, 9)
  assert.ok(Math.max(...gaps) <= 5_010, `${gaps}`)
  assert.ok(
    gaps.slice(-5).every((gapMs) => gapMs >= 5_000),
    `${gaps}`,
  )
  assert.deepEqual(phases, ['backing-off'])
  await time.advance(30_000)
  assert.deepEqual(phases, ['backing-off', 'calm'])
  keeper.hurry()
  await time.advance(0)
  assert.equal(renewals.at(-1), time.nowMs)
})

test('a renewal that fails is tried again', async (t) => {
  const { time, renewals } = setUp(t, async (_own, times) => {
    if (times < 4) throw new KubeError('Unreachable', 'away')
  })
  await time.advance(12_000)
  assert.equal(renewals.length, 4)
})
