import { FlapDamping } from '../runtime/backoff.ts'
import type { Clock } from '../runtime/clock.ts'
import { messageOf, RemoteError } from '../runtime/errors.ts'
import type { Logger } from '../telemetry/logger.ts'
import { Outages } from '../telemetry/outages.ts'
import type { KubeErrorCode } from './errors.ts'

/**
 * A new refusal that follows an outage, or may pass, or is this program's own, counts as permanent when it has lasted
 * this long.
 */
const RETURNING_MS = 5_000
/**
 * A refusal is logged when it has lasted this long. A server that has just started refuses until it has read its RBAC
 * rules.
 */
const REPORT_AFTER_MS = 2_000
/**
 * During an outage of other sources a refusal is logged only when the outage has lasted this long, because a failing
 * server also refuses valid requests. An endless outage of some sources must not hide the refusals of others.
 */
const REPORT_IN_OUTAGE_MS = 300_000

export type AvailabilityReporter = Pick<Availability, 'failed' | 'interrupted' | 'succeeded' | 'forget'> & {
  readonly outages?: Outages | undefined
}

const UNAUTHORIZED: KubeErrorCode = 'Unauthorized'
const FORBIDDEN: KubeErrorCode = 'Forbidden'

/** Where an operator finds the rights that this program needs. */
export const RIGHTS_HINT =
  'the rights that are needed are in config/kustomize: rbac, rbac-endpoints for the Endpoints controllers, rbac-service-cidr for service-cidr'

type Failure =
  /** The server does not answer, or fails. `refusal`: the permanent refusal before the outage, if any. */
  | { readonly kind: 'lost'; readonly refusal: Refusal | undefined }
  /** The request is refused, perhaps only while the server starts and has not read its RBAC rules. */
  | { readonly kind: 'returning'; readonly sinceMs: number }
  | Refusal

interface Outage {
  readonly sinceMs: number
  readonly reason: string
  readonly sources: Set<string>
}

/** A permanent refusal, which is logged once. */
interface Refusal {
  readonly kind: 'refused'
  readonly code: string | undefined
  readonly reason: string
  /** Whether this program itself refuses, not the server. */
  readonly own: boolean
  readonly sinceMs: number
  readonly reported: boolean
}

/**
 * Whether a server can be used, computed from the failures and successes that its clients report. Each report names a
 * source: what was requested, such as `services`.
 *
 * All sources that lose the server share one outage. One line is logged when the first source fails, and one when the
 * last source has recovered. A server that repeatedly fails and recovers causes no further lines ({@link FlapDamping}).
 * A refusal is no outage. It is logged once per source until that source succeeds. {@link KubeCredentials} logs
 * `Unauthorized`, in one line for all sources, because it has one cause.
 */
export class Availability {
  readonly #server: string
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #failures = new Map<string, Failure>()
  readonly #handlers = new Set<(available: boolean) => void>()
  readonly #damping = new FlapDamping(true)
  /** Hides the log lines about consequences of this server's outages. */
  readonly outages: Outages
  #outage: Outage | undefined
  /** An outage whose last failing source was forgotten before the server answered: its end is not logged yet. */
  #forgotten: Outage | undefined
  /**
   * Whether the server has refused a request, or answered a source that had failed, since the last failure that began
   * or prolonged an outage.
   */
  #answers = false
  /**
   * The sources that have succeeded, or that this server has refused. An outage is logged as `lost` if its first
   * failing source is one of them, else as `cannot reach`: another server may have answered the other sources.
   */
  readonly #answered = new Set<string>()
  #isHinted = false

  /** `server`: the name of the server in the log. @default 'the API server' */
  constructor(options: {
    readonly clock: Clock
    readonly logger: Logger
    readonly server?: string
    /** The outages that other parts also use. @default its own */
    readonly outages?: Outages | undefined
  }) {
    this.#server = options.server ?? 'the API server'
    this.#clock = options.clock
    this.#logger = options.logger
    this.outages = options.outages ?? new Outages(options)
  }

  /**
   * False during an outage: from its first failure until every failed or interrupted source has succeeded, was
   * permanently refused or was forgotten.
   */
  get available(): boolean {
    return this.#outage === undefined
  }

  /** The reason for the permanent refusal of the first of these sources that has one; undefined if none has. */
  refusalOf(...sources: readonly string[]): string | undefined {
    // This is asked after each probe, and mostly nothing fails.
    if (this.#failures.size === 0) return undefined
    for (const source of sources) {
      const failure = this.#failures.get(source)
      if (failure?.kind === 'refused') return failure.reason
    }
    return undefined
  }

  /** Reports that a request of `source`, such as `services`, failed. */
  failed(source: string, error: unknown): void {
    this.#logger.debug({ source, error }, `a request to ${this.#server} failed`)
    const before = this.#failures.get(source)
    // An error that is not a RemoteError counts as a refusal by this program itself.
    const nature = error instanceof RemoteError ? error.nature : undefined
    const own = nature === undefined
    if (nature === 'away' || nature === 'conflict') {
      const refusal = before?.kind === 'refused' ? before : before?.kind === 'lost' ? before.refusal : undefined
      this.#failures.set(source, { kind: 'lost', refusal })
      this.#outageBegins(source, error)
      return
    }
    if (!own) {
      this.#answered.add(source)
      this.#answers = true
    }
    const nowMs = this.#clock.monotonicMs()
    const code = (error as { readonly code?: string } | undefined)?.code
    const fresh: Refusal = { kind: 'refused', code, reason: messageOf(error), own, sinceMs: nowMs, reported: false }
    const known = before?.kind === 'lost' ? before.refusal : before
    if (known?.kind === 'refused') {
      // New credentials may be accepted but lack a right. That is a new refusal.
      const begins = known.code === UNAUTHORIZED && code !== UNAUTHORIZED
      const refusal = begins ? fresh : { ...fresh, sinceMs: known.sinceMs, reported: known.reported }
      this.#refuse(source, refusal, nowMs - refusal.sinceMs >= REPORT_AFTER_MS)
    } else if (before?.kind === 'lost' || (before === undefined && (own || nature === 'passing'))) {
      this.#failures.set(source, { kind: 'returning', sinceMs: nowMs })
    } else if (before === undefined) {
      this.#refuse(source, fresh, false)
    } else if (before.kind === 'returning' && nowMs - before.sinceMs >= RETURNING_MS) {
      this.#refuse(source, fresh, true)
    }
  }

  /**
   * Reports that a working watch of `source` has broken. That alone begins no outage. But an outage that another source
   * begins before this source has recovered does not end before this source has succeeded, is permanently refused or is
   * forgotten.
   */
  interrupted(source: string): void {
    if (!this.#failures.has(source)) this.#failures.set(source, { kind: 'lost', refusal: undefined })
  }

  /**
   * Reports that a request of `source` succeeded. A report does not name the server that answered: the API server, etcd
   * or the program's own store. So it ends an outage or a refusal only if this source had failed at this server before.
   */
  succeeded(source: string): void {
    this.#answered.add(source)
    const before = this.#failures.get(source)
    if (before === undefined && !this.#forgotten?.sources.has(source)) return
    this.#answers = true
    this.#failures.delete(source)
    if (before?.kind === 'refused' && before.reported) {
      this.#logger.info(
        { source },
        before.own ? 'operation succeeded after earlier failures' : `${this.#server} no longer refuses`,
      )
    }
    this.#outageMayEnd()
  }

  /**
   * Reports that `source` has ended, so its last state no longer counts. If no other source fails, the outage is over.
   * Its end is logged once the server has answered.
   */
  forget(source: string): void {
    if (!this.#failures.delete(source) || this.#outage === undefined || this.#isFailing) return
    if (this.#answers) {
      this.#outageMayEnd()
      return
    }
    this.#forgotten = this.#outage
    this.#outage = undefined
    this.outages.end()
    this.#notify(true)
  }

  /** Calls `handler` at every change of {@link available}, synchronously, until the returned function is called. */
  subscribe(handler: (available: boolean) => void): () => void {
    const own = (available: boolean): void => handler(available)
    this.#handlers.add(own)
    return () => {
      this.#handlers.delete(own)
    }
  }

  #refuse(source: string, refusal: Refusal, lasts: boolean): void {
    const { code, reason, own } = refusal
    this.#failures.set(source, refusal)
    const outage = this.#outage
    const hidden =
      outage === undefined
        ? this.outages.explainsSymptoms
        : this.#isFailing && this.#clock.monotonicMs() - outage.sinceMs < REPORT_IN_OUTAGE_MS
    const reportNow = lasts && !hidden && !refusal.reported && code !== UNAUTHORIZED
    if (reportNow) {
      this.#failures.set(source, { ...refusal, reported: true })
      const hint = code === FORBIDDEN && !this.#isHinted ? { hint: RIGHTS_HINT } : {}
      this.#isHinted ||= code === FORBIDDEN
      this.#logger.warn(
        { source, code, reason, ...hint },
        own ? 'an operation failed inside this program' : `${this.#server} refuses a request`,
      )
    }
    this.#outageMayEnd()
  }

  #outageBegins(source: string, error: unknown): void {
    const nowMs = this.#clock.monotonicMs()
    const reason = messageOf(error)
    const isNew = this.#outage === undefined
    this.#answers = false
    this.#outage ??= this.#forgotten ?? { sinceMs: nowMs, reason, sources: new Set() }
    this.#forgotten = undefined
    this.#outage.sources.add(source)
    if (isNew) this.outages.begin()
    if (this.#damping.observe(false, nowMs) === 'down') {
      this.#logger.warn({ source, reason }, `${this.#answered.has(source) ? 'lost' : 'cannot reach'} ${this.#server}`)
    }
    if (isNew) this.#notify(false)
  }

  #outageMayEnd(): void {
    const outage = this.#outage ?? (this.#answers ? this.#forgotten : undefined)
    if (outage === undefined || this.#isFailing) return
    const isOpen = this.#outage !== undefined
    this.#outage = undefined
    this.#forgotten = undefined
    if (isOpen) this.outages.end()
    const nowMs = this.#clock.monotonicMs()
    if (this.#damping.observe(true, nowMs) === 'up') {
      const durationMs = Math.round(nowMs - outage.sinceMs)
      const sources = [...outage.sources].sort()
      const meanwhile = this.outages.takeHidden()
      const fields = { durationMs, reason: outage.reason, sources, ...(meanwhile !== undefined && { meanwhile }) }
      this.#logger.info(fields, `${this.#server} is back`)
    }
    if (isOpen) this.#notify(true)
  }

  get #isFailing(): boolean {
    return [...this.#failures.values()].some(({ kind }) => kind !== 'refused')
  }

  #notify(available: boolean): void {
    for (const handler of [...this.#handlers]) handler(available)
  }
}
