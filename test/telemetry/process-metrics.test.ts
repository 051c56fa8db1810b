import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { observeProcess } from '../../src/telemetry/process-metrics.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

test('a process tells its memory, processor time and start under the usual names', async () => {
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
