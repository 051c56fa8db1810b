import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '../../src/runtime/clock.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { observeProcess, watchEventLoop } from '../../src/telemetry/process-metrics.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { spawnChild } from '../support/spawn-child.ts'

test('memory, CPU time and start time of the process have the usual metric names', async () => {
  const metrics = prometheusMetrics()
  observeProcess(metrics, systemClock)
  const read = async (name: string): Promise<number> =>
    Number(
      (await metrics.expose())
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1],
    )
  assert.ok((await read('process_resident_memory_bytes')) > 10_000_000)
  assert.ok((await read('nodejs_heap_size_used_bytes')) > 1_000_000)
  const startSeconds = await read('process_start_time_seconds')
  assert.ok(Math.abs(startSeconds - (Date.now() / 1000 - process.uptime())) < 5)
  const cpuSeconds = await read('process_cpu_seconds_total')
  const { user, system } = process.cpuUsage()
  assert.ok(cpuSeconds > 0 && cpuSeconds <= (user + system) / 1e6)
})

test('a process without a free file descriptor still has its metrics', async (t) => {
  const module = (name: string) => import.meta.resolve(`../../src/${name}`)
  const script = `
    import { openSync } from 'node:fs'
    import { systemClock } from '${module('runtime/system-clock.ts')}'
    import { observeProcess } from '${module('telemetry/process-metrics.ts')}'
    import { prometheusMetrics } from '${module('telemetry/prometheus-metrics.ts')}'
    const metrics = prometheusMetrics()
    observeProcess(metrics, systemClock)
    await metrics.expose()
    try {
      for (;;) openSync('/dev/null')
    } catch {}
    console.log(await metrics.expose())`
  const limited = ['-c', 'ulimit -n 64 && exec "$0" "$@"', process.execPath, '--input-type=module', '--eval', script]
  const child = await spawnChild(t, 'sh', limited)
  assert.deepEqual(await child.exited, { code: 0, signal: null }, child.stderr())
  assert.match(child.stdout(), /^process_resident_memory_bytes \d+$/m)
  assert.match(child.stdout(), /^process_cpu_seconds_total \d/m)
})

/** A process whose timers are as late as the test sets. */
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

test('an event loop lag of a second or more is logged, one of 999 ms is not; the metric shows the longest lag of the last minute', async () => {
  const { clock, tick, isWaiting } = slowProcess()
  const [logger, metrics] = [memoryLogger(), prometheusMetrics()]
  const end = watchEventLoop({ clock, logger, metrics })
  const lag = async () => /^nodejs_eventloop_lag_max_seconds (.*)$/m.exec(await metrics.expose())?.[1]
  tick(3)
  tick(999)
  assert.deepEqual(logger.lines, [])
  assert.equal(await lag(), '0.999')
  tick(1_000)
  tick(16_200)
  assert.deepEqual(
    logger.lines.map(({ level, fields }) => [level, fields]),
    [
      ['warn', { lateMs: 1_000 }],
      ['warn', { lateMs: 16_200 }],
    ],
  )
  assert.equal(await lag(), '16.2')
  for (let i = 0; i < 120; i++) tick(2)
  assert.equal(await lag(), '0.002')
  end()
  assert.equal(isWaiting(), false)
})
