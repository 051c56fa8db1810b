import { FLAP_MS } from '../runtime/backoff.ts'
import type { Clock } from '../runtime/clock.ts'
import type { LogFields, Logger } from './logger.ts'

type WriteLine = (logger: Logger, fields: LogFields, message: string) => void

/** Lines of one message that an outage hid: how many, with the fields of the last one. */
export type HiddenLines = Readonly<Record<string, LogFields & { readonly times: number }>>

/**
 * Makes one outage of a server one line at its begin and one at its end, in all parts of the process.
 *
 * Each part notices an outage in its own way, and a server that answers nonsense makes them notice again and again.
 * What follows from the outage is logged at debug while it lasts, and counted in the line that ends it. A symptom that
 * is still there five seconds later has another cause, and is logged then.
 */
export class Outages {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #hidden = new Map<string, LogFields & { readonly times: number }>()
  #open = false
  #endedMs = Number.NEGATIVE_INFINITY

  constructor({ clock }: { readonly clock: Pick<Clock, 'monotonicMs'> }) {
    this.#clock = clock
  }

  /** Whether an outage lasts, or ended so recently that its consequences may still be there. */
  get felt(): boolean {
    return this.#open || this.#clock.monotonicMs() - this.#endedMs < FLAP_MS
  }

  begin(): void {
    // What a short outage without lines has hidden is no part of this one.
    if (!this.felt) this.#hidden.clear()
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

  /** Something happened that an outage explains: logged as a warning outside of one. */
  consequence(logger: Logger, fields: LogFields, message: string): void {
    if (this.#open) this.#hide(logger, fields, message)
    else logger.warn(fields, message)
  }

  /** A condition that an outage explains. One that lasts is logged again every `againMs`. @default only once */
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

/** For parts whose server nobody observes: hides nothing. */
export const noOutages = new Outages({ clock: { monotonicMs: () => 0 } })

interface SymptomOptions {
  readonly hide: WriteLine
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly againMs: number
}

/** Gets a warning when it begins and a line when it ends, or neither where an outage explains it. */
class Symptom {
  readonly #outages: Outages
  readonly #options: SymptomOptions
  #state: 'absent' | 'hidden' | 'logged' = 'absent'
  #loggedMs = 0

  constructor(outages: Outages, options: SymptomOptions) {
    this.#outages = outages
    this.#options = options
  }

  /** It is there. To be called again and again while it is: it may outlast the outage. */
  present(logger: Logger, fields: LogFields, message: string): void {
    const { hide, clock, againMs } = this.#options
    const nowMs = clock.monotonicMs()
    if (this.#state === 'logged' && nowMs - this.#loggedMs < againMs) return
    if (this.#outages.felt) {
      if (this.#state === 'absent') hide(logger, fields, message)
      if (this.#state !== 'logged') this.#state = 'hidden'
    } else {
      this.#state = 'logged'
      this.#loggedMs = nowMs
      logger.warn(fields, message)
    }
  }

  /** It is not there. */
  absent(logger: Logger, fields: LogFields, message: string): void {
    if (this.#state === 'logged') logger.info(fields, message)
    else if (this.#state === 'hidden') logger.debug(fields, message)
    this.#state = 'absent'
  }
}

export type { Symptom }
