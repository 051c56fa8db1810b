import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '../../src/runtime/clock.ts'
import { watchEventLoop } from '../../src/telemetry/event-loop.ts'
import { memoryLogger } from '../../src/telemetry/memory-logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

/** A process whose timers are as late as it is told. */
function slowProcess() {
  let nowMs = 0
  let next: { readonly dueMs: number; readonly callback: () => void } | undefined
  const clock: Clock = {
    wallMs: () => nowMs,
    monotonicMs: () => nowMs,
    schedule(delayMs, callback) {
      next = { dueMs: nowMs + delayMs, callback }
      return () => {
        next = undefined
      }
    },
  }
  const tick = (lateMs: number): void => {
    const due = next
    nowMs = (due?.dueMs ?? nowMs) + lateMs
    due?.callback()
  }
  return { clock, tick, isWaiting: () => next !== undefined }
}

test('a process that comes a second late says so, and the metric has the longest delay of the last minute', async () => {
  const { clock, tick, isWaiting } = slowProcess()
  const [logger, metrics] = [memoryLogger(), prometheusMetrics()]
  const end = watchEventLoop({ clock, logger, metrics })
  const lag = async () => /^nodejs_eventloop_lag_max_seconds (.*)$/m.exec(await metrics.expose())?.[1]
  tick(3)
  tick(999)
  assert.deepEqual(logger.lines, [])
  assert.equal(await lag(), '0.999')
  tick(16_200)
  assert.deepEqual(
    logger.lines.map(({ level, fields }) => [level, fields]),
    [['warn', { lateMs: 16_200 }]],
  )
  assert.equal(await lag(), '16.2')
  for (let i = 0; i < 120; i++) tick(2)
  assert.equal(await lag(), '0.002')
  end()
  assert.equal(isWaiting(), false)
})
