import { KubeError } from '../kube/errors.ts'
import type { ApiRequest, ApiResponse, Transport } from '../kube/transport.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import { type Fault, type FaultRule, isAbout, refusedWith, torn } from './fault-rules.ts'

export type { Fault, FaultRule } from './fault-rules.ts'

/** What can be done to the way between a client and its server. */
export interface Faults {
  /** Adds a rule behind those that are there; every rule that is about a request takes part. Returns what removes it. */
  add(rule: FaultRule): () => void
  /** Removes all rules. */
  clear(): void
  /** From now on nothing gets through in either direction; nothing is refused. */
  partition(): void
  /** What was held back since {@link partition} and has not been given up goes on its way. */
  heal(): void
  readonly partitioned: boolean
  /** Breaks every open stream. */
  resetStreams(): void
}

/**
 * A transport that fails as it is told, deterministically by clock and random. Unlike the transports that it wraps it keeps to
 * `timeoutMs`: for an answer, or for the beginning of a stream.
 */
export function faultyTransport(
  inner: Transport,
  options: { readonly clock: Clock; readonly random: Random },
): Transport & { readonly faults: Faults } {
  const line = new FaultyLine(inner, options.clock, options.random)
  return { faults: line, send: (request, signal) => line.send(request, signal), close: () => inner.close() }
}

class FaultyLine implements Faults {
  readonly #inner: Transport
  readonly #clock: Clock
  readonly #random: Random
  readonly #rules: { readonly rule: FaultRule; left: number }[] = []
  readonly #streams = new Set<AbortController>()
  /** Settled when the partition is over; undefined while there is none. */
  #healed: PromiseWithResolvers<void> | undefined

  constructor(inner: Transport, clock: Clock, random: Random) {
    this.#inner = inner
    this.#clock = clock
    this.#random = random
  }

  add(rule: FaultRule): () => void {
    const added = { rule, left: rule.times ?? Number.POSITIVE_INFINITY }
    this.#rules.push(added)
    return () => {
      added.left = 0
    }
  }

  clear(): void {
    this.#rules.length = 0
  }

  partition(): void {
    this.#healed ??= Promise.withResolvers()
  }

  heal(): void {
    this.#healed?.resolve()
    this.#healed = undefined
  }

  get partitioned(): boolean {
    return this.#healed !== undefined
  }

  resetStreams(): void {
    for (const stream of this.#streams) stream.abort(new KubeError('Unreachable', 'the connection was reset'))
  }

  async send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
    signal.throwIfAborted()
    const faults = this.#drawFaults(request)
    const { controller, unlink } = linkedController(signal)
    const cancelTimeout = this.#timeout(request, controller)
    try {
      const response = await this.#exchange(request, faults, controller.signal)
      if (!('stream' in response)) {
        unlink()
        return response
      }
      this.#streams.add(controller)
      return { ...response, stream: this.#relay(response.stream, request, faults, { controller, unlink, signal }) }
    } catch (error) {
      unlink()
      throw error
    } finally {
      cancelTimeout()
    }
  }

  /** The faults of this request, or of a change that a stream tells, in the order of their rules. */
  #drawFaults(request: ApiRequest, of: 'request' | 'change' = 'request'): readonly Fault[] {
    const faults: Fault[] = []
    for (const entry of this.#rules) {
      if (entry.left <= 0 || !isAbout(entry.rule, request)) continue
      if ((entry.rule.fault.type === 'lose') !== (of === 'change')) continue
      const { probability } = entry.rule
      if (probability !== undefined && this.#random.next() >= probability) continue
      entry.left--
      faults.push(entry.rule.fault)
    }
    return faults
  }

  #timeout({ timeoutMs }: ApiRequest, controller: AbortController): () => void {
    if (timeoutMs === undefined) return () => {}
    const onTimeout = (): void => controller.abort(new KubeError('Timeout', `no answer within ${timeoutMs} ms`))
    return this.#clock.schedule(timeoutMs, onTimeout)
  }

  async #exchange(request: ApiRequest, faults: readonly Fault[], signal: AbortSignal): Promise<ApiResponse> {
    await this.#passage(signal)
    for (const fault of faults) {
      if (fault.type === 'delay') await sleep(this.#clock, fault.ms, signal)
      else if (fault.type === 'refuse') throw new KubeError('Unreachable', 'the connection was refused')
      else if (fault.type === 'drop' && fault.lost === 'request') await silence(signal)
      else if (fault.type === 'status') return refusedWith(fault.status, fault.retryAfterSeconds)
    }
    const response = await this.#inner.send(request, signal)
    await this.#passage(signal)
    if (faults.some((fault) => fault.type === 'drop')) await silence(signal)
    const garbled = faults.some((fault) => fault.type === 'garbage')
    return garbled && !('stream' in response) ? torn(response) : response
  }

  async *#relay(
    inner: AsyncIterable<unknown>,
    request: ApiRequest,
    faults: readonly Fault[],
    line: { readonly controller: AbortController; readonly unlink: () => void; readonly signal: AbortSignal },
  ): AsyncGenerator<unknown, void, undefined> {
    const { signal } = line.controller
    const events = inner[Symbol.asyncIterator]()
    try {
      for (let index = 0; ; index++) {
        const breakage = faults.find((fault) => 'afterEvents' in fault && fault.afterEvents <= index)
        if (breakage?.type === 'end') return
        if (breakage?.type === 'cut') throw new KubeError('Unreachable', 'the connection was reset')
        if (breakage?.type === 'stall') await silence(signal)
        const event = await abortable(events.next(), signal)
        for (const fault of faults) if (fault.type === 'delay') await sleep(this.#clock, fault.ms, signal)
        await this.#passage(signal)
        if (event.done === true) return
        if (faults.some((fault) => fault.type === 'garbage')) {
          throw new KubeError('BadResponse', 'an event of the stream cannot be read')
        }
        if (isChange(event.value) && this.#drawFaults(request, 'change').length > 0) continue
        yield event.value
      }
    } catch (error) {
      // An aborted watch ends, whatever it was waiting for.
      if (!line.signal.aborted) throw error
    } finally {
      this.#streams.delete(line.controller)
      line.unlink()
      await events.return?.()
    }
  }

  /** Waits while the line is partitioned. */
  async #passage(signal: AbortSignal): Promise<void> {
    while (this.#healed !== undefined) await abortable(this.#healed.promise, signal)
  }
}

function isChange(event: unknown): boolean {
  return (event as { readonly type?: string }).type !== 'BOOKMARK'
}

/** Never resolves; rejects with the signal's reason. */
function silence(signal: AbortSignal): Promise<never> {
  return abortable(new Promise<never>(() => {}), signal)
}
