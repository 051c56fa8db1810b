import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { abortable, aborted, linkedController } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { KubeApi } from './api.ts'
import { Availability, type AvailabilityReporter } from './availability.ts'
import type { KubeObject } from './json.ts'
import { describeSelection, Reflector, type Selection } from './reflector.ts'
import type { Resource } from './resources.ts'
import { type Change, Store } from './store.ts'

export type { Change } from './store.ts'

/** What informers need of the world, whatever they follow. */
export interface InformerContext {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics?: Metrics | undefined
  /** Shared by all that talk to one API server, so that an outage is said once. @default one of its own */
  readonly availability?: AvailabilityReporter | undefined
}

export interface InformerOptions<T extends KubeObject> extends InformerContext {
  readonly resource: Resource<T>
  /** @default all objects of all namespaces */
  readonly query?: Selection | undefined
  /** Cuts an object down to what is needed, as it arrives; name, namespace, uid and resourceVersion must stay. */
  readonly transform?: ((object: T) => T) | undefined
}

/** `absent`: the server said that it does not serve the resource; the informer goes on asking. */
export type InformerState = 'starting' | 'synced' | 'absent'

/**
 * Keeps a copy of one collection and tells its handlers of every change, as long as it runs; nothing that the server does ends it.
 *
 * Handlers are called synchronously, in the order of their subscription, change after change. The store is already up to date
 * when they are: at an outage's end a handler may find later states in it than the change that it is told of.
 * What a handler throws ends the informer: `run` rejects with it.
 */
export class Informer<T extends KubeObject> {
  readonly store = new Store<T>()
  readonly #reflector: Reflector<T>
  readonly #handlers = new Set<(change: Change<T>) => void>()
  readonly #name: string
  #state: InformerState = 'starting'
  #synced = Promise.withResolvers<void>()
  #settled = Promise.withResolvers<void>()
  /** Of the present round of the reflector; undefined while it does not run. */
  #round: AbortController | undefined

  constructor(options: InformerOptions<T>) {
    this.#name = describeSelection(options.resource, options.query)
    this.#reflector = new Reflector<T>({
      ...options,
      availability: options.availability ?? new Availability(options),
      sink: {
        replaced: (objects) => {
          const changes = this.store.replace(objects)
          this.#state = 'synced'
          this.#tell(changes)
          this.#synced.resolve()
          this.#settled.resolve()
        },
        changed: (event) => {
          const change = this.store.apply(event)
          if (change !== undefined) this.#tell([change])
        },
        absent: () => {
          // What is known of a resource that was served stays known: a server that is starting may not serve it yet.
          if (this.#state === 'starting') this.#state = 'absent'
          this.#settled.resolve()
        },
      },
    })
  }

  get state(): InformerState {
    return this.#state
  }

  /** Whether the store has held the complete state at least once. It stays true through outages. */
  get hasSynced(): boolean {
    return this.#state === 'synced'
  }

  /**
   * Resolves when the store holds the complete state and the handlers have been told of it. Where the resource may be absent this
   * may take for ever: see {@link whenSettled}. Rejects with the signal's reason.
   */
  whenSynced(signal?: AbortSignal): Promise<void> {
    return abortable(this.#synced.promise, signal)
  }

  /** Resolves as soon as it is known whether the server serves the resource: synced, or absent for now. */
  async whenSettled(signal?: AbortSignal): Promise<'synced' | 'absent'> {
    await abortable(this.#settled.promise, signal)
    return this.#state === 'synced' ? 'synced' : 'absent'
  }

  /**
   * Calls `handler` for every change from now on, until the function that it returns is called. Objects that are here already are
   * told first, as added, before this returns.
   */
  subscribe(handler: (change: Change<T>) => void): () => void {
    const own = (change: Change<T>): void => handler(change)
    for (const object of this.store.list()) own({ type: 'added', object })
    this.#handlers.add(own)
    return () => {
      this.#handlers.delete(own)
    }
  }

  /** Follows the collection until `signal` is aborted; then resolves. One run at a time. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#round !== undefined) throw new Error(`the informer of ${this.#name} is running already`)
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

  /** Begins anew with a list, for who has learnt that the watch missed a change. Does nothing while it does not run. */
  restart(): void {
    this.#round?.abort(new Error(`the informer of ${this.#name} begins anew`))
  }

  #tell(changes: readonly Change<T>[]): void {
    // Who subscribes meanwhile has been told of all that is in the store; who leaves is told nothing more.
    const handlers = [...this.#handlers]
    for (const change of changes) {
      for (const handler of handlers) if (this.#handlers.has(handler)) handler(change)
    }
  }
}

/** A copy of a collection that somebody else keeps. */
export type Followed<T extends KubeObject> = Pick<
  Informer<T>,
  'store' | 'state' | 'whenSynced' | 'whenSettled' | 'subscribe'
>

/** Where copies are to be had. */
export interface Informers {
  get<T extends KubeObject>(
    resource: Resource<T>,
    options?: { readonly transform?: ((object: T) => T) | undefined },
  ): Followed<T>
  /** Resolves when all that have been asked for so far have synced. Rejects with the signal's reason. */
  whenSynced(signal?: AbortSignal): Promise<void>
}

/** One informer for each resource and selection, whoever asks: one watch, one copy. */
export class SharedInformers implements Informers {
  readonly #context: InformerContext & { readonly availability: AvailabilityReporter }
  readonly #informers = new Map<string, { readonly informer: Informer<KubeObject>; readonly transform: unknown }>()
  #start: ((informer: Informer<KubeObject>) => void) | undefined

  constructor(context: InformerContext) {
    this.#context = { ...context, availability: context.availability ?? new Availability(context) }
  }

  /** How many there are: each holds one watch while it runs. */
  get size(): number {
    return this.#informers.size
  }

  /**
   * The informer of a resource and selection, made at the first asking and started if the others run.
   * @throws Error when it was asked for with another transform before: one copy cannot be cut in two ways.
   */
  get<T extends KubeObject>(
    resource: Resource<T>,
    options: Pick<InformerOptions<T>, 'query' | 'transform'> = {},
  ): Informer<T> {
    const name = describeSelection(resource, options.query)
    const known = this.#informers.get(name)
    if (known !== undefined) {
      if (known.transform !== options.transform) throw new Error(`${name} is already followed with another transform`)
      return known.informer as unknown as Informer<T>
    }
    const informer = new Informer<T>({ ...this.#context, ...options, resource })
    const shared = informer as unknown as Informer<KubeObject>
    this.#informers.set(name, { informer: shared, transform: options.transform })
    this.#start?.(shared)
    return informer
  }

  /** Resolves when all that have been asked for so far have synced. Rejects with the signal's reason. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#informers.values()].map(({ informer }) => informer.whenSynced(signal)))
  }

  /** Runs all of them, and those asked for later, until `signal` is aborted. Rejects, after ending all, when one fails. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#start !== undefined) throw new Error('the shared informers are running already')
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
