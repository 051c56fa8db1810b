import { KubeError } from '../../kube/errors.ts'
import type { Readiness, ReadinessAnswer } from '../../kube/readiness.ts'
import type { ApiRequest, ApiResponse, Transport } from '../../kube/transport.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { aborted, linkedController } from '../../runtime/signals.ts'
import type { ProcessClock } from './process-clock.ts'
import { latency, Route, roundTrip } from './route.ts'

/** One for all: an error for each would cost a stack trace. */
const OVER = new Error('over')

/** What all API servers of a fleet store into. */
export interface Datastore {
  away: boolean
}

/**
 * How one master's API server fares, and the way to it. Several masters' servers share one store. What ails it has causes that are apart
 * from each other: whoever heals one leaves the others.
 */
export class SimulatedServer extends Route {
  #serving = true
  ready = true
  /** What its /readyz says of its etcd; alone, it is no reason to withdraw anybody. */
  etcdCheck = true
  /** Its /readyz hangs, while the rest of it answers. */
  silent = false
  #unreachable = false
  #frozen = false
  readonly #thawed = new Set<() => void>()
  readonly #datastore: Datastore
  #storeless = false
  /** The rest of it hangs, while its /readyz answers. */
  hanging = false

  constructor(datastore: Datastore = { away: false }) {
    super()
    this.#datastore = datastore
  }

  get serving(): boolean {
    return this.#serving
  }

  /** Whether requests that go this way are answered. */
  get reachable(): boolean {
    return this.#serving && !this.cut && !this.#frozen
  }

  /** What it stores into is away, or its way to it is cut: it answers, and fails. */
  get storeless(): boolean {
    return this.#storeless || this.#datastore.away
  }

  /** Cuts, or heals, its own way to what it stores into. */
  set storeless(storeless: boolean) {
    this.#storeless = storeless
  }

  /** Whether its /readyz is answered, whatever the answer. */
  get answering(): boolean {
    return this.reachable && !this.silent
  }

  /** Clients are black-holed. */
  get unreachable(): boolean {
    return this.#unreachable || this.#frozen
  }

  set unreachable(unreachable: boolean) {
    this.#unreachable = unreachable
  }

  /** Stopped as by SIGSTOP: nothing is answered, connections stay open and go on afterwards. */
  get frozen(): boolean {
    return this.#frozen
  }

  set frozen(frozen: boolean) {
    if (frozen === this.#frozen) return
    this.#frozen = frozen
    if (!frozen) this.#goOn()
  }

  /**
   * Waits, with what was sent to it, for a frozen server to go on: `thawed`, or `reset` when it has died instead, or `timeout`.
   * At most so long; for ever, where no limit is given.
   */
  async untilThawed(
    clock: Clock,
    timeoutMs: number | undefined,
    signal: AbortSignal,
  ): Promise<'thawed' | 'reset' | 'timeout'> {
    const { controller, unlink } = linkedController(signal)
    const thawed = Promise.withResolvers<'thawed'>()
    const onThawed = (): void => thawed.resolve('thawed')
    this.#thawed.add(onThawed)
    try {
      return await Promise.race([thawed.promise, this.swallow(clock, timeoutMs ?? 1e9, controller.signal)])
    } finally {
      this.#thawed.delete(onThawed)
      controller.abort(OVER)
      unlink()
    }
  }

  /** Its process is gone, by whichever signal: connections are refused. */
  kill(): void {
    this.#serving = false
    // Whatever runs next is not stopped.
    this.#frozen = false
    this.breakStreams()
  }

  /** Its process runs, and serves at once. */
  start(): void {
    this.#serving = true
  }

  #goOn(): void {
    for (const onThawed of this.#thawed) onThawed()
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
    readonly clock: ProcessClock
    readonly random: Random
    readonly spikes?: boolean | undefined
  },
): Transport {
  const { server, clock, random, spikes = false } = options
  const back = (signal: AbortSignal): Promise<void> => roundTrip(clock, random, spikes, signal, server.slowMs)
  /** Whether a message gets through at this moment. */
  const isOpen = (): boolean => server.reachable && !server.hanging
  /** What becomes of a message that does not get through at this moment. */
  const pass = async (request: ApiRequest, signal: AbortSignal): Promise<void> => {
    if (server.frozen) {
      const end = await server.untilThawed(clock, request.timeoutMs ?? 10_000, signal)
      if (end === 'reset') throw new KubeError('Unreachable', 'connection reset')
      if (end === 'timeout') throw new KubeError('Timeout', 'no answer')
      // By the process' own clock: one that is frozen too hears of it when it goes on.
      await latency(clock, random, spikes, signal, server.slowMs)
    }
    if (!server.serving) throw new KubeError('Unreachable', 'connection refused')
    if (!server.cut && !server.hanging) return
    const end = await server.swallow(clock, request.timeoutMs ?? 10_000, signal)
    throw end === 'reset' ? new KubeError('Unreachable', 'connection reset') : new KubeError('Timeout', 'no answer')
  }
  return {
    async send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
      if (!server.serving) await back(signal)
      if (!isOpen()) await pass(request, signal)
      if (server.storeless) {
        await back(signal)
        return { status: 500, headers: {}, body: etcdIsAway }
      }
      if (request.stream !== true) {
        const response = await inner.send(request, signal)
        await back(signal)
        // What was done is done, although nobody may hear of it.
        if (!isOpen()) await pass(request, signal)
        return response
      }
      const { controller, unlink } = linkedController(signal)
      const forget = server.addStream(controller)
      // Whoever gives up before the first event never begins to read.
      controller.signal.addEventListener('abort', forget, { once: true })
      const opened = async (): Promise<ApiResponse> => {
        const response = await inner.send(request, controller.signal)
        await back(signal)
        if (!isOpen()) await pass(request, signal)
        return response
      }
      const response = await opened().catch((error: unknown) => {
        controller.abort(OVER)
        unlink()
        throw error
      })
      if (!('stream' in response)) {
        forget()
        unlink()
        return response
      }
      const isRenewal = request.path.includes('/leases') ? renewals() : () => false
      return { ...response, stream: relay(response.stream) }

      /** Whoever was killed hears nothing any more, not even that its connection has ended. */
      function hangUp(): Promise<never> {
        forget()
        unlink()
        controller.abort(OVER)
        return new Promise<never>(() => {})
      }

      async function* relay(events: AsyncIterable<unknown>): AsyncGenerator<unknown> {
        try {
          for await (const event of events) {
            if (clock.killed) await hangUp()
            const atOnce = isRenewal(event) && !clock.frozen && server.slowMs === 0
            if (!atOnce) await latency(clock, random, spikes, controller.signal, server.slowMs)
            if (server.frozen) {
              await server.untilThawed(clock, undefined, controller.signal)
              await latency(clock, random, spikes, controller.signal, server.slowMs)
            }
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

/**
 * Tells of each event of a watch of Leases whether it says no more than that somebody still lives. Such events are heard of at once: nobody
 * acts on them, and there are many.
 */
function renewals(): (event: unknown) => boolean {
  const said = new Map<string, string>()
  return (event) => {
    const { type, object } = event as WatchFrame
    const { name = '', annotations } = object.metadata ?? {}
    const text = JSON.stringify(annotations)
    const isSame = said.get(name) === text
    said.set(name, text)
    return type === 'MODIFIED' && isSame
  }
}

interface WatchFrame {
  readonly type: string
  readonly object: { readonly metadata?: { readonly name?: string; readonly annotations?: object } }
}

const etcdIsAway = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 500, message: 'etcdserver: no leader' }

/** How long a process waits for an answer about its health, in seconds, as `httpReadiness` does. */
const PROBE_LIMIT_S = 3

/** What a process hears when it asks its own API server for its health. Whatever hung for less than it waits is answered late. */
export function simulatedReadiness(server: SimulatedServer, clock: Clock, random: Random): Readiness {
  let asked = false
  return {
    async probe(signal: AbortSignal): Promise<ReadinessAnswer> {
      // An ordinary answer comes at once, for the simulator's sake; but no two processes ask at the very same moments.
      const delayMs = 2 * server.slowMs + (asked ? 0 : 1 + 20 * random.next())
      asked = true
      if (delayMs > 0) await sleep(clock, delayMs, signal)
      const isHanging = (): boolean => server.cut || server.frozen || server.silent
      for (let seconds = 0; seconds < PROBE_LIMIT_S && isHanging(); seconds++) await sleep(clock, 1_000, signal)
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
