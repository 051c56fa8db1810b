import { refusedWith } from '../../apiserver/faults.ts'
import { KubeError } from '../../kube/errors.ts'
import { httpReadiness } from '../../kube/http-readiness.ts'
import type { Readiness } from '../../kube/readiness.ts'
import type { ApiRequest, ApiResponse, Transport } from '../../kube/transport.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { aborted, linkedController } from '../../runtime/signals.ts'
import { type Datastore, ServerStore } from '../datastore.ts'
import { isMet, RequestFaults, type RequestRule, type SentRequest } from '../request-faults.ts'
import { latency, Route, roundTrip } from './etcd-link.ts'
import type { ProcessClock } from './process.ts'

/** These errors serve all connections, because each new error would cost a stack trace. */
const OVER = new Error('over')
const RESET = new Error('connection reset')

/** How long a request without its own timeout waits, in milliseconds: the default of `HttpTransport`. */
const TIMEOUT_MS = 10_000
/** How long the two etcd checks of /readyz take together if etcd does not answer, in seconds. */
const ETCD_CHECKS_S = 4

/** One master's API server, and the connections to it. The servers of all masters share one store. */
export class SimulatedServer extends Route {
  #serving = true
  ready = true
  /** Whether the etcd checks of /readyz succeed while the server reaches its datastore. */
  etcdCheck = true
  /** Whether /readyz and /livez hang, while all other requests are answered. */
  silent = false
  #clientsCutOff = false
  #frozen = false
  readonly #waiting = new Set<() => void>()
  readonly store: ServerStore
  /** The faults of the sidecar's requests. */
  readonly faults = new RequestFaults()
  readonly #watches = new Map<AbortController, SentRequest>()
  /** Whether all requests but /readyz and /livez hang. */
  hanging = false

  constructor(datastore: Datastore) {
    super()
    this.store = new ServerStore(datastore, () => this.#resumeWaiting())
  }

  get serving(): boolean {
    return this.#serving
  }

  /** Whether the process runs, is not frozen, and is not cut off from the sidecar. The store may hang nevertheless. */
  get reachable(): boolean {
    return this.#serving && !this.cut && !this.#frozen
  }

  get storeless(): boolean {
    return this.store.state !== 'ok'
  }

  /** Whether /readyz is answered in time, whatever the answer. */
  get answering(): boolean {
    return this.reachable && !this.silent && this.store.state !== 'hangs'
  }

  /** Whether clients are black-holed. */
  get clientsCutOff(): boolean {
    return this.#clientsCutOff || this.#frozen
  }

  set clientsCutOff(clientsCutOff: boolean) {
    this.#clientsCutOff = clientsCutOff
  }

  /** Whether the process is stopped as by SIGSTOP. Open connections continue afterwards. */
  get frozen(): boolean {
    return this.#frozen
  }

  set frozen(frozen: boolean) {
    if (frozen === this.#frozen) return
    this.#frozen = frozen
    this.#resumeWaiting()
  }

  /** Whether requests wait for the frozen server or for its store. */
  get stalled(): boolean {
    return this.#frozen || this.store.state === 'hangs'
  }

  /**
   * Waits until the stalled server continues (`resumed`), its connections are reset (`reset`), or `timeoutMs` has
   * passed (`timeout`). Without `timeoutMs` it waits without limit.
   */
  async untilResumed(
    clock: Clock,
    timeoutMs: number | undefined,
    signal: AbortSignal,
  ): Promise<'resumed' | 'reset' | 'timeout'> {
    const { controller, unlink } = linkedController(signal)
    const resumed = Promise.withResolvers<'resumed'>()
    const resume = (): void => resumed.resolve('resumed')
    this.#waiting.add(resume)
    try {
      return await Promise.race([resumed.promise, this.blackHole(clock, timeoutMs ?? 1e9, controller.signal)])
    } finally {
      this.#waiting.delete(resume)
      controller.abort(OVER)
      unlink()
    }
  }

  apply(rule: RequestRule): void {
    this.faults.add(rule)
    if (rule.fault.type !== 'cut-watches') return
    for (const [watch, request] of [...this.#watches]) {
      if (!isMet(rule, request)) continue
      this.faults.countCut(rule)
      watch.abort(RESET)
    }
  }

  /** Registers an open watch, until the returned function is called. */
  watch(request: SentRequest, connection: AbortController, clock: Clock): () => void {
    this.#watches.set(connection, request)
    const limitMs = this.faults.watchLimitMs(request)
    const cancel = limitMs === undefined ? () => {} : clock.schedule(limitMs, () => connection.abort(RESET))
    return () => {
      this.#watches.delete(connection)
      cancel()
    }
  }

  kill(): void {
    this.#serving = false
    // The next process is not frozen.
    this.#frozen = false
    this.resetConnections()
  }

  /** Starts the process, which serves at once. Does nothing if it runs. */
  start(): void {
    if (this.#serving) return
    this.#serving = true
    this.store.restart()
  }

  #resumeWaiting(): void {
    if (!this.stalled) for (const resume of this.#waiting) resume()
  }
}

/**
 * Connects one process to its API server. Every request and every event waits for the clock of that process, so a
 * frozen process does not send and does not receive.
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
  const isOpen = (): boolean => server.reachable && !server.hanging
  /** Delays or fails a message that does not get through at this moment. */
  const pass = async (request: ApiRequest, signal: AbortSignal, isStalled = server.frozen): Promise<void> => {
    if (isStalled) {
      const end = await server.untilResumed(clock, request.timeoutMs ?? TIMEOUT_MS, signal)
      if (end !== 'resumed') throw lost(end)
      // A frozen process gets the answer when it thaws, because this wait uses its clock.
      await latency(clock, random, spikes, signal, server.slowMs)
    }
    if (!server.serving) throw new KubeError('Unreachable', 'connection refused')
    if (server.cut || server.hanging) await blackHole(request, signal)
  }
  const blackHole = async (request: ApiRequest, signal: AbortSignal): Promise<never> => {
    throw lost(await server.blackHole(clock, request.timeoutMs ?? TIMEOUT_MS, signal))
  }
  /** The answer of a fault; undefined if the request reaches the server. */
  const applyFaults = async (request: ApiRequest, signal: AbortSignal): Promise<ApiResponse | undefined> => {
    const { delayMs, end } = server.faults.applyTo(sentOf(request))
    const { timeoutMs = TIMEOUT_MS } = request
    if (end?.type === 'hang' || delayMs >= timeoutMs) return blackHole(request, signal)
    if (delayMs > 0) await sleep(clock, delayMs, signal)
    if (end === undefined) return undefined
    await back(signal)
    return refusedWith(end.status, retryAfterSeconds(end))
  }
  return {
    async send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
      if (!server.serving) await back(signal)
      if (!isOpen()) await pass(request, signal)
      if (!server.faults.areNone) {
        const answer = await applyFaults(request, signal)
        if (answer !== undefined) return answer
      }
      if (server.stalled) await pass(request, signal, true)
      if (server.store.state === 'fails') {
        await back(signal)
        return { status: 500, headers: {}, body: etcdIsAway }
      }
      if (request.stream !== true) {
        const response = await inner.send(request, signal)
        await back(signal)
        // The request has taken effect, even if its answer is lost.
        if (!isOpen()) await pass(request, signal)
        return response
      }
      const { controller, unlink } = linkedController(signal)
      const forget = server.addConnection(controller)
      // A caller that gives up before the first event never begins to read, so the cleanup in `relay` does not run.
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
      const sent = sentOf(request)
      const forgetWatch = server.watch(sent, controller, clock)
      return { ...response, stream: relay(response.stream) }

      /** Ends the connection of a killed process. Never settles, because the process receives nothing more. */
      function hangUp(): Promise<never> {
        forget()
        forgetWatch()
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
            if (server.stalled) {
              await server.untilResumed(clock, undefined, controller.signal)
              await latency(clock, random, spikes, controller.signal, server.slowMs)
            }
            // Until the connection is reset, nothing more arrives, not even the end.
            if (server.cut) await aborted(controller.signal)
            controller.signal.throwIfAborted()
            if (server.faults.loses(sent, event)) continue
            yield event
          }
        } catch (error) {
          if (!controller.signal.aborted) throw error
        } finally {
          forget()
          forgetWatch()
          unlink()
        }
        if (!signal.aborted && controller.signal.aborted) throw lost('reset')
      }
    },
    close: async () => {},
  }
}

function lost(end: 'reset' | 'timeout'): KubeError {
  return end === 'reset' ? new KubeError('Unreachable', 'connection reset') : new KubeError('Timeout', 'no answer')
}

/**
 * Returns a function that decides for each event of a watch of Leases whether it is a renewal. Renewals are delivered
 * at once: there are many, and they cause no action.
 */
function renewals(): (event: unknown) => boolean {
  const reported = new Map<string, string>()
  return (event) => {
    const { type, object } = event as WatchFrame
    const { name = '', annotations } = object.metadata ?? {}
    const text = JSON.stringify(annotations)
    const isSame = reported.get(name) === text
    reported.set(name, text)
    return type === 'MODIFIED' && isSame
  }
}

interface WatchFrame {
  readonly type: string
  readonly object: { readonly metadata?: { readonly name?: string; readonly annotations?: object } }
}

const etcdIsAway = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 500, message: 'etcdserver: no leader' }

function sentOf({ method, path, stream }: ApiRequest): SentRequest {
  return { method, path, isWatch: stream === true }
}

function retryAfterSeconds({ retryAfterMs }: { readonly retryAfterMs?: number | undefined }): number | undefined {
  return retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs / 1000)
}

/** Probes the health of the process's own API server. A probe that hangs for less than its timeout is answered late. */
export function simulatedReadiness(server: SimulatedServer, clock: Clock, random: Random): Readiness {
  let asked = false
  const transport: Transport = {
    async send(request, signal): Promise<ApiResponse> {
      const { timeoutMs = TIMEOUT_MS } = request
      const faults = server.faults.areNone ? undefined : server.faults.applyTo(sentOf(request))
      // Without faults an answer takes no time, which saves events of the simulation. Only the first answer is delayed
      // at random, so that processes do not probe at the same moments.
      const delayMs = 2 * server.slowMs + (asked ? 0 : 1 + 20 * random.next()) + (faults?.delayMs ?? 0)
      asked = true
      if (delayMs > 0) await sleep(clock, Math.min(delayMs, timeoutMs), signal)
      const hangs = (seconds: number): boolean =>
        server.cut ||
        server.frozen ||
        server.silent ||
        faults?.end?.type === 'hang' ||
        (server.store.state === 'hangs' && seconds < ETCD_CHECKS_S && request.path !== '/livez')
      for (let seconds = 0; hangs(seconds); seconds++) {
        if (seconds * 1_000 >= timeoutMs) throw lost('timeout')
        await sleep(clock, 1_000, signal)
      }
      if (delayMs >= timeoutMs) throw lost('timeout')
      if (!server.serving) throw new KubeError('Unreachable', 'connection refused')
      if (faults?.end?.type === 'status') return refusedWith(faults.end.status, retryAfterSeconds(faults.end))
      const isStored = server.etcdCheck && !server.storeless
      const checks = [
        { name: 'ping', ok: server.ready },
        { name: 'etcd', ok: isStored },
        { name: 'etcd-readiness', ok: isStored },
      ]
      const text = checks.map(({ name, ok }) => (ok ? `[+]${name} ok\n` : `[-]${name} failed: reason withheld\n`))
      return { status: checks.every(({ ok }) => ok) ? 200 : 500, headers: {}, body: text.join('') }
    },
    close: async () => {},
  }
  return httpReadiness({ transport })
}
