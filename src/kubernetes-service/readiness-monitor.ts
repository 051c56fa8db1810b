import type { Readiness, ReadinessAnswer } from '../kube/readiness.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable, aborted } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import { noOutages, type Outages, type Symptom } from '../telemetry/outages.ts'
import { isServing, neverReady, nextReadiness, type ReadinessState } from './membership/readiness.ts'

/** The time between two probes of a server that has not been ready yet, in milliseconds; as upstream. */
const STARTING_PERIOD_MS = 100

export interface ReadinessMonitorOptions {
  readonly readiness: Readiness
  readonly clock: Clock
  readonly logger: Logger
  /**
   * `continuous`: probe regularly, also after the first success. `startup`: after the first success, probe only on
   * demand.
   */
  readonly gate: 'continuous' | 'startup'
  /** The time between two probes once the server has been ready, in milliseconds. */
  readonly periodMs: number
  /** The time between two probes while the last one found the server ready, in milliseconds. @default periodMs */
  readonly readyPeriodMs?: number | undefined
  /** The outages of the probed server. @default no outage is known */
  readonly outages?: Outages | undefined
}

/** Probes this master's own API server, for all parts of the process that need its readiness. */
export class ReadinessMonitor {
  readonly #options: ReadinessMonitorOptions
  #state: ReadinessState = neverReady
  #lastAnswerMs: number | undefined
  #serves = false
  #isKnown = false
  #refusal: string | undefined
  readonly #unready: Symptom
  readonly #handlers = new Set<(answer: ReadinessAnswer, sentAtMs: number) => void>()

  constructor(options: ReadinessMonitorOptions) {
    this.#options = options
    this.#unready = (options.outages ?? noOutages).symptom()
  }

  get state(): ReadinessState {
    return this.#state
  }

  /**
   * Whether the last probe found the server serving. With the gate `startup` any answer counts once the server has been
   * ready.
   */
  get serves(): boolean {
    return this.#serves
  }

  /**
   * Why the last probe was refused, if that lasts until somebody changes the configuration; otherwise undefined. A
   * master that starts beside such a server cannot find out whether the server is ready.
   */
  get refusal(): string | undefined {
    return this.#refusal
  }

  /** The time of the server's last answer, of any kind, on the monotonic clock; undefined without one. */
  get lastAnswerMs(): number | undefined {
    return this.#lastAnswerMs
  }

  /**
   * Calls `handler` after each probe, when the state is already updated, until the returned function is called.
   * `sentAtMs`: when the probe was sent, on the monotonic clock.
   */
  subscribe(handler: (answer: ReadinessAnswer, sentAtMs: number) => void): () => void {
    this.#handlers.add(handler)
    return () => this.#handlers.delete(handler)
  }

  /** Probes once, now. Rejects only with the signal's reason. */
  async probe(signal: AbortSignal): Promise<ReadinessAnswer> {
    const { readiness, clock, logger } = this.#options
    const sentAtMs = clock.monotonicMs()
    const answer = await readiness.probe(signal)
    const nowMs = clock.monotonicMs()
    if (answer.answered) this.#lastAnswerMs = nowMs
    if (answer.answered && answer.refused === undefined) this.#isKnown = true
    this.#refusal = answer.answered && answer.passing !== true ? answer.refused : undefined
    const before = this.#state
    const after = nextReadiness(before, answer, nowMs)
    // With the gate `startup` a server that was ready once stays ready; if the server dies, its master does not renew
    // the lease.
    const counts = this.#options.gate === 'continuous' || (before.phase === 'starting' && after.phase === 'ready')
    if (counts) this.#state = after
    const wasReady = this.#options.gate === 'startup' && this.#state.phase !== 'starting'
    this.#serves = wasReady ? answer.answered : isServing(answer)
    const isReady = 'own API server is ready'
    if (this.#state.phase === 'unready') {
      this.#unready.present(logger, { reason: this.#state.reason }, 'own API server is not ready')
    } else if (this.#state.phase === 'ready') {
      if (before.phase === 'starting') logger.info({}, isReady)
      this.#unready.absent(logger, {}, isReady)
    }
    for (const handler of this.#handlers) handler(answer, sentAtMs)
    return answer
  }

  /**
   * Whether the server answers a request that does not use its datastore: /readyz may wait for the datastore. False if
   * no such request is possible.
   */
  async answers(signal: AbortSignal): Promise<boolean> {
    const { readiness, clock } = this.#options
    const answers = (await readiness.answers?.(signal)) ?? false
    if (answers) this.#lastAnswerMs = clock.monotonicMs()
    return answers
  }

  /** Runs until the signal is aborted. With the gate `startup` it probes only until the first success. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, gate } = this.#options
    for (;;) {
      await this.probe(signal)
      if (this.#state.phase !== 'starting' && gate === 'startup') return aborted(signal)
      await sleep(clock, this.#pauseMs, signal)
    }
  }

  get #pauseMs(): number {
    const { periodMs, readyPeriodMs = periodMs } = this.#options
    if (this.#state.phase === 'starting') return STARTING_PERIOD_MS
    return this.#state.phase === 'ready' && this.#state.failures === 0 ? readyPeriodMs : periodMs
  }

  /** Resolves after the first answer that shows whether the server is ready. {@link run} must be running. */
  untilKnown(signal: AbortSignal): Promise<void> {
    return this.#until(() => this.#isKnown, signal)
  }

  /** Resolves when the server has been ready once. {@link run} must be running. */
  untilFirstReady(signal: AbortSignal): Promise<void> {
    return this.#until(() => this.#state.phase !== 'starting', signal)
  }

  async #until(reached: () => boolean, signal: AbortSignal): Promise<void> {
    if (reached()) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const unsubscribe = this.subscribe(() => {
      if (reached()) resolve()
    })
    await abortable(promise, signal).finally(unsubscribe)
  }
}
