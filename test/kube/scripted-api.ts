import type { KubeApi, Patch, WatchEvent, WatchQuery } from '../../src/kube/api.ts'
import type { KubeList, KubeObject, Resource } from '../../src/kube/resources.ts'

type Call = 'get' | 'list' | 'create' | 'update' | 'patch' | 'delete'

/** A request to a scripted API. */
export interface Asked {
  readonly call: Call
  readonly resource: Resource<KubeObject>
  /** A reference, an object or a query. */
  readonly of: object
  readonly patch?: Patch
  readonly signal: AbortSignal | undefined
}

/** One watch that the program under test opened. The test plays the server. */
export class ScriptedWatch {
  readonly resource: Resource<KubeObject>
  readonly query: WatchQuery
  readonly #events: WatchEvent<KubeObject>[] = []
  #ended: { readonly error?: Error } | undefined
  #wake: (() => void) | undefined

  constructor(resource: Resource<KubeObject>, query: WatchQuery & { readonly signal: AbortSignal }) {
    this.resource = resource
    this.query = query
  }

  /** Accepts the watch. */
  open(): this {
    this.query.onOpen?.()
    return this
  }

  send(...events: readonly WatchEvent<KubeObject>[]): this {
    this.#events.push(...events)
    this.#wake?.()
    return this
  }

  /** Ends the stream normally, or with `error`. */
  end(error?: Error): void {
    this.#ended ??= error === undefined ? {} : { error }
    this.#wake?.()
  }

  async *events(): AsyncGenerator<WatchEvent<KubeObject>> {
    for (;;) {
      const event = this.#events.shift()
      if (event !== undefined) {
        yield event
      } else if (this.#ended !== undefined) {
        if (this.#ended.error !== undefined) throw this.#ended.error
        return
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }
}

/**
 * A KubeApi whose answers the test decides. It counts open watches. It copies objects in both directions, as a real
 * connection does, so no code can depend on the identity of an object.
 */
export class ScriptedApi implements KubeApi {
  readonly asked: Asked[] = []
  readonly watches: ScriptedWatch[] = []
  /** The number of watches that have begun and not ended. */
  openWatches = 0
  /** Decides every call except watch: returns the answer or a promise of it, or throws. */
  answer: (asked: Asked) => unknown = () => {
    throw new Error('no answer is scripted')
  }
  /** Called with every new watch. */
  onWatch: (watch: ScriptedWatch) => void = () => {}

  get lastWatch(): ScriptedWatch {
    const last = this.watches.at(-1)
    if (last === undefined) throw new Error('nothing is watched')
    return last
  }

  get: KubeApi['get'] = (resource, ref, options) => this.#ask('get', resource, ref, options?.signal)
  list: KubeApi['list'] = (resource, { signal, ...query } = {}) => this.#ask('list', resource, query, signal)
  create: KubeApi['create'] = (resource, object, options) => this.#ask('create', resource, object, options?.signal)
  update: KubeApi['update'] = (resource, object, options) => this.#ask('update', resource, object, options?.signal)
  patch: KubeApi['patch'] = (resource, ref, patch, options) => this.#ask('patch', resource, ref, options?.signal, patch)
  delete: KubeApi['delete'] = (resource, ref, options) => this.#ask('delete', resource, ref, options?.signal)

  async *watch<T extends KubeObject>(
    resource: Resource<T>,
    query: WatchQuery & { readonly signal: AbortSignal },
  ): AsyncGenerator<WatchEvent<T>> {
    const { signal } = query
    if (signal.aborted) return
    const watch = new ScriptedWatch(resource, query)
    const onAbort = (): void => watch.end()
    signal.addEventListener('abort', onAbort, { once: true })
    this.openWatches++
    this.watches.push(watch)
    try {
      this.onWatch(watch)
      for await (const event of watch.events()) {
        if (signal.aborted) return
        yield structuredClone(event) as WatchEvent<T>
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
      this.openWatches--
    }
  }

  async #ask<Answer>(
    call: Call,
    resource: Resource<KubeObject>,
    of: object,
    signal: AbortSignal | undefined,
    patch?: Patch,
  ): Promise<Answer> {
    const asked = { call, resource, of: structuredClone(of), signal, ...(patch === undefined ? {} : { patch }) }
    this.asked.push(asked)
    return structuredClone(await this.answer(asked)) as Answer
  }
}

/** A list of objects at a resourceVersion. */
export function listOf<T>(resourceVersion: string, items: readonly T[], token?: string): KubeList<T> {
  return { metadata: { resourceVersion, ...(token === undefined ? {} : { continue: token }) }, items }
}

/** A minimal Service. */
export function service(name: string, resourceVersion: string, more: object = {}): KubeObject {
  const metadata = { namespace: 'ns', name, uid: `uid-${name}`, resourceVersion }
  return { apiVersion: 'v1', kind: 'Service', metadata, ...more }
}

export function added(object: KubeObject): WatchEvent<KubeObject> {
  return { type: 'ADDED', object }
}

/** A bookmark; with `end`, the one after the initial events. */
export function bookmark(resourceVersion: string, end?: 'initial-events-end'): WatchEvent<KubeObject> {
  const annotations = end === undefined ? {} : { 'k8s.io/initial-events-end': 'true' }
  return { type: 'BOOKMARK', object: { kind: 'Service', metadata: { resourceVersion, annotations } } }
}
