import { setImmediate as nextTurn } from 'node:timers/promises'
import type { KubeApi, ListQuery, ObjectRef, WatchEvent, WatchQuery } from '../../src/kube/api.ts'
import { KubeError } from '../../src/kube/errors.ts'
import type { KubeList, KubeObject, Resource } from '../../src/kube/resources.ts'
import { aborted } from '../../src/runtime/signals.ts'

/** A collection at rest: its objects as the JSON that a server would send. */
export interface CollectionAtRest {
  readonly count: number
  readonly json: (index: number) => string
}

/** An open watch. */
interface Watcher {
  readonly plural: string
  send(objects: readonly string[]): void
}

/**
 * An API server with many correct objects that change only through {@link change}. It stores none of them: it parses
 * each object anew for every request, as if it came from a connection. So the objects in memory are those that the
 * clients store.
 */
export class ApiAtRest implements KubeApi {
  readonly #collections: ReadonlyMap<string, CollectionAtRest>
  readonly #objectsPerTurn: number
  readonly #watchers = new Set<Watcher>()
  /** All requests except the first list of each collection, which is a streaming list. */
  readonly requests: string[] = []

  /**
   * @param collections - by the plural of their resource.
   * @param objectsPerTurn - how many objects of a streaming list arrive in one turn of the event loop.
   */
  constructor(collections: Readonly<Record<string, CollectionAtRest>>, objectsPerTurn = Number.POSITIVE_INFINITY) {
    this.#collections = new Map(Object.entries(collections))
    this.#objectsPerTurn = objectsPerTurn
  }

  async get<T extends KubeObject>(resource: Resource<T>, { name }: ObjectRef): Promise<T> {
    this.requests.push(`GET ${resource.plural} ${name}`)
    throw new KubeError('NotFound', `${resource.plural} ${name}: not found`)
  }

  async list<T extends KubeObject>(
    resource: Resource<T>,
    { limit, continue: token }: ListQuery = {},
  ): Promise<KubeList<T>> {
    this.requests.push(`LIST ${resource.plural}`)
    const { count, json } = this.#collection(resource)
    const from = Number(token ?? 0)
    const to = Math.min(count, from + (limit ?? count))
    const items = Array.from({ length: to - from }, (_, index) => JSON.parse(json(from + index)) as T)
    return { metadata: { resourceVersion, ...(to < count && { continue: String(to) }) }, items }
  }

  /** Sends changed objects, as JSON, to all watchers of a collection. */
  change(plural: string, objects: readonly string[]): void {
    for (const watcher of this.#watchers) if (watcher.plural === plural) watcher.send(objects)
  }

  async *watch<T extends KubeObject>(
    resource: Resource<T>,
    { sendInitialEvents = false, onOpen, signal }: WatchQuery & { readonly signal: AbortSignal },
  ): AsyncIterable<WatchEvent<T>> {
    onOpen?.()
    if (sendInitialEvents) {
      const { count, json } = this.#collection(resource)
      for (let index = 0; index < count; index++) {
        yield { type: 'ADDED', object: JSON.parse(json(index)) as T }
        if (index % this.#objectsPerTurn === this.#objectsPerTurn - 1) await nextTurn()
      }
      const annotations = { 'k8s.io/initial-events-end': 'true' }
      yield { type: 'BOOKMARK', object: { metadata: { resourceVersion, annotations } } as unknown as T }
    }
    let arrived: (readonly string[])[] = []
    let next = Promise.withResolvers<void>()
    const watcher: Watcher = {
      plural: resource.plural,
      send(objects) {
        arrived.push(objects)
        next.resolve()
      },
    }
    this.#watchers.add(watcher)
    try {
      while (!signal.aborted) {
        await Promise.race([next.promise, aborted(signal)])
        const objects = arrived.flat()
        arrived = []
        next = Promise.withResolvers<void>()
        for (const object of objects) yield { type: 'MODIFIED', object: JSON.parse(object) as T }
      }
    } finally {
      this.#watchers.delete(watcher)
    }
  }

  create<T extends KubeObject>(resource: Resource<T>): Promise<T> {
    return this.#refuse(`POST ${resource.plural}`)
  }

  update<T extends KubeObject>(resource: Resource<T>): Promise<T> {
    return this.#refuse(`PUT ${resource.plural}`)
  }

  patch<T extends KubeObject>(resource: Resource<T>): Promise<T> {
    return this.#refuse(`PATCH ${resource.plural}`)
  }

  delete(resource: Resource<KubeObject>): Promise<void> {
    return this.#refuse(`DELETE ${resource.plural}`)
  }

  #collection(resource: Resource<KubeObject>): CollectionAtRest {
    return this.#collections.get(resource.plural) ?? { count: 0, json: () => '' }
  }

  async #refuse(request: string): Promise<never> {
    this.requests.push(request)
    throw new KubeError('Forbidden', `${request}: nothing is to be written`)
  }
}

const resourceVersion = '1000000'
