import type { Clock } from '../runtime/clock.ts'
import { formatTime } from '../runtime/time-format.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'

/** What may expire, named after the kubeconfig field or the flag that provides it. */
export type ExpiringKind =
  | 'client-certificate'
  | 'certificate-authority'
  | 'token'
  | 'etcd-certfile'
  | 'etcd-cafile'
  | 'health-tls-cert-file'
  | 'client-ca-file'

/**
 * When a certificate or token is valid, in milliseconds since the Unix epoch. The start is left out if it is unknown.
 */
export interface Lifetime {
  readonly fromMs?: number | undefined
  readonly toMs: number
}

/**
 * Called at each reading of a file or token, with the lifetimes of the certificates or of the token in use. A file of
 * authorities may have several. A token without an expiry has none.
 */
export type ExpiryReporter = (kind: ExpiringKind, lifetimes: readonly Lifetime[]) => void

const DAY_MS = 86_400_000
/** When warnings are logged: the times before a certificate's expiry, in milliseconds. */
const WARNINGS_MS = [7 * DAY_MS, DAY_MS]
/**
 * Warnings are limited to this last fraction of the lifetime, because certificates that live for a day or an hour are
 * normally renewed late.
 */
const LAST_PART = 0.1

/**
 * How many warnings about a certificate are due: 0 to 2. 0 if the start of its validity is unknown, as for tokens,
 * which are normally renewed every hour. Pure.
 */
export function warningsDue({ fromMs, toMs }: Lifetime, nowMs: number): number {
  if (fromMs === undefined) return 0
  const lastPartMs = (toMs - fromMs) * LAST_PART
  return WARNINGS_MS.filter((aheadMs) => toMs - nowMs <= Math.min(aheadMs, lastPartMs)).length
}

/** Sets the metric of expiry times, and warns about certificates that were not renewed. */
export function expiryReporter(options: {
  readonly metrics: Metrics
  readonly clock: Clock
  readonly logger: Logger
}): ExpiryReporter {
  const { metrics, clock, logger } = options
  const gauge = metrics.gauge({
    name: 'apiserver_bootstrap_credentials_expiration_timestamp_seconds',
    help: 'Expiry of the certificate or token in use, Unix time, by the field or flag that sets it; absent if the expiry is unknown.',
    labels: ['kind'],
  })
  const reported = new Map<ExpiringKind, { readonly toMs: number; readonly warnings: number }>()
  return (kind, lifetimes) => {
    const nowMs = clock.wallMs()
    const lifetime = nextToEnd(lifetimes, nowMs)
    if (lifetime === undefined) {
      gauge.remove({ kind })
      return
    }
    const { toMs } = lifetime
    gauge.set({ kind }, toMs / 1000)
    const before = reported.get(kind)
    const warnings = warningsDue(lifetime, nowMs)
    reported.set(kind, { toMs, warnings })
    if (warnings <= (before?.toMs === toMs ? before.warnings : 0)) return
    const ends = formatTime(toMs)
    if (toMs > nowMs) logger.warn({ kind, ends }, 'a certificate expires soon and has not been renewed')
    else logger.warn({ kind, ends }, 'a certificate has expired')
  }
}

/** The next lifetime to end, or the last if all have ended. An expired certificate beside a valid one was rotated. */
function nextToEnd(lifetimes: readonly Lifetime[], nowMs: number): Lifetime | undefined {
  const inTurn = lifetimes.toSorted((a, b) => a.toMs - b.toMs)
  return inTurn.find(({ toMs }) => toMs > nowMs) ?? inTurn.at(-1)
}
