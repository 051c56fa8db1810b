import { linkedController } from '../runtime/signals.ts'
import type { Followed, Informers } from './informer.ts'
import type { KubeObject } from './json.ts'
import type { Resource } from './resources.ts'

/**
 * Informers as one of those who share them sees them: what a handler of its own throws ends its own work and nobody's informer, it waits only for
 * what it has asked for, and no subscription of its own outlives it.
 */
export class InformerScope implements Informers {
  readonly #informers: Informers
  readonly #failure = new AbortController()
  readonly #asked = new Set<Pick<Followed<KubeObject>, 'whenSynced'>>()
  readonly #subscriptions: (() => void)[] = []

  constructor(informers: Informers) {
    this.#informers = informers
  }

  get<T extends KubeObject>(
    resource: Resource<T>,
    options: { readonly transform?: ((object: T) => T) | undefined } = {},
  ): Followed<T> {
    const informer = this.#informers.get(resource, options)
    this.#asked.add(informer)
    return {
      store: informer.store,
      get state() {
        return informer.state
      },
      whenSynced: (signal) => informer.whenSynced(signal),
      whenSettled: (signal) => informer.whenSettled(signal),
      subscribe: (handler) => this.subscribe((guarded) => informer.subscribe(guarded), handler),
    }
  }

  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#asked].map((informer) => informer.whenSynced(signal)))
  }

  /** Subscribes to something else that is shared, guarded in the same way. */
  subscribe<T>(subscribe: (handler: (value: T) => void) => () => void, handler: (value: T) => void): () => void {
    const end = subscribe((value) => {
      if (this.#failure.signal.aborted) return
      try {
        handler(value)
      } catch (error) {
        this.#failure.abort(error)
      }
    })
    this.#subscriptions.push(end)
    return end
  }

  /**
   * Does the work that the subscriptions are for. It ends with the signal, or when a handler has thrown: then this rejects with what it threw. All
   * subscriptions end with it. Once.
   */
  async run(signal: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { controller, unlink } = linkedController(signal, this.#failure.signal)
    try {
      await work(controller.signal)
      if (!signal.aborted) this.#failure.signal.throwIfAborted()
    } finally {
      unlink()
      for (const end of this.#subscriptions.splice(0)) end()
    }
  }
}
