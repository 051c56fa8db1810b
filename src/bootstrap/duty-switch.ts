import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { aborted, linkedController } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Gauge } from '../telemetry/metrics.ts'
import type { ControllerName, ControllerSelection } from './controller-selection.ts'
import { type DutyDecision, decideDuty } from './duties.ts'

/** A duty that is done here only if the server does not do it itself. */
export interface SwitchableDuty {
  readonly name: ControllerName
  /** Does the duty until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>
  /** Resolves when the duty was done for the first time. */
  readonly settled: Promise<void>
  /** For a duty that goes on beside a server that does it itself, and then only tells what it finds. */
  readonly onLeftToServer?: (() => void) | undefined
}

export interface DutySwitchOptions {
  readonly selection: ControllerSelection
  readonly monitor: ReadinessMonitor
  readonly logger: Logger
  /** 1 while the duty is done here, 0 while it is off or left to the server. */
  readonly active: Gauge<'duty'>
}

/**
 * Turns one duty on as soon as the server has answered, and off for good when an answer shows that a server does it itself: behind
 * a balancer one member may have the duty while another has not.
 */
export class DutySwitch {
  readonly #duty: SwitchableDuty
  readonly #options: DutySwitchOptions
  #decision: DutyDecision | undefined
  readonly #decided = Promise.withResolvers<void>()
  readonly #left = Promise.withResolvers<void>()

  constructor(duty: SwitchableDuty, options: DutySwitchOptions) {
    this.#duty = duty
    this.#options = options
  }

  /** Resolves when the duty was done once, or need not be done here. */
  async settled(): Promise<void> {
    await this.#decided.promise
    if (this.#decision?.type === 'off') return
    await Promise.race([this.#duty.settled, this.#left.promise])
  }

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { monitor, selection, active } = this.#options
    const { controller: duty, unlink } = linkedController(signal)
    let done: Promise<void> = Promise.resolve()
    const failed = Promise.withResolvers<never>()
    const unsubscribe = monitor.subscribe((answer) => {
      if (!answer.answered || answer.refused !== undefined || this.#decision?.type === 'left-to-server') return
      const decision = decideDuty(this.#duty.name, selection, answer)
      if (decision.type === this.#decision?.type) return
      this.#say(decision)
      const isOn = decision.type === 'on' || decision.type === 'on-beside-server'
      active.set({ duty: this.#duty.name }, isOn ? 1 : 0)
      const { onLeftToServer } = this.#duty
      const isLeft = decision.type === 'left-to-server'
      if (isLeft) {
        onLeftToServer?.()
        this.#left.resolve()
      }
      if (!isOn && !(isLeft && onLeftToServer !== undefined)) {
        duty.abort(new Error(`${this.#duty.name} is left to the server`))
      } else if (this.#decision === undefined) {
        done = this.#duty.run(duty.signal).catch((error: unknown) => {
          if (!duty.signal.aborted) failed.reject(error)
        })
      }
      this.#decision = decision
      this.#decided.resolve()
    })
    try {
      await Promise.race([aborted(signal), failed.promise])
      await done
    } finally {
      unsubscribe()
      unlink()
    }
  }

  #say(decision: DutyDecision): void {
    const { logger } = this.#options
    const fields = { duty: this.#duty.name }
    switch (decision.type) {
      case 'left-to-server':
        logger.info(
          { ...fields, hook: decision.hook },
          this.#duty.onLeftToServer === undefined
            ? 'the server does this itself; it is left to it'
            : 'the server does this itself; what is found wrong is only told',
        )
        return
      case 'on-beside-server':
        logger.warn(
          { ...fields, hook: decision.hook },
          this.#duty.onLeftToServer === undefined
            ? 'the server does this itself; it is done here too, as asked for'
            : 'the server does this itself; it is done here too, as asked for: a server that starts while something is missing may exit',
        )
        return
      case 'on':
      case 'off':
        logger.debug(fields, `duty ${decision.type}`)
    }
  }
}
