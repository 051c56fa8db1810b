import { type Cancel, type Clock, every } from '../runtime/clock.ts'
import { memoryReading } from '../runtime/system-heap.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'

/** Adds the usual process metrics of Prometheus clients: memory, processor time, start. */
export function observeProcess(metrics: Metrics, clock: Clock): void {
  const resident = metrics.gauge({ name: 'process_resident_memory_bytes', help: 'Resident memory of this process.' })
  const heap = metrics.gauge({ name: 'nodejs_heap_size_used_bytes', help: 'JavaScript heap in use.' })
  const cpu = metrics.counter({ name: 'process_cpu_seconds_total', help: 'Processor time, user and system.' })
  const start = metrics.gauge({ name: 'process_start_time_seconds', help: 'When this process started, Unix time.' })
  start.set({}, clock.wallMs() / 1000 - process.uptime())
  let countedMicros = 0
  metrics.onCollect(() => {
    const memory = memoryReading()
    if (memory !== undefined) {
      resident.set({}, memory.rss)
      heap.set({}, memory.heapUsed)
    }
    const usage = process.cpuUsage()
    cpu.add({}, (usage.user + usage.system - countedMicros) / 1e6)
    countedMicros = usage.user + usage.system
  })
}

const PERIOD_MS = 500
/** A lateness of this or more, in milliseconds, is logged, because a lease's renewal may have been late too. */
const REPORTED_MS = 1_000
/** How many samples the metric covers: a minute. */
const SAMPLES = 120

interface EventLoopOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: Metrics
}

/**
 * Measures how late timers fire, and logs a lateness of a second or more. Returns a function that ends the measurement.
 */
export function watchEventLoop({ clock, logger, metrics }: EventLoopOptions): Cancel {
  const latenessesMs: number[] = []
  const lag = metrics.gauge({
    name: 'nodejs_eventloop_lag_max_seconds',
    help: 'Longest event loop delay in the last minute: how late a timer ran.',
  })
  metrics.onCollect(() => lag.set({}, Math.max(0, ...latenessesMs) / 1000))
  return every(clock, PERIOD_MS, (lateMs) => {
    latenessesMs.push(lateMs)
    if (latenessesMs.length > SAMPLES) latenessesMs.shift()
    if (lateMs < REPORTED_MS) return
    logger.warn(
      { lateMs: Math.round(lateMs) },
      'the event loop was blocked: the process was stopped, had no CPU time, or was busy',
    )
  })
}
