import { type EventSink, referenceIn } from '../kube/event-object.ts'
import { eventOf } from '../kube/event-reasons.ts'
import { endpoints } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Counter, Metrics } from '../telemetry/metrics.ts'
import type { Contention, ContentionInput } from './contention.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import { LeaseWithdrawn } from './leases/master-leases.ts'
import { OverwriteMetrics } from './overwrite-metrics.ts'
import { leaseContestedNote } from './overwrite-notes.ts'

export interface LeaseTelemetryOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: Metrics
  readonly events: EventSink
  /** Of this master. */
  readonly address: string
  /** When the last successful renewal was sent, on the monotonic clock; undefined while there is no lease. */
  readonly renewedMs: () => number | undefined
}

/** Tells how this master's own lease fares: metrics, and when somebody keeps taking it away, the log and an event. */
export class LeaseTelemetry {
  readonly #options: LeaseTelemetryOptions
  readonly #renewals: Counter<'result'>
  readonly #overwrites: OverwriteMetrics

  constructor(options: LeaseTelemetryOptions) {
    this.#options = options
    const { metrics, clock, renewedMs } = options
    this.#renewals = metrics.counter({
      name: 'apiserver_bootstrap_lease_renewals_total',
      help: "Attempts to renew this master's lease: success, failure, or withdrawn when somebody has withdrawn the master.",
      labels: ['result'],
    })
    const age = metrics.gauge({
      name: 'apiserver_bootstrap_lease_age_seconds',
      help: "Time since the last renewal of this master's lease; absent while it keeps none.",
    })
    metrics.onCollect(() => {
      const sinceMs = renewedMs()
      if (sinceMs === undefined) age.remove({})
      else age.set({}, (clock.monotonicMs() - sinceMs) / 1000)
    })
    this.#overwrites = new OverwriteMetrics(metrics)
  }

  /** An attempt to renew came to its end. */
  attempted(error: unknown): void {
    const result = error === undefined ? 'success' : error instanceof LeaseWithdrawn ? 'withdrawn' : 'failure'
    this.#renewals.add({ result })
  }

  /** Somebody took the lease away, it was made again, or nobody does any more. */
  contended(input: ContentionInput, before: Contention, now: Contention): void {
    const { clock, logger, events, address } = this.#options
    if (input === 'corrected') this.#overwrites.overwritten('Lease', undefined)
    if (before.phase === now.phase) return
    this.#overwrites.backsOff('Lease', now.phase === 'backing-off')
    const nowMs = clock.monotonicMs()
    if (now.phase === 'backing-off') {
      const { corrections, sinceMs } = now
      const withinMs = Math.round(nowMs - sinceMs)
      this.#overwrites.backedOff('Lease')
      logger.warn({ address, corrections, withinMs }, "somebody keeps taking this master's lease away; backing off")
      const regarding = referenceIn(endpoints, { metadata: KUBERNETES_SERVICE })
      const note = leaseContestedNote({ address, corrections, withinMs })
      events.record(eventOf('LeaseContested', { regarding, note }))
    } else if (before.phase === 'backing-off') {
      const durationMs = Math.round(nowMs - before.sinceMs)
      logger.info(
        { address, corrections: before.corrections, durationMs },
        "nobody takes this master's lease away any more; it is made again at once if it goes",
      )
    }
  }
}
