import { WriteRetry } from '../kube/write-retry.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { ReadinessMonitor } from './readiness-monitor.ts'

/** How often a server that did not answer is asked again before a renewal that is due. */
const RETRY_MS = 500

export interface LeaseKeeperOptions {
  readonly clock: Clock
  readonly random: Random
  readonly monitor: ReadinessMonitor
  /** Between two renewals, in milliseconds. */
  readonly intervalMs: number
  /** Renews the lease once. */
  readonly renew: (signal: AbortSignal) => Promise<void>
  /** Whether an error ends the keeping for good. */
  readonly isFinal: (error: unknown) => boolean
  /** Told of each outcome; undefined after a success. */
  readonly report: (error: unknown) => void
}

/**
 * Renews this master's lease, each interval, only while its own API server answers: the lease speaks for the server, not for this
 * process. Apart from the reconcile loop, so that no slow write there can cost the lease.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  readonly #retry: WriteRetry
  readonly #due = new Trigger<'due'>()
  #renewedMs = 0

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
    this.#retry = new WriteRetry(options.random)
  }

  /** Starts with a renewal one interval from now: the lease was just made. Ends with the signal, or when keeping has no use. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, intervalMs } = this.#options
    this.#renewedMs = clock.monotonicMs()
    for (;;) {
      const cancel = clock.schedule(this.#renewedMs + intervalMs - clock.monotonicMs(), () => this.#due.fire('due'))
      try {
        await this.#due.take(signal)
      } finally {
        cancel()
      }
      await this.#answered(signal)
      if (!(await this.#renew(signal))) return
    }
  }

  /** Renews as soon as the server answers: the lease is gone, or is about to be. */
  hurry(): void {
    this.#due.fire('due')
  }

  /** Waits until the server has answered since the last renewal. */
  async #answered(signal: AbortSignal): Promise<void> {
    const { clock, monitor } = this.#options
    for (;;) {
      if (monitor.lastAnswerMs !== undefined && monitor.lastAnswerMs > this.#renewedMs) return
      const answer = await monitor.probe(signal)
      if (!answer.answered) await sleep(clock, RETRY_MS, signal)
    }
  }

  async #renew(signal: AbortSignal): Promise<boolean> {
    const { clock, renew, isFinal, report } = this.#options
    for (;;) {
      const startedMs = clock.monotonicMs()
      try {
        await renew(signal)
        this.#renewedMs = startedMs
        this.#retry.reset()
        report(undefined)
        return true
      } catch (error) {
        signal.throwIfAborted()
        report(error)
        if (isFinal(error)) return false
        await sleep(clock, this.#retry.next(error), signal)
      }
    }
  }
}
