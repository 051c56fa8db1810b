import type { EventSink } from '../kube/event-object.ts'
import { eventOf } from '../kube/event-reasons.ts'
import { apiVersionOf, services } from '../kube/resources.ts'
import { KUBERNETES_SERVICE } from '../kubernetes-service/identity.ts'
import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/message-of.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Gauge } from '../telemetry/metrics.ts'
import type { ControllerName } from './controller-selection.ts'

/** One run of a duty, from its beginning to its end: nothing that an earlier one knew is relied on. */
export interface DutyTerm {
  /** Does the duty until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>
  /** Resolves when the duty was done for the first time; may reject when the term ends before. */
  readonly settled: Promise<void>
  /** Why it cannot be done now, as one line; undefined while it can. */
  fault?(): string | undefined
}

/** How a duty fares. */
export type DutyCondition =
  | { readonly type: 'well' }
  /** Something is wrong, and may pass. */
  | { readonly type: 'ailing'; readonly sinceMs: number }
  | { readonly type: 'degraded'; readonly reason: string }

/** What is seen of a duty at one moment. */
export interface DutySymptoms {
  /** Why it is not done; undefined when all is well. */
  readonly fault: string | undefined
  /** It has thrown what nobody expected, and has not been done since. */
  readonly crashed: boolean
  /** A server that it needs does not answer. */
  readonly away: boolean
}

/**
 * How a duty fares after another look. Pure. A fault degrades it when it has lasted for `timeoutMs`; a server that is away is waited for, and the time counts
 * anew when it is back. What is degraded stays so until nothing is wrong.
 */
export function nextCondition(
  before: DutyCondition,
  { fault, crashed, away }: DutySymptoms,
  nowMs: number,
  timeoutMs: number,
): DutyCondition {
  if (fault === undefined) return { type: 'well' }
  if (before.type === 'degraded') return before
  if (crashed) return { type: 'degraded', reason: fault }
  if (away) return { type: 'well' }
  const sinceMs = before.type === 'ailing' ? before.sinceMs : nowMs
  return nowMs - sinceMs >= timeoutMs ? { type: 'degraded', reason: fault } : { type: 'ailing', sinceMs }
}

export interface DutyHealthOptions {
  readonly name: ControllerName
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  /** 1 while the duty is degraded. */
  readonly degraded: Gauge<'duty'>
  /** How long it may be refused, or not be done, before it is degraded. */
  readonly timeoutMs: number
  /** What a dry run does not write is never right. */
  readonly dryRun: boolean
  /** What is refused to it for good. */
  readonly refusal: () => string | undefined
  /** Hears of what nobody expected. */
  readonly onMistake?: ((error: unknown) => void) | undefined
}

/** Knows how one duty fares, in all its terms, and tells when it becomes degraded and when it is well again. */
export class DutyHealth {
  readonly #options: DutyHealthOptions
  readonly #settled = Promise.withResolvers<void>()
  readonly #known = Promise.withResolvers<void>()
  #condition: DutyCondition = { type: 'well' }
  #term: Pick<DutyTerm, 'settled' | 'fault'> | undefined
  #done = false
  #crash: string | undefined

  constructor(options: DutyHealthOptions) {
    this.#options = options
    options.degraded.set({ duty: options.name }, 0)
  }

  /** Resolves when the duty was done for the first time. */
  get settled(): Promise<void> {
    return this.#settled.promise
  }

  /** Resolves when the duty was done for the first time or is degraded: nobody should wait for it any longer. */
  get known(): Promise<void> {
    return this.#known.promise
  }

  /** A term begins. */
  begun(term: Pick<DutyTerm, 'settled' | 'fault'>): void {
    this.#term = term
    this.#done = false
    term.settled.then(
      () => this.#settledIn(term),
      () => {},
    )
  }

  #settledIn(term: Pick<DutyTerm, 'settled'>): void {
    if (this.#term !== term) return
    this.#done = true
    this.#settled.resolve()
    this.#known.resolve()
    this.recovered()
  }

  /** The term has failed with what nobody expected; another one will begin. */
  crashed(error: unknown): void {
    this.#options.logger.error({ error }, 'unexpected error; the duty begins anew')
    this.#options.onMistake?.(error)
    this.#crash = `unexpected error: ${messageOf(error)}`
    this.#look({ away: false })
  }

  /** What it shares with others had failed, and goes on. */
  recovered(): void {
    this.#crash = undefined
    this.#look({ away: false })
  }

  /** It is not done here any more. */
  ended(): void {
    this.#term = undefined
    this.#crash = undefined
    this.#look({ away: false })
  }

  /** The server was asked how it fares: time to look. */
  heard(seen: { readonly away: boolean }): void {
    this.#look(seen)
  }

  /** For the health check of this duty. */
  fault(): string | undefined {
    return this.#condition.type === 'degraded' ? this.#condition.reason : this.#term?.fault?.()
  }

  #symptom(): string | undefined {
    if (this.#term === undefined) return undefined
    const refused = this.#crash ?? this.#options.refusal()
    if (refused !== undefined || this.#options.dryRun) return refused
    return this.#term.fault?.() ?? (this.#done ? undefined : 'it has not been done yet')
  }

  #look({ away }: { readonly away: boolean }): void {
    const { clock, timeoutMs } = this.#options
    const symptoms = { fault: this.#symptom(), crashed: this.#crash !== undefined, away }
    const before = this.#condition
    this.#condition = nextCondition(before, symptoms, clock.monotonicMs(), timeoutMs)
    if ((before.type === 'degraded') !== (this.#condition.type === 'degraded')) this.#tell(this.#condition)
  }

  #tell(now: DutyCondition): void {
    const { name, logger, events, degraded } = this.#options
    if (now.type !== 'degraded') {
      degraded.set({ duty: name }, 0)
      logger.info({ duty: name }, 'the duty is no longer degraded')
      return
    }
    const { reason } = now
    degraded.set({ duty: name }, 1)
    logger.warn({ duty: name, reason }, 'the duty is degraded; it is tried again and again')
    const regarding = { apiVersion: apiVersionOf(services), kind: services.kind, ...KUBERNETES_SERVICE }
    events.record(eventOf('DutyDegraded', { regarding, note: `${name} cannot be done: ${reason}` }))
    this.#known.resolve()
  }
}
