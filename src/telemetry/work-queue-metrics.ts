import type { Clock } from '../runtime/clock.ts'
import type { WorkQueueObserver } from '../runtime/work-queue.ts'
import type { Metrics } from './metrics.ts'

/** 10 ns to 10 s, as upstream. */
const buckets = Array.from({ length: 10 }, (_, power) => Number(`1e${power - 8}`))

/** Measures one queue at a time. */
export interface WorkQueueMetrics extends WorkQueueObserver {
  /** Another queue takes the place of the one before: what was waiting or under way there is forgotten. */
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
  const retries = metrics.counter(named('retries_total', 'Keys that were put back for later.'))
  const waited = metrics.histogram({
    ...named('queue_duration_seconds', 'How long a key waits before its work begins.'),
    buckets,
  })
  const worked = metrics.histogram({
    ...named('work_duration_seconds', 'How long the work on a key takes.'),
    buckets,
  })
  const unfinished = metrics.gauge(
    named('unfinished_work_seconds', 'Work under way, summed over the workers; it keeps growing where one is stuck.'),
  )
  const longest = metrics.gauge(
    named('longest_running_processor_seconds', 'How long the longest work under way has been going on.'),
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
