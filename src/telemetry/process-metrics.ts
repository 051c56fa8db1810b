import type { Clock } from '../runtime/clock.ts'
import type { Metrics } from './metrics.ts'

/** Adds what every Prometheus client tells of its process, under the usual names: memory, processor time, start. */
export function observeProcess(metrics: Metrics, clock: Clock): void {
  const resident = metrics.gauge({ name: 'process_resident_memory_bytes', help: 'Resident memory of this process.' })
  const heap = metrics.gauge({ name: 'nodejs_heap_size_used_bytes', help: 'JavaScript heap in use.' })
  const cpu = metrics.counter({ name: 'process_cpu_seconds_total', help: 'Processor time, user and system.' })
  const start = metrics.gauge({ name: 'process_start_time_seconds', help: 'When this process started, Unix time.' })
  start.set({}, clock.wallMs() / 1000 - process.uptime())
  let countedMicros = 0
  metrics.onCollect(() => {
    const memory = process.memoryUsage()
    resident.set({}, memory.rss)
    heap.set({}, memory.heapUsed)
    const usage = process.cpuUsage()
    cpu.add({}, (usage.user + usage.system - countedMicros) / 1e6)
    countedMicros = usage.user + usage.system
  })
}
