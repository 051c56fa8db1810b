import type { Cancel, Clock } from '../runtime/clock.ts'
import { watchLateness } from '../runtime/lateness.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'

/** Between two looks, in milliseconds. */
const PERIOD_MS = 500
/** A process that was late by so much is told of, in milliseconds: a lease's renewal was late with it. */
const TOLD_MS = 1_000
/** How many looks the metric goes back: a minute. */
const LOOKS = 120

export interface EventLoopOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: Metrics
}

/** Measures how late this process comes to its timers, and logs when that is a second or more. Returns what ends it. */
export function watchEventLoop({ clock, logger, metrics }: EventLoopOptions): Cancel {
  const latenessesMs: number[] = []
  const lag = metrics.gauge({
    name: 'nodejs_eventloop_lag_max_seconds',
    help: 'The longest time in the last minute by which this process came late to a timer.',
  })
  metrics.onCollect(() => lag.set({}, Math.max(0, ...latenessesMs) / 1000))
  return watchLateness(clock, PERIOD_MS, (lateMs) => {
    latenessesMs.push(lateMs)
    if (latenessesMs.length > LOOKS) latenessesMs.shift()
    if (lateMs < TOLD_MS) return
    logger.warn(
      { lateMs: Math.round(lateMs) },
      'this process stood still: it was stopped, had no processor, or was busy',
    )
  })
}
