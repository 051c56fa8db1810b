import { FLAP_MS } from '../runtime/backoff.ts'
import type { Clock } from '../runtime/clock.ts'
import type { LogFields, Logger } from './logger.ts'

type WriteLine = (logger: Logger, fields: LogFields, message: string) => void

/** The lines that an outage hid, by message: how many there were, and the fields of the last one. */
export type HiddenLines = Readonly<Record<string, LogFields & { readonly times: number }>>

/**
 * Reduces what all parts of the process log about an outage of a server to two lines: one when the outage begins, and
 * one when it ends.
 *
 * Each part notices an outage in its own way, and notices it repeatedly if the server sends invalid answers. While the
 * outage lasts, its consequences are logged at debug and counted in the line that ends it. A symptom that persists five
 * seconds after the end has another cause, so it is logged then.
 */
export class Outages {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #hidden = new Map<string, LogFields & { readonly times: number }>()
  #open = false
  #endedMs = Number.NEGATIVE_INFINITY

  constructor({ clock }: { readonly clock: Pick<Clock, 'monotonicMs'> }) {
    this.#clock = clock
  }

  /** Whether an outage is in progress, or ended so recently that its consequences may persist. */
  get explainsSymptoms(): boolean {
    return this.#open || this.#clock.monotonicMs() - this.#endedMs < FLAP_MS
  }

  begin(): void {
    // An earlier outage may have hidden lines that `takeHidden` did not return. Those lines are not of this outage.
    if (!this.explainsSymptoms) this.#hidden.clear()
    this.#open = true
  }

  end(): void {
    this.#open = false
    this.#endedMs = this.#clock.monotonicMs()
  }

  /** The lines that were hidden since the last call; undefined when there are none. */
  takeHidden(): HiddenLines | undefined {
    if (this.#hidden.size === 0) return undefined
    const hidden = Object.fromEntries(this.#hidden)
    this.#hidden.clear()
    return hidden
  }

  /** Logs an event that an outage explains: at debug during an outage, otherwise as a warning. */
  consequence(logger: Logger, fields: LogFields, message: string): void {
    if (this.#open) this.#hide(logger, fields, message)
    else logger.warn(fields, message)
  }

  /**
   * Creates a symptom: a condition that an outage may explain. The warning about the symptom is repeated every
   * `againMs` while the symptom is present. @default never repeated
   */
  symptom({ againMs = Number.POSITIVE_INFINITY }: { readonly againMs?: number } = {}): Symptom {
    const hide: WriteLine = (logger, fields, message) => this.#hide(logger, fields, message)
    return new Symptom(this, { hide, clock: this.#clock, againMs })
  }

  #hide(logger: Logger, fields: LogFields, message: string): void {
    logger.debug(fields, message)
    const times = (this.#hidden.get(message)?.times ?? 0) + 1
    this.#hidden.set(message, { times, ...fields })
  }
}

/** For parts whose server is not observed for outages. Hides nothing. */
export const noOutages = new Outages({ clock: { monotonicMs: () => 0 } })

interface SymptomOptions {
  readonly hide: WriteLine
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly againMs: number
}

/**
 * A condition that is logged as a warning when it begins, and at info when it ends. If an outage explains it, both
 * lines are logged at debug.
 */
class Symptom {
  readonly #outages: Outages
  readonly #options: SymptomOptions
  #state: 'absent' | 'hidden' | 'logged' = 'absent'
  #loggedMs = 0

  constructor(outages: Outages, options: SymptomOptions) {
    this.#outages = outages
    this.#options = options
  }

  /**
   * Reports that the condition holds. Call this repeatedly while the condition holds: if the condition outlasts the
   * outage, a later call logs the warning.
   */
  present(logger: Logger, fields: LogFields, message: string): void {
    const { hide, clock, againMs } = this.#options
    const nowMs = clock.monotonicMs()
    if (this.#state === 'logged' && nowMs - this.#loggedMs < againMs) return
    if (this.#outages.explainsSymptoms) {
      if (this.#state === 'absent') hide(logger, fields, message)
      if (this.#state !== 'logged') this.#state = 'hidden'
    } else {
      this.#state = 'logged'
      this.#loggedMs = nowMs
      logger.warn(fields, message)
    }
  }

  absent(logger: Logger, fields: LogFields, message: string): void {
    if (this.#state === 'logged') logger.info(fields, message)
    else if (this.#state === 'hidden') logger.debug(fields, message)
    this.#state = 'absent'
  }
}

export type { Symptom }
