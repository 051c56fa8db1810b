import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type DutyCondition,
  DutyHealth,
  type DutySymptoms,
  type DutyTerm,
  nextCondition,
  supervised,
} from '../../src/bootstrap/duty-health.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

const healthy: DutyCondition = { type: 'healthy' }
const failing: DutyCondition = { type: 'failing', sinceMs: 0 }
const degraded: DutyCondition = { type: 'degraded', reason: 'refused' }
const seen = (more: Partial<DutySymptoms>): DutySymptoms => ({ fault: 'refused', crashed: false, away: false, ...more })

const table: readonly [DutyCondition, Partial<DutySymptoms>, nowMs: number, DutyCondition][] = [
  [healthy, { fault: undefined }, 0, healthy],
  [healthy, {}, 0, failing],
  [failing, {}, 59_999, failing],
  [failing, {}, 60_000, degraded],
  [failing, { fault: undefined }, 60_000, healthy],
  [failing, { away: true }, 60_000, healthy],
  [healthy, { crashed: true }, 0, degraded],
  [failing, { crashed: true, away: true }, 1, degraded],
  [degraded, { away: true }, 1, degraded],
  [degraded, { fault: 'refused otherwise' }, 1, degraded],
  [degraded, { fault: undefined }, 1, healthy],
]

for (const [before, symptoms, nowMs, after] of table) {
  test(`${before.type} with ${JSON.stringify(symptoms)} after ${nowMs} ms: ${after.type}`, () => {
    assert.deepEqual(nextCondition(before, seen(symptoms), nowMs, 60_000), after)
  })
}

function setUp({ dryRun = false } = {}) {
  const time = new VirtualClock()
  const clock = time.view()
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const recorded: EventToRecord[] = []
  const refused: { reason?: string } = {}
  const health = new DutyHealth({
    name: 'cluster-ip-repair',
    clock,
    logger,
    events: { record: (event) => void recorded.push(event) },
    degraded: metrics.gauge({ name: 'degraded', help: 'Whether it is.', labels: ['duty'] }),
    timeoutMs: 5_000,
    dryRun,
    refusal: () => refused.reason,
  })
  const gauge = async () => /^degraded\{duty="cluster-ip-repair"\} (\d)$/m.exec(await metrics.expose())?.[1]
  const logged = () => logger.lines.map(({ level, message }) => `${level} ${message}`)
  return { time, clock, health, refused, recorded, gauge, logged }
}

test('a duty that is refused for too long is reported once, and its recovery once', async () => {
  const { time, health, refused, recorded, gauge, logged } = setUp()
  const settled = Promise.withResolvers<void>()
  health.begun({ settled: settled.promise })
  refused.reason = 'list ipaddresses: forbidden'
  for (let second = 0; second < 20; second++) {
    health.check({ away: false })
    await time.advance(1_000)
  }
  assert.equal(health.fault(), 'list ipaddresses: forbidden')
  assert.deepEqual(
    recorded.map(({ type, reason, note }) => [type, reason, note]),
    [['Warning', 'DutyDegraded', 'cluster-ip-repair is degraded: list ipaddresses: forbidden']],
  )
  assert.equal(await gauge(), '1')
  await health.known
  delete refused.reason
  settled.resolve()
  await time.advance(1)
  assert.equal(health.fault(), undefined)
  assert.equal(await gauge(), '0')
  assert.deepEqual(logged(), ['warn the duty is degraded; retrying', 'info the duty is no longer degraded'])
})

test('a duty that never completes is degraded, but not in a dry run', async () => {
  for (const dryRun of [false, true]) {
    const { time, health } = setUp({ dryRun })
    health.begun({ settled: new Promise(() => {}) })
    health.check({ away: false })
    await time.advance(6_000)
    health.check({ away: false })
    assert.equal(health.fault(), dryRun ? undefined : 'it has not completed yet')
  }
})

test('a duty that throws an unexpected error restarts with growing delays, and is degraded until it completes', async () => {
  const { time, clock, health, gauge, logged } = setUp()
  const begunMs: number[] = []
  const stop = new AbortController()
  const make = (): DutyTerm => {
    begunMs.push(time.nowMs)
    const isSound = begunMs.length > 3
    return {
      settled: isSound ? Promise.resolve() : new Promise(() => {}),
      async run(signal) {
        if (!isSound) throw new TypeError('undefined is not a function')
        await aborted(signal)
      },
    }
  }
  const running = supervised({ make, health, clock, random: seededRandom(1, 'test') }, stop.signal)
  await time.advance(900)
  assert.equal(health.fault(), 'unexpected error: undefined is not a function')
  assert.equal(await gauge(), '1')
  await time.advance(60_000)
  const waits = begunMs.slice(1).map((ms, index) => ms - (begunMs[index] ?? 0))
  assert.deepEqual(
    waits.map((ms, index) => ms >= 1_000 * 2 ** index && ms <= 1_250 * 2 ** index),
    [true, true, true],
  )
  assert.deepEqual([health.fault(), await gauge()], [undefined, '0'])
  assert.deepEqual(logged(), [
    'error unexpected error; restarting the duty',
    'warn the duty is degraded; retrying',
    'error unexpected error; restarting the duty',
    'error unexpected error; restarting the duty',
    'info the duty is no longer degraded',
  ])
  stop.abort()
  await time.advance(1)
  await running
})
