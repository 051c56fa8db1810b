import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { abortable, aborted, linkedController } from '../runtime/signals.ts'
import { inSlices, type Steps } from '../runtime/steps.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { noOutages, type Outages } from '../telemetry/outages.ts'
import type { KubeApi } from './api.ts'
import { Availability, type AvailabilityReporter } from './availability.ts'
import type { ObjectMap } from './object-map.ts'
import { describeSelection, Reflector, type Selection } from './reflector.ts'
import type { KubeObject, Resource } from './resources.ts'
import type { ServedResources } from './served-resources.ts'
import { type Change, Store, type Transform } from './store.ts'

export type { Change } from './store.ts'

export interface InformerContext {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics?: Metrics | undefined
  /** Shared by all clients of one API server, so that an outage is logged once. @default one of its own */
  readonly availability?: AvailabilityReporter | undefined
  /** Which resources the same server serves. @default a resource that is not served counts as refused */
  readonly served?: ServedResources | undefined
}

interface InformerOptions<T extends KubeObject> extends InformerContext {
  readonly resource: Resource<T>
  /** @default all objects of all namespaces */
  readonly query?: Selection | undefined
  readonly transform?: Transform<T> | undefined
  /**
   * Whether handlers receive the first list with pauses, for collections of a million objects. A handler then lags
   * behind the store, so a caller that sets this must await `whenSynced`. @default false
   */
  readonly pauses?: boolean | undefined
}

type CopyOptions<T extends KubeObject> = Pick<InformerOptions<T>, 'transform' | 'pauses'>

interface SubscribeOptions {
  readonly onlyChanges?: boolean
}

/** `absent`: the server answered that it does not serve the resource; the informer keeps requesting it. */
type InformerState = 'starting' | 'synced' | 'absent'

/**
 * Holds a copy of one collection and reports every change of the copy to its handlers, as long as it runs. Nothing that
 * the server does ends the run.
 *
 * Handlers are called synchronously, in the order of their subscription, one change after the other. The store is
 * updated before the handlers are called, so after a list the store may be ahead of the change that a handler receives.
 * An error of a handler ends the informer: `run` rejects with it.
 */
export class Informer<T extends KubeObject> {
  readonly store: Store<T>
  readonly #reflector: Reflector<T>
  readonly #handlers = new Set<(change: Change<T>) => void>()
  readonly #listHandlers = new Set<(beganMs: number) => void>()
  readonly #name: string
  readonly #pauses: boolean
  readonly #logger: Logger
  readonly #outages: Outages
  #state: InformerState = 'starting'
  #synced = Promise.withResolvers<void>()
  #settled = Promise.withResolvers<void>()
  /** Ends the current run of the reflector; undefined while it does not run. */
  #round: AbortController | undefined

  constructor(options: InformerOptions<T>) {
    this.store = new Store(options.transform?.packing)
    this.#name = describeSelection(options.resource, options.query)
    this.#pauses = options.pauses ?? false
    const availability = options.availability ?? new Availability(options)
    this.#logger = options.logger
    this.#outages = availability.outages ?? noOutages
    this.#reflector = new Reflector<T>({
      ...options,
      availability,
      sink: {
        replaced: (objects, beganMs) => inSlices(options.clock, this.#replace(objects, beganMs)),
        changed: (event) => {
          const change = this.store.apply(event)
          if (change !== undefined) this.#notify(change, [...this.#handlers])
        },
        absent: () => {
          // The copy of a resource that was served before stays, because a starting server may not serve it yet.
          if (this.#state === 'starting') this.#state = 'absent'
          this.#settled.resolve()
        },
      },
    })
  }

  get state(): InformerState {
    return this.#state
  }

  /** Whether the store has held the complete state at least once, even if there was an outage since. */
  get hasSynced(): boolean {
    return this.#state === 'synced'
  }

  /**
   * Resolves when the store holds the complete state and the handlers have received it. This may take for ever if the
   * resource is absent: see {@link whenSettled}. Rejects with the signal's reason.
   */
  whenSynced(signal?: AbortSignal): Promise<void> {
    return abortable(this.#synced.promise, signal)
  }

  /** Resolves when synced, or when the server does not serve the resource for now. Rejects with the signal's reason. */
  async whenSettled(signal?: AbortSignal): Promise<'synced' | 'absent'> {
    await abortable(this.#settled.promise, signal)
    if (this.#state !== 'synced') return 'absent'
    await this.whenSynced(signal)
    return 'synced'
  }

  /**
   * Calls `handler` for every change from now on, until the returned function is called. Without `onlyChanges` the
   * objects in the store are reported first, as added, before this returns.
   */
  subscribe(handler: (change: Change<T>) => void, { onlyChanges = false }: SubscribeOptions = {}): () => void {
    const own = (change: Change<T>): void => handler(change)
    if (!onlyChanges) for (const object of this.store) own({ type: 'added', object })
    this.#handlers.add(own)
    return () => {
      this.#handlers.delete(own)
    }
  }

  /**
   * Calls `handler` after every complete list, when the change handlers have received the changes of that list, until
   * the returned function is called. `beganMs`: when the list was requested, in monotonic time. The store shows every
   * write that was answered before `beganMs`.
   */
  subscribeToLists(handler: (beganMs: number) => void): () => void {
    const own = (beganMs: number): void => handler(beganMs)
    this.#listHandlers.add(own)
    return () => {
      this.#listHandlers.delete(own)
    }
  }

  /** Follows the collection until `signal` is aborted; then resolves. Rejects if the informer is already running. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#round !== undefined) throw new Error(`the informer of ${this.#name} is already running`)
    try {
      do {
        const { controller, unlink } = linkedController(signal)
        this.#round = controller
        await this.#reflector.run(controller.signal).finally(unlink)
      } while (!signal.aborted)
    } finally {
      this.#round = undefined
    }
  }

  /**
   * Starts again with a list, for a caller that found a missed change. Has no effect while the informer does not run.
   */
  restart(): void {
    this.#round?.abort(new Error(`the informer of ${this.#name} is restarting`))
  }

  /**
   * Starts again with a list if the watch is dead: if it has received nothing for five seconds after the server
   * answered a write. `answeredMs`: when the server answered, in monotonic time. Call this repeatedly while the store
   * does not show that write.
   */
  restartIfDead(answeredMs: number): void {
    if (!this.#reflector.isDead(answeredMs)) return
    this.#outages.consequence(
      this.#logger,
      { resource: this.#name },
      'a watch receives nothing, although the server has answered a write; restarting it',
    )
    this.restart()
  }

  *#replace(objects: ObjectMap<T>, beganMs: number): Steps<void> {
    const changes = yield* this.store.replace(objects)
    const pauses = this.#pauses && this.#state !== 'synced'
    this.#state = 'synced'
    // New subscribers have already received everything in the store; ended subscriptions receive nothing more.
    const handlers = [...this.#handlers]
    for (const change of changes) {
      this.#notify(change, handlers)
      if (pauses) yield
    }
    for (const handler of [...this.#listHandlers]) handler(beganMs)
    this.#synced.resolve()
    this.#settled.resolve()
  }

  #notify(change: Change<T>, handlers: readonly ((change: Change<T>) => void)[]): void {
    for (const handler of handlers) if (this.#handlers.has(handler)) handler(change)
  }
}

export type Followed<T extends KubeObject> = Pick<
  Informer<T>,
  'store' | 'state' | 'whenSynced' | 'whenSettled' | 'subscribe' | 'subscribeToLists' | 'restartIfDead'
>

export interface Informers {
  get<T extends KubeObject>(resource: Resource<T>, options?: CopyOptions<T>): Followed<T>
  /** Resolves when all informers requested so far have synced. Rejects with the signal's reason. */
  whenSynced(signal?: AbortSignal): Promise<void>
}

/** Shares one informer, with one watch and one copy, among all callers that request the same resource and selection. */
export class SharedInformers implements Informers {
  readonly #context: InformerContext & { readonly availability: AvailabilityReporter }
  readonly #informers = new Map<string, { readonly informer: Informer<KubeObject>; readonly transform: unknown }>()
  #start: ((informer: Informer<KubeObject>) => void) | undefined

  constructor(context: InformerContext) {
    this.#context = { ...context, availability: context.availability ?? new Availability(context) }
  }

  /**
   * The informer of a resource and selection. The first call creates the informer, with its `pauses`, and starts it if
   * the others run. @throws Error for another transform than in the first call.
   */
  get<T extends KubeObject>(
    resource: Resource<T>,
    options: Pick<InformerOptions<T>, 'query'> & CopyOptions<T> = {},
  ): Informer<T> {
    const name = describeSelection(resource, options.query)
    const known = this.#informers.get(name)
    if (known !== undefined) {
      if (known.transform !== options.transform)
        throw new Error(`${name} already has an informer with another transform`)
      return known.informer as unknown as Informer<T>
    }
    const informer = new Informer<T>({ ...this.#context, ...options, resource })
    const shared = informer as unknown as Informer<KubeObject>
    this.#informers.set(name, { informer: shared, transform: options.transform })
    this.#start?.(shared)
    return informer
  }

  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#informers.values()].map(({ informer }) => informer.whenSynced(signal)))
  }

  /**
   * Runs all informers, also those requested later, until `signal` is aborted; then resolves. If an informer fails,
   * ends all informers and rejects with its error.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#start !== undefined) throw new Error('the shared informers are already running')
    const { controller, unlink } = linkedController(signal)
    const running: Promise<void>[] = []
    const failures: unknown[] = []
    this.#start = (informer) => {
      const ended = informer.run(controller.signal).catch((error: unknown) => {
        failures.push(error)
        controller.abort(error)
      })
      running.push(ended)
    }
    for (const { informer } of this.#informers.values()) this.#start(informer)
    await aborted(controller.signal)
    unlink()
    this.#start = undefined
    await Promise.all(running)
    if (failures.length > 0) throw failures[0]
  }
}

/**
 * Shared informers, as one part of the program sees them. An error in a handler of the part ends the work of the part,
 * but no informer. The part waits only for the informers that it requested. Its subscriptions end with its work.
 */
export class InformerScope implements Informers {
  readonly #informers: Informers
  readonly #failure = new AbortController()
  readonly #asked = new Set<Pick<Followed<KubeObject>, 'whenSynced'>>()
  readonly #subscriptions = new Set<() => void>()

  constructor(informers: Informers) {
    this.#informers = informers
  }

  get<T extends KubeObject>(resource: Resource<T>, options: CopyOptions<T> = {}): Followed<T> {
    const informer = this.#informers.get(resource, options)
    this.#asked.add(informer)
    return {
      store: informer.store,
      get state() {
        return informer.state
      },
      whenSynced: (signal) => informer.whenSynced(signal),
      whenSettled: (signal) => informer.whenSettled(signal),
      subscribe: (handler, options) => this.subscribe((guarded) => informer.subscribe(guarded, options), handler),
      subscribeToLists: (handler) => this.subscribe((guarded) => informer.subscribeToLists(guarded), handler),
      restartIfDead: (answeredMs) => informer.restartIfDead(answeredMs),
    }
  }

  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#asked].map((informer) => informer.whenSynced(signal)))
  }

  /** Subscribes to another shared source. An error of `handler` ends the work of the part, as with informers. */
  subscribe<T>(subscribe: (handler: (value: T) => void) => () => void, handler: (value: T) => void): () => void {
    const end = subscribe((value) => {
      if (this.#failure.signal.aborted) return
      try {
        handler(value)
      } catch (error) {
        this.#failure.abort(error)
      }
    })
    this.#subscriptions.add(end)
    return () => {
      this.#subscriptions.delete(end)
      end()
    }
  }

  /**
   * Runs `work`, and ends all subscriptions when `work` has ended. The signal given to `work` is aborted with `signal`,
   * or when a handler throws. If a handler throws, this rejects with its error. Call this once.
   */
  async run(signal: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { controller, unlink } = linkedController(signal, this.#failure.signal)
    try {
      await work(controller.signal)
      if (!signal.aborted) this.#failure.signal.throwIfAborted()
    } finally {
      unlink()
      for (const end of this.#subscriptions) end()
      this.#subscriptions.clear()
    }
  }
}
