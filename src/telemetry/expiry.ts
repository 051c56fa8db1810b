import type { Clock } from '../runtime/clock.ts'
import { formatTime } from '../runtime/time-format.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'

/** What may end, by the name under which it is given: of a field in the kubeconfig, or of a flag. */
export type ExpiringKind =
  | 'client-certificate'
  | 'certificate-authority'
  | 'token'
  | 'etcd-certfile'
  | 'etcd-cafile'
  | 'health-tls-cert-file'
  | 'client-ca-file'

/** When it ends, in wall time, and since when it is good, where that is known. */
export interface Lifetime {
  readonly fromMs?: number | undefined
  readonly toMs: number
}

/** Hears what is in use, each time that it is looked at; of authorities all that are in the file, and nothing of what has no known end. */
export type ExpiryReporter = (kind: ExpiringKind, lifetimes: readonly Lifetime[]) => void

const DAY_MS = 86_400_000
/** So long before its end a certificate is warned of. */
const WARNINGS_MS = [7 * DAY_MS, DAY_MS]
/** But only in this last part of its life: one that lives for a day or an hour is renewed late, and all the time. */
const LAST_PART = 0.1

/** How many of its warnings are due. Pure. None for what has no known beginning, such as tokens: they are renewed from one hour to the next. */
export function warningsDue({ fromMs, toMs }: Lifetime, nowMs: number): number {
  if (fromMs === undefined) return 0
  const lastPartMs = (toMs - fromMs) * LAST_PART
  return WARNINGS_MS.filter((aheadMs) => toMs - nowMs <= Math.min(aheadMs, lastPartMs)).length
}

/** Keeps the metric of when what is in use ends, and warns of certificates that nothing has renewed. */
export function expiryReporter(options: {
  readonly metrics: Metrics
  readonly clock: Clock
  readonly logger: Logger
}): ExpiryReporter {
  const { metrics, clock, logger } = options
  const gauge = metrics.gauge({
    name: 'apiserver_bootstrap_credentials_expiration_timestamp_seconds',
    help: 'When the certificate or token in use ends, Unix time, by the field or flag that gives it; absent where it has no end or does not say so.',
    labels: ['kind'],
  })
  const told = new Map<ExpiringKind, { readonly toMs: number; readonly warnings: number }>()
  return (kind, lifetimes) => {
    const nowMs = clock.wallMs()
    const lifetime = nextToEnd(lifetimes, nowMs)
    if (lifetime === undefined) {
      gauge.remove({ kind })
      return
    }
    const { toMs } = lifetime
    gauge.set({ kind }, toMs / 1000)
    const before = told.get(kind)
    const warnings = warningsDue(lifetime, nowMs)
    told.set(kind, { toMs, warnings })
    if (warnings <= (before?.toMs === toMs ? before.warnings : 0)) return
    const ends = formatTime(toMs)
    if (toMs > nowMs) logger.warn({ kind, ends }, 'a certificate ends soon, and nothing has renewed it')
    else logger.warn({ kind, ends }, 'a certificate has ended')
  }
}

/** One that has ended counts only where all have: where authorities are rotated, old ones stay behind. */
function nextToEnd(lifetimes: readonly Lifetime[], nowMs: number): Lifetime | undefined {
  const inTurn = lifetimes.toSorted((a, b) => a.toMs - b.toMs)
  return inTurn.find(({ toMs }) => toMs > nowMs) ?? inTurn.at(-1)
}
