import { FLAP_MS } from '../runtime/backoff.ts'
import type { Clock } from '../runtime/clock.ts'
import type { LogFields, Logger } from './logger.ts'

/** The lines that an outage hid, by message: how many there were, and the fields of the last one. */
type HiddenLines = Readonly<Record<string, LogFields & { readonly times: number }>>

/**
 * Reduces what all parts of the process log about an outage of a server to two lines: one when the outage begins, and
 * one when it ends.
 *
 * Each part notices an outage in its own way, and notices it repeatedly if the server sends invalid answers. While the
 * outage lasts, its consequences are logged at debug, and the line about its end counts them. A symptom that persists
 * five seconds after the end has another cause, so it is logged then.
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
   * Makes a symptom. `againMs`: how long after the last warning a call of `present` repeats the warning. @default never
   */
  symptom({ againMs = Number.POSITIVE_INFINITY }: { readonly againMs?: number } = {}): Symptom {
    let state: 'absent' | 'hidden' | 'logged' = 'absent'
    let loggedMs = 0
    return {
      present: (logger, fields, message) => {
        const nowMs = this.#clock.monotonicMs()
        if (state === 'logged' && nowMs - loggedMs < againMs) return
        if (this.explainsSymptoms) {
          if (state === 'absent') this.#hide(logger, fields, message)
          if (state !== 'logged') state = 'hidden'
        } else {
          state = 'logged'
          loggedMs = nowMs
          logger.warn(fields, message)
        }
      },
      absent: (logger, fields, message) => {
        if (state === 'logged') logger.info(fields, message)
        else if (state === 'hidden') logger.debug(fields, message)
        state = 'absent'
      },
    }
  }

  #hide(logger: Logger, fields: LogFields, message: string): void {
    logger.debug(fields, message)
    const times = (this.#hidden.get(message)?.times ?? 0) + 1
    this.#hidden.set(message, { times, ...fields })
  }
}

/** For parts whose server is not observed for outages. Hides nothing. */
export const noOutages = new Outages({ clock: { monotonicMs: () => 0 } })

/**
 * A condition that an outage may explain. It is logged as a warning when it begins, and at info when it ends. If an
 * outage explains it, both lines are logged at debug.
 */
export interface Symptom {
  /**
   * Reports that the condition holds. Call this repeatedly while the condition holds: if the condition outlasts the
   * outage, a later call logs the warning.
   */
  present(logger: Logger, fields: LogFields, message: string): void
  absent(logger: Logger, fields: LogFields, message: string): void
}
