import { type EventSink, eventOf, referenceIn } from '../kube/event-object.ts'
import { services } from '../kube/resources.ts'
import { KUBERNETES_SERVICE } from '../kubernetes-service/identity.ts'
import { exponentialBackoff } from '../runtime/backoff.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { messageOf } from '../runtime/errors.ts'
import type { Random } from '../runtime/random.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Gauge } from '../telemetry/metrics.ts'
import type { ControllerName } from './duties.ts'

/** One run of a duty. A term relies on nothing from an earlier term. */
export interface DutyTerm {
  run(signal: AbortSignal): Promise<void>
  /** Resolves when the duty was done for the first time; may reject if the term ends before that. */
  readonly settled: Promise<void>
  /** Why the duty cannot be done at present, as one line; undefined while it can. */
  fault?(): string | undefined
}

export type DutyCondition =
  | { readonly type: 'healthy' }
  /** The duty has a fault that may pass. */
  | { readonly type: 'failing'; readonly sinceMs: number }
  | { readonly type: 'degraded'; readonly reason: string }

export interface DutySymptoms {
  /** Why the duty is not done; undefined without a fault. */
  readonly fault: string | undefined
  /** The duty has failed unexpectedly, and has not recovered since. */
  readonly crashed: boolean
  /** A server that the duty needs does not answer, or no answer has yet decided who does the duty. */
  readonly away: boolean
}

/**
 * The condition of a duty after another check. Pure. A crash degrades the duty at once, another fault when it has
 * lasted for `timeoutMs`. This time begins anew after a check with `away`. A degraded duty stays degraded while it has
 * a fault.
 */
export function nextCondition(
  before: DutyCondition,
  { fault, crashed, away }: DutySymptoms,
  nowMs: number,
  timeoutMs: number,
): DutyCondition {
  if (fault === undefined) return { type: 'healthy' }
  if (before.type === 'degraded') return before
  if (crashed) return { type: 'degraded', reason: fault }
  if (away) return { type: 'healthy' }
  const sinceMs = before.type === 'failing' ? before.sinceMs : nowMs
  return nowMs - sinceMs >= timeoutMs ? { type: 'degraded', reason: fault } : { type: 'failing', sinceMs }
}

interface DutyHealthOptions {
  readonly name: ControllerName
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  readonly degraded: Gauge<'duty'>
  /** How long the duty may be refused, failing or incomplete before it is degraded. */
  readonly timeoutMs: number
  /** In a dry run no duty is ever done, so an incomplete duty is not a fault. */
  readonly dryRun: boolean
  /** What the server permanently refuses to this duty; undefined without a refusal. */
  readonly refusal: () => string | undefined
  readonly onMistake?: ((error: unknown) => void) | undefined
}

/** Tracks the condition of one duty over all its terms, and reports when it becomes degraded and when it recovers. */
export class DutyHealth {
  readonly #options: DutyHealthOptions
  readonly #settled = Promise.withResolvers<void>()
  readonly #known = Promise.withResolvers<void>()
  /** Resolves when the duty was done for the first time, or is suspended. */
  readonly settled = this.#settled.promise
  /** As {@link settled}, but resolves also when the duty is degraded: success may then take long. */
  readonly known = this.#known.promise
  #condition: DutyCondition = { type: 'healthy' }
  #term: Pick<DutyTerm, 'settled' | 'fault'> | undefined
  #done = false
  #suspended = false
  #crash: string | undefined

  constructor(options: DutyHealthOptions) {
    this.#options = options
    options.degraded.set({ duty: options.name }, 0)
  }

  begun(term: Pick<DutyTerm, 'settled' | 'fault'>): void {
    this.#term = term
    this.#done = false
    term.settled.then(
      () => {
        if (this.#term !== term) return
        this.#done = true
        this.#settled.resolve()
        this.#known.resolve()
        this.recovered()
      },
      () => {},
    )
  }

  crashed(error: unknown): void {
    this.#options.logger.error({ error }, 'unexpected error; restarting the duty')
    this.#options.onMistake?.(error)
    this.#crash = `unexpected error: ${messageOf(error)}`
    this.check()
  }

  /**
   * The failure that {@link crashed} reported is over: the duty was done, or the part that several duties share runs
   * again.
   */
  recovered(): void {
    this.#crash = undefined
    this.check()
  }

  /** The duty is not done here from this call until {@link begun}. */
  ended(): void {
    this.#term = undefined
    this.#crash = undefined
    this.check()
  }

  /** The server does not serve the resources of the duty: there is nothing to do until {@link resumed}. */
  suspended(): void {
    this.#suspended = true
    this.#settled.resolve()
    this.#known.resolve()
    this.check()
  }

  resumed(): void {
    this.#suspended = false
  }

  /** Computes the condition again. Called after each probe, whether or not the server answered. */
  check({ away }: { readonly away: boolean } = { away: false }): void {
    const { clock, timeoutMs } = this.#options
    const symptoms = { fault: this.#symptom(), crashed: this.#crash !== undefined, away }
    const before = this.#condition
    this.#condition = nextCondition(before, symptoms, clock.monotonicMs(), timeoutMs)
    if ((before.type === 'degraded') !== (this.#condition.type === 'degraded')) this.#report(this.#condition)
  }

  fault(): string | undefined {
    if (this.#suspended) return undefined
    return this.#condition.type === 'degraded' ? this.#condition.reason : this.#term?.fault?.()
  }

  #symptom(): string | undefined {
    if (this.#term === undefined || this.#suspended) return undefined
    const refused = this.#crash ?? this.#options.refusal()
    if (refused !== undefined || this.#options.dryRun) return refused
    return this.#term.fault?.() ?? (this.#done ? undefined : 'it has not completed yet')
  }

  #report(now: DutyCondition): void {
    const { name, logger, events, degraded } = this.#options
    if (now.type !== 'degraded') {
      degraded.set({ duty: name }, 0)
      logger.info({ duty: name }, 'the duty is no longer degraded')
      return
    }
    const { reason } = now
    degraded.set({ duty: name }, 1)
    logger.warn({ duty: name, reason }, 'the duty is degraded; retrying')
    const regarding = referenceIn(services, { metadata: KUBERNETES_SERVICE })
    events.record(eventOf('DutyDegraded', { regarding, note: `${name} is degraded: ${reason}` }))
    this.#known.resolve()
  }
}

const waits = { firstMs: 1_000, maxMs: 60_000, jitter: 0.25 }
/** After a term that lasted this long, in milliseconds, the waits start again with the first. */
const STEADY_MS = 60_000

export interface SupervisedOptions {
  readonly make: () => DutyTerm
  readonly health: Pick<DutyHealth, 'begun' | 'crashed'>
  readonly clock: Clock
  readonly random: Random
}

/**
 * Does a duty, term after term, until the signal is aborted; never rejects. A term handles failures of servers itself,
 * so a term that rejects, or ends before the abort, is a programming error. That is reported to `health`, and the next
 * term begins after a wait.
 */
export async function supervised(
  { make, health, clock, random }: SupervisedOptions,
  signal: AbortSignal,
): Promise<void> {
  const backoff = exponentialBackoff(waits, random)
  while (!signal.aborted) {
    const begunMs = clock.monotonicMs()
    try {
      const term = make()
      health.begun(term)
      await term.run(signal)
      if (!signal.aborted) throw new Error('it ended by itself')
    } catch (error) {
      // A failure after the abort is a consequence of it.
      if (!signal.aborted) health.crashed(error)
    }
    if (clock.monotonicMs() - begunMs >= STEADY_MS) backoff.reset()
    await sleep(clock, backoff.next(), signal).catch(() => {})
  }
}
