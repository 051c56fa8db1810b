import { KubeError } from '../../kube/errors.ts'
import type { Readiness, ReadinessAnswer } from '../../kube/readiness.ts'
import type { ApiRequest, ApiResponse, Transport } from '../../kube/transport.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { aborted, linkedController } from '../../runtime/signals.ts'
import { latency, Route } from './route.ts'

/** How one master's API server fares, and the way to it. Several masters' servers share one store. */
export class SimulatedServer extends Route {
  #serving = true
  ready = true
  /** What its /readyz says of its etcd; alone, it is no reason to withdraw anybody. */
  etcdCheck = true
  /** Its /readyz hangs, while the rest of it answers. */
  silent = false
  #unreachable = false
  #frozen = false
  /** The rest of it hangs, while its /readyz answers. */
  hanging = false
  /** What it stores into is away: it answers, and fails. */
  storeless = false

  get serving(): boolean {
    return this.#serving
  }

  /** Whether its /readyz is answered, whatever the answer. */
  get answering(): boolean {
    return this.#serving && !this.cut && !this.silent
  }

  /** Clients are black-holed. */
  get unreachable(): boolean {
    return this.#unreachable || this.#frozen
  }

  set unreachable(unreachable: boolean) {
    this.#unreachable = unreachable
  }

  /** Stopped as by SIGSTOP: nothing is answered, connections stay open. */
  get frozen(): boolean {
    return this.#frozen
  }

  set frozen(frozen: boolean) {
    if (frozen === this.#frozen) return
    this.#frozen = frozen
    if (frozen) this.cut = true
    else this.heal()
  }

  kill(): void {
    this.#serving = false
    this.breakStreams()
  }

  start(): void {
    this.#serving = true
  }
}

/**
 * The way from one process to its API server: every request and every event takes a few milliseconds of that process' time, so a
 * frozen process neither sends nor hears.
 */
export function simulatedLink(
  inner: Transport,
  options: {
    readonly server: SimulatedServer
    readonly clock: Clock
    readonly random: Random
    readonly spikes?: boolean | undefined
  },
): Transport {
  const { server, clock, random, spikes = false } = options
  const pass = async (request: ApiRequest, signal: AbortSignal): Promise<void> => {
    await latency(clock, random, spikes, signal, server.slowMs)
    if (!server.serving) throw new KubeError('Unreachable', 'connection refused')
    if (!server.cut && !server.hanging) return
    const end = await server.swallow(clock, request.timeoutMs ?? 10_000, signal)
    throw end === 'reset' ? new KubeError('Unreachable', 'connection reset') : new KubeError('Timeout', 'no answer')
  }
  return {
    async send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
      await pass(request, signal)
      if (server.storeless) return { status: 500, headers: {}, body: etcdIsAway }
      if (request.stream !== true) {
        const response = await inner.send(request, signal)
        // The way back: what was done is done, although nobody hears of it.
        await pass(request, signal)
        return response
      }
      const { controller, unlink } = linkedController(signal)
      const forget = server.addStream(controller)
      // Whoever gives up before the first event never begins to read.
      controller.signal.addEventListener('abort', forget, { once: true })
      const opened = async (): Promise<ApiResponse> => {
        const response = await inner.send(request, controller.signal)
        await pass(request, signal)
        return response
      }
      const response = await opened().catch((error: unknown) => {
        controller.abort()
        unlink()
        throw error
      })
      if (!('stream' in response)) {
        forget()
        unlink()
        return response
      }
      return { ...response, stream: relay(response.stream) }

      async function* relay(events: AsyncIterable<unknown>): AsyncGenerator<unknown> {
        try {
          for await (const event of events) {
            await latency(clock, random, spikes, controller.signal, server.slowMs)
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

const etcdIsAway = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 500, message: 'etcdserver: no leader' }

/** What a process hears when it asks its own API server for its health. */
export function simulatedReadiness(server: SimulatedServer, clock: Clock): Readiness {
  return {
    async probe(signal: AbortSignal): Promise<ReadinessAnswer> {
      await sleep(clock, 1 + server.slowMs, signal)
      if (server.cut || server.silent) await sleep(clock, 2_000, signal)
      if (!server.answering) return { answered: false, reason: 'connection refused' }
      const { ready, etcdCheck, storeless } = server
      const checks = [
        { name: 'ping', ok: ready },
        { name: 'etcd', ok: etcdCheck && !storeless },
      ]
      return { answered: true, ready: checks.every(({ ok }) => ok), checks }
    },
  }
}
