import type { Clock } from '../runtime/clock.ts'
import type { WorkQueueObserver } from '../runtime/work-queue.ts'

type Labels<Name extends string = string> = Readonly<Record<Name, string>>

export interface Counter<Name extends string> {
  /** Adds `by` (default 1, never negative). */
  add(labels: Labels<Name>, by?: number): void
}

export interface Gauge<Name extends string> {
  set(labels: Labels<Name>, value: number): void
  /** Removes the sample of these labels, for example of a certificate that is not in use. */
  remove(labels: Labels<Name>): void
}

/** A distribution. Durations are in seconds, as Prometheus wants them. */
export interface Histogram<Name extends string> {
  observe(labels: Labels<Name>, value: number): void
}

/** The name and description of a metric. Requesting a name twice gives the same metric. */
export interface MetricOptions<Name extends string> {
  readonly name: string
  readonly help: string
  readonly labels?: readonly Name[]
}

/**
 * The metrics of one master. Several masters in one process have one registry each. Requesting a name again with other
 * labels or another type is a programming error and throws.
 */
export interface Metrics {
  counter<Name extends string = never>(options: MetricOptions<Name>): Counter<Name>
  gauge<Name extends string = never>(options: MetricOptions<Name>): Gauge<Name>
  histogram<Name extends string = never>(
    options: MetricOptions<Name> & { readonly buckets: readonly number[] },
  ): Histogram<Name>
  /** Registers a function called before each `expose`, for values that are cheaper to read than to maintain. */
  onCollect(collect: () => void): void
  /** The text exposition format, version 0.0.4. */
  expose(): Promise<string>
}

/** 10 ns to 10 s, as upstream. */
const buckets = Array.from({ length: 10 }, (_, power) => Number(`1e${power - 8}`))

/** Measures one queue at a time. */
interface WorkQueueMetrics extends WorkQueueObserver {
  /** Forgets all waiting and running keys. Must be called when a new queue replaces the measured one. */
  restart(): void
}

/**
 * Measures a work queue under upstream's names, `workqueue_*` with the label `name`
 * (k8s.io/component-base/metrics/prometheus/workqueue). Pass it to the queue as its observer.
 */
export function workQueueMetrics(options: {
  readonly metrics: Metrics
  readonly name: string
  readonly clock: Clock
}): WorkQueueMetrics {
  const { metrics, clock } = options
  const labels = { name: options.name }
  const named = (name: string, help: string) => ({ name: `workqueue_${name}`, help, labels: ['name'] as const })
  const depth = metrics.gauge(named('depth', 'Keys that wait for a worker.'))
  const adds = metrics.counter(named('adds_total', 'Keys that were added.'))
  const retries = metrics.counter(named('retries_total', 'Keys that were requeued.'))
  const waited = metrics.histogram({
    ...named('queue_duration_seconds', 'How long a key waits before its work begins.'),
    buckets,
  })
  const worked = metrics.histogram({
    ...named('work_duration_seconds', 'How long the work on a key takes.'),
    buckets,
  })
  const unfinished = metrics.gauge(
    named(
      'unfinished_work_seconds',
      'Seconds of work in progress, summed over the workers; keeps growing while a worker is stuck.',
    ),
  )
  const longest = metrics.gauge(
    named('longest_running_processor_seconds', 'How long the longest running worker has been running.'),
  )

  const addedAt = new Map<string, number>()
  const startedAt = new Map<string, number>()
  let waiting = 0
  const secondsSince = (startMs: number): number => (clock.monotonicMs() - startMs) / 1000

  metrics.onCollect(() => {
    const ages = [...startedAt.values()].map(secondsSince)
    depth.set(labels, waiting)
    unfinished.set(
      labels,
      ages.reduce((sum, age) => sum + age, 0),
    )
    longest.set(labels, Math.max(0, ...ages))
  })

  return {
    restart() {
      waiting = 0
      addedAt.clear()
      startedAt.clear()
    },
    added(key) {
      adds.add(labels)
      waiting++
      addedAt.set(key, clock.monotonicMs())
    },
    started(key) {
      waiting--
      startedAt.set(key, clock.monotonicMs())
      const addedMs = addedAt.get(key)
      if (addedMs !== undefined) waited.observe(labels, secondsSince(addedMs))
      addedAt.delete(key)
    },
    finished(key) {
      const startedMs = startedAt.get(key)
      if (startedMs !== undefined) worked.observe(labels, secondsSince(startedMs))
      startedAt.delete(key)
    },
    retried() {
      retries.add(labels)
    },
  }
}
