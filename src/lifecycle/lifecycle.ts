import { type Clock, sleep } from '../runtime/clock.ts'
import { messageOf } from '../runtime/errors.ts'
import { type HealthCheck, type HealthEndpoint, healthEndpoints, ping } from '../telemetry/health.ts'
import type { Logger } from '../telemetry/logger.ts'

/** Work that lasts as long as the program. It may end only after `signal` is aborted, and cleans up before it ends. */
export type Part = (signal: AbortSignal) => Promise<void>

/** Work to be done once after the start. `signal` is aborted when the shutdown begins. */
type PostStartHook = (signal: AbortSignal) => Promise<void>

/**
 * Work to be done once before the end, before any part is aborted. `signal` is aborted when the hook's time is up.
 * `failure` is the error that ends the program; undefined after a request to stop.
 */
type PreShutdownHook = (signal: AbortSignal, failure: Error | undefined) => Promise<void>

export interface LifecycleOptions {
  readonly clock: Clock
  readonly logger: Logger
  /** How long to stay, unready, after the pre-shutdown hooks, in milliseconds. @default 0 */
  readonly shutdownDelayMs?: number | undefined
  /** How long the pre-shutdown hooks may take, in milliseconds. @default 15_000 */
  readonly preShutdownTimeoutMs?: number | undefined
}

/** How long the parts may take to end, all together, in milliseconds. */
const DRAIN_MS = 5_000

/**
 * A hook or a part failed. The message names the hook or part; `cause` is the error that it threw, undefined if a part
 * ended without an error. The signals of hooks and parts are also aborted with an error of this class.
 */
export class LifecycleError extends Error {
  override readonly name = 'LifecycleError'
  readonly code = 'LifecycleFailed'
}

type State = 'composing' | 'running' | 'stopping'

/**
 * Runs one program: long-lived parts, hooks around them, health checks, and a shutdown in a fixed order. The hooks'
 * behaviour and the names of their checks are those of k8s.io/apiserver/pkg/server/hooks.go.
 *
 * ```ts
 * const lifecycle = new Lifecycle({ clock, logger })
 * lifecycle.part('event-recorder', (signal) => recorder.run(signal))
 * lifecycle.part('kubernetes-service', (signal) => controller.run(signal))
 * lifecycle.postStartHook('bootstrap-controller', (signal) => controller.firstSync(signal))
 * lifecycle.preShutdownHook('stop-kubernetes-service-controller', (signal) => controller.stop(signal))
 * lifecycle.healthCheck('etcd', () => (etcd.reachable ? undefined : 'etcd does not answer'), ['readyz'])
 * const health = await serveHealth({ host, port, checks: (endpoint) => lifecycle.checks(endpoint), metrics, logger })
 * await lifecycle.run(signal) // until the signal is aborted, or something fails
 * await health.close()
 * ```
 *
 * The start: every part starts, in the order of registration, then all post-start hooks at once. If a post-start hook
 * fails, or a part ends before it is aborted, the shutdown begins, and `run` rejects when the shutdown is over.
 *
 * The shutdown: readyz fails at once (check `shutdown`), and post-start hooks that still run are aborted. Then the
 * pre-shutdown hooks run, all at once. Then the shutdown delay passes; the parts still run, and serve late clients.
 * Then the parts end one by one, the last registered first. So until a part has ended, it can use those registered
 * before it. Each pre-shutdown hook has a time limit, and so do the parts together. A hook or part that exceeds its
 * limit is abandoned, with one log line.
 */
export class Lifecycle {
  readonly #options: LifecycleOptions
  readonly #parts = new Map<string, Part>()
  readonly #postStart = new Map<string, PostStartHook>()
  readonly #preShutdown = new Map<string, PreShutdownHook>()
  /** Two checks may share a name only if they have different endpoints. */
  readonly #checks: { readonly check: HealthCheck; readonly endpoints: readonly HealthEndpoint[] }[] = [
    { check: ping, endpoints: healthEndpoints },
    // Like upstream's, this check cannot answer while a write to a log file or terminal blocks the process. It passes
    // even while nobody reads the log's pipe and lines are dropped: a restart would cost a working master its address
    // and bring no reader.
    { check: { name: 'log', fault: () => undefined }, endpoints: healthEndpoints },
  ]
  readonly #shutdownCheck: HealthCheck = {
    name: 'shutdown',
    fault: () => (this.#state === 'stopping' ? 'process is shutting down' : undefined),
  }
  readonly #running: { readonly name: string; readonly controller: AbortController; readonly end: Promise<void> }[] = []
  readonly #hooksController = new AbortController()
  readonly #ended = Promise.withResolvers<void>()
  #state: State = 'composing'
  #hasRun = false
  #failure: Error | undefined

  constructor(options: LifecycleOptions) {
    this.#options = options
  }

  /** Adds a long-lived part. @throws Error for an empty or taken name, or after the start. */
  part(name: string, run: Part): void {
    this.#register('part', name, this.#parts)
    this.#parts.set(name, async (signal) => {
      // A synchronous throw becomes a rejection: a failure is handled only after all parts and hooks have started.
      await run(signal)
    })
  }

  /**
   * Adds a hook that runs after the start. Until it has finished, the check `poststarthook/NAME` fails on readyz and
   * healthz. @throws Error for an empty or taken name, or after the start.
   */
  postStartHook(name: string, hook: PostStartHook): void {
    this.#register('PostStartHook', name, this.#postStart)
    let isFinished = false
    const check = { name: `poststarthook/${name}`, fault: () => (isFinished ? undefined : 'not finished') }
    this.#checks.push({ check, endpoints: ['readyz', 'healthz'] })
    this.#checks.push({ check: { ...check, fault: () => undefined }, endpoints: ['livez'] })
    this.#postStart.set(name, async (signal) => {
      await hook(signal)
      isFinished = true
    })
  }

  /** Adds a hook that runs before the end. @throws Error for an empty or taken name, or after the start. */
  preShutdownHook(name: string, hook: PreShutdownHook): void {
    this.#register('PreShutdownHook', name, this.#preShutdown)
    this.#preShutdown.set(name, hook)
  }

  /** Adds a health check to the given endpoints. @throws Error for an empty or taken name, or after the start. */
  healthCheck(
    name: string,
    fault: HealthCheck['fault'],
    endpoints: readonly HealthEndpoint[] = healthEndpoints,
    remark?: HealthCheck['remark'],
  ): void {
    const taken = [this.#shutdownCheck, ...this.#checks.map(({ check }) => check)]
    this.#register('health check', name, new Set(taken.map((check) => check.name)))
    this.#checks.push({ check: { name, fault, remark }, endpoints })
  }

  /**
   * `ping` and `log`, then the checks of hooks and of {@link healthCheck} in the order of registration. On readyz,
   * `shutdown` is the last.
   */
  checks(endpoint: HealthEndpoint): readonly HealthCheck[] {
    const checks = this.#checks.filter(({ endpoints }) => endpoints.includes(endpoint)).map(({ check }) => check)
    return endpoint === 'readyz' ? [...checks, this.#shutdownCheck] : checks
  }

  /**
   * Runs until `signal` is aborted, `shutdown` is called or something fails. Then it shuts down, and rejects with the
   * first failure, if any, even of a pre-shutdown hook. With an aborted signal, or after `shutdown` was called, nothing
   * starts. A second call rejects.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#hasRun) throw new Error('a lifecycle runs once')
    this.#hasRun = true
    const onAbort = (): void => void this.shutdown()
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    else if (this.#state === 'composing') this.#start()
    await this.#ended.promise
    signal.removeEventListener('abort', onAbort)
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Begins the shutdown. Every call returns the same promise, which resolves after the shutdown and never rejects. */
  shutdown(): Promise<void> {
    // `#shutDown` sets the state first, because it may lead to another call of this method.
    if (this.#state !== 'stopping') void this.#shutDown().then(this.#ended.resolve)
    return this.#ended.promise
  }

  #start(): void {
    this.#state = 'running'
    for (const [name, part] of this.#parts) {
      const controller = new AbortController()
      this.#running.push({ name, controller, end: this.#runPart(name, part, controller.signal) })
    }
    const hooks = [...this.#postStart].map(([name, hook]) => this.#runPostStartHook(name, hook))
    this.#running.push({
      name: 'post-start hooks',
      controller: this.#hooksController,
      end: Promise.allSettled(hooks).then(() => {}),
    })
  }

  async #runPart(name: string, part: Part, signal: AbortSignal): Promise<void> {
    let fault = ': it ended by itself'
    let cause: unknown
    try {
      await part(signal)
    } catch (error) {
      fault = `: ${messageOf(error)}`
      cause = error
    }
    // An error after the abort is a consequence of the abort.
    if (!signal.aborted) this.#fail(new LifecycleError(`part "${name}" failed${fault}`, { cause }))
  }

  async #runPostStartHook(name: string, hook: PostStartHook): Promise<void> {
    const { signal } = this.#hooksController
    try {
      await hook(signal)
      this.#options.logger.debug({ hook: name }, 'post-start hook finished')
    } catch (cause) {
      if (signal.aborted) return
      this.#fail(new LifecycleError(`PostStartHook "${name}" failed: ${messageOf(cause)}`, { cause }))
    }
  }

  #fail(failure: Error): void {
    this.#options.logger.error({ error: failure }, failure.message)
    this.#failure ??= failure
    void this.shutdown()
  }

  async #shutDown(): Promise<void> {
    const wasRunning = this.#state === 'running'
    this.#state = 'stopping'
    if (!wasRunning) return
    const { clock, logger, shutdownDelayMs = 0 } = this.#options
    const beganAtMs = clock.monotonicMs()
    logger.info({ shutdownDelayMs }, 'shutting down')
    this.#hooksController.abort(new LifecycleError('shutting down'))
    await Promise.all([...this.#preShutdown].map(([name, hook]) => this.#runPreShutdownHook(name, hook)))
    await sleep(clock, shutdownDelayMs)
    await this.#drain()
    logger.info({ durationMs: Math.round(clock.monotonicMs() - beganAtMs) }, 'shut down')
  }

  async #runPreShutdownHook(name: string, hook: PreShutdownHook): Promise<void> {
    const controller = new AbortController()
    const run = async (): Promise<void> => {
      try {
        await hook(controller.signal, this.#failure)
      } catch (cause) {
        if (controller.signal.aborted) return
        this.#fail(new LifecycleError(`PreShutdownHook "${name}" failed: ${messageOf(cause)}`, { cause }))
      }
    }
    const timeoutMs = this.#options.preShutdownTimeoutMs ?? 15_000
    if (await this.#endsWithin(run(), timeoutMs)) return
    this.#options.logger.error({ hook: name, timeoutMs }, 'a pre-shutdown hook did not end in time and is abandoned')
    controller.abort(new LifecycleError(`PreShutdownHook "${name}" took too long`))
  }

  async #drain(): Promise<void> {
    const deadlineMs = this.#options.clock.monotonicMs() + DRAIN_MS
    for (const { name, controller, end } of this.#running.toReversed()) {
      controller.abort(new LifecycleError('shutting down'))
      if (await this.#endsWithin(end, deadlineMs - this.#options.clock.monotonicMs())) continue
      this.#options.logger.error({ part: name, timeoutMs: DRAIN_MS }, 'a part did not end in time and is abandoned')
    }
  }

  /** Whether `end` settles before the time is up. `end` must not reject. */
  #endsWithin(end: Promise<void>, timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.schedule(timeoutMs, () => resolve(false))
      void end.then(() => {
        cancel()
        resolve(true)
      })
    })
  }

  #register(kind: string, name: string, taken: { has(name: string): boolean }): void {
    if (name === '') throw new Error(`a ${kind} needs a name`)
    if (taken.has(name)) throw new Error(`${kind} "${name}" is already registered`)
    if (this.#state !== 'composing') throw new Error(`${kind} "${name}" cannot be registered after the start`)
  }
}
