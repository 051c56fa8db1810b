import { KubeError } from '../../src/kube/errors.ts'
import type { Readiness, ReadinessAnswer } from '../../src/kube/readiness.ts'
import type { ApiRequest, ApiResponse, Transport } from '../../src/kube/transport.ts'
import { sleep } from '../../src/runtime/clock.ts'
import type { Random } from '../../src/runtime/random.ts'
import { aborted, linkedController } from '../../src/runtime/signals.ts'
import type { ClockView } from '../../src/runtime/virtual-clock.ts'

/** How one master's API server fares. Several masters' servers share one store. */
export class SimulatedServer {
  #serving = true
  /** Black-holed: requests and events are neither refused nor answered. */
  cut = false
  ready = true
  readonly #streams = new Set<AbortController>()

  get serving(): boolean {
    return this.#serving
  }

  kill(): void {
    this.#serving = false
    this.breakStreams()
  }

  start(): void {
    this.#serving = true
  }

  heal(): void {
    this.cut = false
    this.breakStreams()
  }

  breakStreams(): void {
    for (const stream of this.#streams) stream.abort()
  }

  /** Connections that are open: watches, and requests that are black-holed. */
  get streams(): number {
    return this.#streams.size
  }

  addStream(controller: AbortController): () => void {
    this.#streams.add(controller)
    return () => this.#streams.delete(controller)
  }
}

/**
 * The way from one process to its API server: every request and every event takes a few milliseconds of that process' time, so a
 * frozen process neither sends nor hears.
 */
export function simulatedLink(inner: Transport, server: SimulatedServer, clock: ClockView, random: Random): Transport {
  const latency = (signal: AbortSignal): Promise<void> => sleep(clock, 1 + random.next() * 3, signal)
  const pass = async (request: ApiRequest, signal: AbortSignal): Promise<void> => {
    await latency(signal)
    if (!server.serving) throw new KubeError('Unreachable', 'connection refused')
    if (!server.cut) return
    const { controller, unlink } = linkedController(signal)
    const forget = server.addStream(controller)
    try {
      await sleep(clock, request.timeoutMs ?? 10_000, controller.signal)
    } catch {
      signal.throwIfAborted()
      throw new KubeError('Unreachable', 'connection reset')
    } finally {
      forget()
      unlink()
    }
    throw new KubeError('Timeout', 'no answer')
  }
  return {
    async send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
      await pass(request, signal)
      if (request.stream !== true) {
        const response = await inner.send(request, signal)
        // The way back: what was done is done, although nobody hears of it.
        await pass(request, signal)
        return response
      }
      const { controller, unlink } = linkedController(signal)
      const forget = server.addStream(controller)
      const response = await inner.send(request, controller.signal)
      await pass(request, signal)
      if (!('stream' in response)) return response
      return { ...response, stream: relay(response.stream) }

      async function* relay(events: AsyncIterable<unknown>): AsyncGenerator<unknown> {
        try {
          for await (const event of events) {
            await latency(controller.signal)
            // Black-holed: nothing more is heard, not even the end, until the connection is reset.
            if (server.cut) await aborted(controller.signal)
            controller.signal.throwIfAborted()
            yield event
          }
        } catch (error) {
          if (!controller.signal.aborted) throw error
        } finally {
          forget()
          unlink()
        }
        if (!signal.aborted && controller.signal.aborted) throw new KubeError('Unreachable', 'connection reset')
      }
    },
    close: async () => {},
  }
}

/** What a process hears when it asks its own API server for its health. */
export function simulatedReadiness(server: SimulatedServer, clock: ClockView): Readiness {
  return {
    async probe(signal: AbortSignal): Promise<ReadinessAnswer> {
      await sleep(clock, 1, signal)
      if (server.cut) await sleep(clock, 2_000, signal)
      if (!server.serving || server.cut) return { answered: false, reason: 'connection refused' }
      const checks = [{ name: 'ping', ok: server.ready }]
      return { answered: true, ready: server.ready, checks }
    },
  }
}
