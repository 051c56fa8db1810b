import type { Clock } from '../runtime/clock.ts'
import { FlapDamping } from '../runtime/flap-damping.ts'
import { messageOf } from '../runtime/message-of.ts'
import { RemoteError } from '../runtime/remote-error.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { KubeErrorCode } from './errors.ts'

/** How long a source may be refused in passing before that counts as a refusal. */
const returningMs = 5_000
/** How long a source must be refused for good before that is said: a server that has just started forbids everything until it has read its RBAC rules. */
const saidAfterMs = 2_000

/** Who hears how the requests of a source fare. */
export type AvailabilityReporter = Pick<Availability, 'failed' | 'succeeded' | 'forget'>

const UNAUTHORIZED: KubeErrorCode = 'Unauthorized'

type Trouble =
  /** The server does not answer, or fails. `refusal`: what was to be had before. */
  | { readonly kind: 'lost'; readonly refusal: Refusal | undefined }
  /** It answers, but refuses, perhaps in passing: a server that is starting does so until it has read its rules. */
  | { readonly kind: 'returning'; readonly sinceMs: number }
  | Refusal

/** The server refuses for good; said once. */
interface Refusal {
  readonly kind: 'refused'
  readonly code: string | undefined
  readonly reason: string
  readonly own: boolean
  readonly sinceMs: number
  readonly said: boolean
}

/**
 * Whether a server can be used, from what everybody who talks to it reports.
 *
 * Any number of sources that lose the server make one outage: one line when the first begins to fail, one when the last has
 * recovered; a server that comes and goes makes no more lines ({@link FlapDamping}). A refusal is no outage; it is said once per source until that source succeeds, and not at all if it passes. `Unauthorized` is
 * left to whoever holds the credentials: one cause, and one line for all sources.
 */
export class Availability {
  readonly #server: string
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #troubles = new Map<string, Trouble>()
  readonly #handlers = new Set<(available: boolean) => void>()
  readonly #damping = new FlapDamping(true)
  #outage: { readonly sinceMs: number; readonly reason: string; readonly sources: Set<string> } | undefined

  /** `server` names it in the log. @default 'the API server' */
  constructor(options: { readonly clock: Clock; readonly logger: Logger; readonly server?: string }) {
    this.#server = options.server ?? 'the API server'
    this.#clock = options.clock
    this.#logger = options.logger
  }

  /** False from the first failure until every source that failed has succeeded, was refused or was forgotten. */
  get available(): boolean {
    return this.#outage === undefined
  }

  /** What the server says to one of these sources that it refuses for good; undefined when it refuses none of them. */
  refusalOf(...sources: readonly string[]): string | undefined {
    for (const source of sources) {
      const trouble = this.#troubles.get(source)
      if (trouble?.kind === 'refused') return trouble.reason
    }
    return undefined
  }

  /** `source` names who asks, such as `services`; it failed with `error`. */
  failed(source: string, error: unknown): void {
    this.#logger.debug({ source, error }, `a request to ${this.#server} failed`)
    const before = this.#troubles.get(source)
    // What is no answer of the server at all is a refusal of our own.
    const nature = error instanceof RemoteError ? error.nature : undefined
    const own = nature === undefined
    if (nature === 'away' || nature === 'conflict') {
      const refusal = before?.kind === 'refused' ? before : before?.kind === 'lost' ? before.refusal : undefined
      this.#troubles.set(source, { kind: 'lost', refusal })
      this.#outageBegins(source, error)
      return
    }
    const nowMs = this.#clock.monotonicMs()
    const code = codeOf(error)
    const fresh: Refusal = { kind: 'refused', code, reason: messageOf(error), own, sinceMs: nowMs, said: false }
    const known = before?.kind === 'lost' ? before.refusal : before
    if (known?.kind === 'refused') {
      // Other credentials may be accepted, and lack a right.
      const refusal = known.code === UNAUTHORIZED && code !== UNAUTHORIZED ? fresh : known
      this.#refuse(source, refusal, nowMs - refusal.sinceMs >= saidAfterMs)
    } else if (before?.kind === 'lost' || (before === undefined && (own || nature === 'passing'))) {
      this.#troubles.set(source, { kind: 'returning', sinceMs: nowMs })
    } else if (before === undefined) {
      this.#refuse(source, fresh, false)
    } else if (before.kind === 'returning' && nowMs - before.sinceMs >= returningMs) {
      this.#refuse(source, fresh, true)
    }
  }

  /** `source` was served. */
  succeeded(source: string): void {
    const before = this.#troubles.get(source)
    if (before === undefined) return
    this.#troubles.delete(source)
    if (before.kind === 'refused' && before.said) {
      this.#logger.info({ source }, before.own ? 'done after all' : `${this.#server} no longer refuses`)
    }
    this.#outageMayEnd()
  }

  /** `source` has ended: how it fared last no longer counts. */
  forget(source: string): void {
    if (!this.#troubles.delete(source) || this.#outage === undefined || this.#inTrouble) return
    // The last that suffered has gone: nobody can say that the server is back.
    this.#outage = undefined
    this.#damping.observe(true, this.#clock.monotonicMs())
    this.#tell(true)
  }

  /** Calls `handler` at every change, synchronously, until the function that it returns is called. */
  subscribe(handler: (available: boolean) => void): () => void {
    const own = (available: boolean): void => handler(available)
    this.#handlers.add(own)
    return () => {
      this.#handlers.delete(own)
    }
  }

  #refuse(source: string, refusal: Refusal, lasts: boolean): void {
    const { code, reason, own } = refusal
    const isSaidNow = lasts && !refusal.said && code !== UNAUTHORIZED
    this.#troubles.set(source, { ...refusal, said: refusal.said || isSaidNow })
    if (isSaidNow) {
      this.#logger.warn({ source, code, reason }, own ? 'not done' : `${this.#server} refuses a request`)
    }
    this.#outageMayEnd()
  }

  #outageBegins(source: string, error: unknown): void {
    const nowMs = this.#clock.monotonicMs()
    const reason = messageOf(error)
    const isNew = this.#outage === undefined
    this.#outage ??= { sinceMs: nowMs, reason, sources: new Set() }
    this.#outage.sources.add(source)
    if (this.#damping.observe(false, nowMs) === 'down') this.#logger.warn({ source, reason }, `lost ${this.#server}`)
    if (isNew) this.#tell(false)
  }

  #outageMayEnd(): void {
    const outage = this.#outage
    if (outage === undefined || this.#inTrouble) return
    this.#outage = undefined
    const nowMs = this.#clock.monotonicMs()
    if (this.#damping.observe(true, nowMs) === 'up') {
      const durationMs = Math.round(nowMs - outage.sinceMs)
      const sources = [...outage.sources].sort()
      this.#logger.info({ durationMs, reason: outage.reason, sources }, `${this.#server} is back`)
    }
    this.#tell(true)
  }

  get #inTrouble(): boolean {
    return [...this.#troubles.values()].some(({ kind }) => kind !== 'refused')
  }

  #tell(available: boolean): void {
    for (const handler of [...this.#handlers]) handler(available)
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as { code?: string } | undefined)?.code
}
