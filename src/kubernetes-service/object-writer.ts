import type { KubeApi } from '../kube/api.ts'
import type { KubeObject } from '../kube/json.ts'
import type { Resource } from '../kube/resources.ts'
import type { Counter, Metrics } from '../telemetry/metrics.ts'

/** Writes the objects that are kept, and counts what is written by object and by what was found wrong. */
export class ObjectWriter {
  readonly #api: KubeApi
  readonly #writes: Counter<'kind' | 'verb' | 'reason'>

  constructor(options: { readonly api: KubeApi; readonly metrics: Metrics }) {
    this.#api = options.api
    this.#writes = options.metrics.counter({
      name: 'apiserver_bootstrap_writes_total',
      help: 'Writes to the objects that are kept, by what was found wrong.',
      labels: ['kind', 'verb', 'reason'],
    })
  }

  /** Makes an object. `reasons` name what was found wrong, in stable words. */
  async create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    reasons: readonly string[],
    signal?: AbortSignal,
  ): Promise<T> {
    const stored = await this.#api.create(resource, object, { signal })
    this.#count(resource, 'create', reasons)
    return stored
  }

  /** Replaces an object as it was read: its resourceVersion guards the write. */
  async update<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    reasons: readonly string[],
    signal?: AbortSignal,
  ): Promise<T> {
    const stored = await this.#api.update(resource, object, { signal })
    this.#count(resource, 'update', reasons)
    return stored
  }

  /** Deletes an object as it was read: its uid and resourceVersion guard the delete. */
  async delete<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    reasons: readonly string[],
    signal?: AbortSignal,
  ): Promise<void> {
    const { namespace, name = '', uid, resourceVersion } = object.metadata ?? {}
    await this.#api.delete(resource, { namespace, name }, { uid, resourceVersion, signal })
    this.#count(resource, 'delete', reasons)
  }

  #count(resource: Resource<KubeObject>, verb: 'create' | 'update' | 'delete', reasons: readonly string[]): void {
    for (const reason of reasons) this.#writes.add({ kind: resource.kind, verb, reason })
  }
}
