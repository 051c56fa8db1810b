import { formatDuration } from '../documents/duration.ts'
import { ContentionReports, type ContentionReportsOptions, type Contested } from '../kube/contention-reports.ts'
import { referenceIn } from '../kube/event-object.ts'
import { eventOf } from '../kube/event-reasons.ts'
import { endpoints } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Contention, ContentionInput } from '../runtime/contention.ts'
import type { Counter } from '../telemetry/metrics.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import { LeaseWithdrawn } from './leases/master-leases.ts'

export interface LeaseTelemetryOptions extends ContentionReportsOptions {
  readonly clock: Clock
  /** Of this master. */
  readonly address: string
  readonly leaseTtlMs: number
  /** When the last successful renewal was sent, on the monotonic clock; undefined while there is no lease. */
  readonly renewedMs: () => number | undefined
}

/** Tells how this master's own lease fares: metrics, and when somebody keeps taking it away, the log and an event. */
export class LeaseTelemetry {
  readonly #options: LeaseTelemetryOptions
  readonly #renewals: Counter<'result'>
  readonly #reports: ContentionReports
  readonly #contested: Contested

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
    this.#reports = new ContentionReports(options)
    this.#contested = contestedLease(options.address)
  }

  /** An attempt to renew came to its end. */
  attempted(error: unknown): void {
    const result = error === undefined ? 'success' : error instanceof LeaseWithdrawn ? 'withdrawn' : 'failure'
    this.#renewals.add({ result })
    const { clock, logger, address, leaseTtlMs, renewedMs } = this.#options
    const unrenewedMs = Math.round(clock.monotonicMs() - (renewedMs() ?? Number.POSITIVE_INFINITY))
    if (result !== 'success' || unrenewedMs <= leaseTtlMs) return
    logger.warn(
      { address, unrenewedMs, leaseTtlMs },
      "this master's lease was not renewed in time; others may have taken its address off the list",
    )
  }

  /** Somebody took the lease away, it was made again, or nobody does any more. */
  contended(input: ContentionInput, before: Contention, now: Contention): void {
    if (input === 'corrected') this.#reports.corrected('Lease', undefined)
    this.#reports.changed(this.#contested, before, now, this.#options.clock.monotonicMs())
  }
}

function contestedLease(address: string): Contested {
  return {
    kind: 'Lease',
    fields: { address },
    backingOff: "somebody keeps taking this master's lease away; backing off",
    calmAgain: "nobody takes this master's lease away any more; it is made again at once if it goes",
    event({ corrections, withinMs }) {
      const regarding = referenceIn(endpoints, { metadata: KUBERNETES_SERVICE })
      const note =
        `The lease of ${address} was taken away and made again ${corrections} times in ${formatDuration(withinMs)}; from now on it is ` +
        'made again at growing intervals, and the master is listed in between only. Find out who deletes it: the audit log of the ' +
        'API server or of etcd tells.'
      return eventOf('LeaseContested', { regarding, note })
    },
  }
}
