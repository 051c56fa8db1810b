import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { linkedController } from '../runtime/signals.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { ActiveDuties } from './active-duties.ts'
import type { ControllerName, DutyDecision, DutyDecisions } from './duties.ts'
import { type DutyHealth, type DutyTerm, supervised } from './duty-health.ts'

export interface DutySwitchOptions {
  readonly name: ControllerName
  /**
   * `only`: the names of the objects that are managed here if the server does the rest; undefined for all. A term that
   * is made before the first answer of the server may read, but writes only when `decided` has resolved.
   */
  readonly make: (only: readonly string[] | undefined, decided: Promise<void>) => DutyTerm
  /** Whether a term is made before the first answer of the server. @default false */
  readonly early?: boolean | undefined
  /** Whether the duty also runs, but only reports, beside a server that does it itself. @default false */
  readonly reports?: boolean | undefined
  readonly decisions: DutyDecisions
  readonly health: DutyHealth
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** The duty is set to 1 while it is done here, to 0 while it is off or left to the server. */
  readonly active: Pick<ActiveDuties, 'set'>
}

/**
 * Starts one duty as soon as an answer of the server shows which duties the server does itself, or earlier, only to
 * read ({@link DutySwitchOptions.early}). While the server does the duty itself, this process does not do it, or only
 * reports, or manages only the objects that the server does not create. It does the duty again when all answers of the
 * server have lacked the hook of the duty for a minute.
 */
export class DutySwitch {
  readonly #options: DutySwitchOptions
  readonly #decided = Promise.withResolvers<void>()
  readonly #left = Promise.withResolvers<void>()
  readonly #changes = new Trigger<'decided'>()
  #decision: DutyDecision | undefined
  #term: AbortController | undefined

  constructor(options: DutySwitchOptions) {
    this.#options = options
  }

  /**
   * Resolves when the duty was done once, is suspended or off, or is left to the server, even if the server leaves some
   * objects to this process (`except` of {@link DutyDecision}).
   */
  async settled(): Promise<void> {
    await this.#decided.promise
    if (this.#decision?.type === 'off') return
    await Promise.race([this.#options.health.settled, this.#left.promise])
  }

  /** As {@link settled}, but does not wait for a duty that is degraded. */
  known(): Promise<void> {
    return Promise.race([this.settled(), this.#options.health.known])
  }

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { decisions } = this.#options
    const unsubscribe = decisions.subscribe(() => this.#decide())
    this.#decide()
    try {
      for (;;) {
        while (!this.#works()) await this.#changes.take(signal)
        const { controller, unlink } = linkedController(signal)
        this.#term = controller
        const make = (): DutyTerm => this.#options.make(exceptOf(this.#decision), this.#decided.promise)
        await supervised({ ...this.#options, make }, controller.signal).finally(unlink)
        signal.throwIfAborted()
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      unsubscribe()
    }
  }

  #decide(): void {
    const { name, decisions, health, active } = this.#options
    const before = this.#decision
    const decision = decisions.of(name)
    const isSame = decision?.type === before?.type && `${exceptOf(decision)}` === `${exceptOf(before)}`
    if (decision === undefined || isSame) return
    this.#decision = decision
    this.#log(decision, before)
    active.set({ duty: name }, decision.type === 'on' || decision.type === 'on-beside-server' ? 1 : 0)
    if (decision.type === 'left-to-server') this.#left.resolve()
    this.#changes.fire('decided')
    if (!this.#works()) {
      this.#term?.abort(new Error(`${name} is left to the server`))
      health.ended()
    } else if (before?.type === 'left-to-server' || exceptOf(decision) !== undefined) {
      // The term must restart: it only reported and must repair from here on, or it managed other objects.
      this.#term?.abort(new Error(`another part of ${name} is done here`))
    }
    // Resolved last, so that an early term that was just aborted does not write.
    this.#decided.resolve()
  }

  #works(): boolean {
    const decision = this.#decision
    if (decision === undefined) return this.#options.early === true
    if (decision.type !== 'left-to-server') return decision.type !== 'off'
    return this.#options.reports === true || decision.except !== undefined
  }

  #log(decision: DutyDecision, before: DutyDecision | undefined): void {
    const { logger, name, reports } = this.#options
    const fields = { duty: name }
    switch (decision.type) {
      case 'left-to-server':
        logger.info(
          { ...fields, hook: decision.hook },
          reports === true
            ? 'the server does this itself; only reporting findings'
            : decision.except === undefined
              ? 'the server does this itself; leaving it to the server'
              : `the server does this itself; leaving it to the server, except for ${decision.except.join(', ')}`,
        )
        return
      case 'on-beside-server':
        logger.warn(
          { ...fields, hook: decision.hook },
          reports === true
            ? 'the server does this itself; also doing it here, as configured: a starting API server may exit if this program creates an allocation that the server has just found missing'
            : 'the server does this itself; also doing it here, as configured',
        )
        return
      case 'on':
        if (before === undefined) logger.debug(fields, 'duty on')
        else logger.info(fields, 'the server has not done this itself for a minute; doing it here')
        return
      case 'off':
        logger.debug(fields, 'duty off')
    }
  }
}

function exceptOf(decision: DutyDecision | undefined): readonly string[] | undefined {
  return decision?.type === 'left-to-server' ? decision.except : undefined
}
