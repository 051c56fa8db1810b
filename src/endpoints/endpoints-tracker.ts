import type { Endpoints } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'

/** The last write of an object of this process, as far as a copy can be told by it to be older. */
type LastWrite =
  | { readonly type: 'created'; readonly endpoints: Endpoints; readonly atMs: number }
  | { readonly type: 'replaced'; readonly resourceVersion: string | undefined }
  | { readonly type: 'deleted'; readonly uid: string | undefined }

/** A copy that has not heard so long of what was created never will: it was deleted again while the copy was not looking. */
const createdUnheardMs = 10_000

/**
 * What this process last wrote of each Endpoints object, so that a copy that is older is known to be. Upstream's `staleEndpointsTracker` remembers what
 * was replaced; what was created and deleted is remembered here as well, which saves requests that can only be refused.
 */
export class EndpointsTracker {
  readonly #writes = new Map<string, LastWrite>()

  /** Takes in an update of `before`, as the server answered it. One that changed nothing leaves the copy as good as it was. */
  replaced(before: Endpoints, after: Endpoints): void {
    const resourceVersion = before.metadata?.resourceVersion
    if (after.metadata?.resourceVersion === resourceVersion) return
    this.#writes.set(keyOfObject(before), { type: 'replaced', resourceVersion })
  }

  /** Takes in what was created, as the server answered it. */
  created(key: string, { metadata }: Endpoints, nowMs: number): void {
    const { namespace, name, uid } = metadata ?? {}
    const identity = { namespace, name, uid } as NonNullable<Endpoints['metadata']>
    this.#writes.set(key, { type: 'created', endpoints: { metadata: identity }, atMs: nowMs })
  }

  /** Takes in that an object was deleted that the copy still has. */
  deleted(key: string, { metadata }: Endpoints): void {
    this.#writes.set(key, { type: 'deleted', uid: metadata?.uid })
  }

  /** Whether `current`, what the copy has of an object, is older than what this process wrote. */
  isStale(key: string, current: Endpoints | undefined, nowMs: number): boolean {
    const last = this.#writes.get(key)
    if (last === undefined) return false
    switch (last.type) {
      case 'created':
        return current === undefined && nowMs - last.atMs < createdUnheardMs
      case 'replaced':
        return current !== undefined && current.metadata?.resourceVersion === last.resourceVersion
      case 'deleted':
        return current !== undefined && current.metadata?.uid === last.uid
    }
  }

  /** Whether the deletion of `current` has been asked for. */
  isDeleted(key: string, current: Endpoints | undefined): boolean {
    const last = this.#writes.get(key)
    return current !== undefined && last?.type === 'deleted' && current.metadata?.uid === last.uid
  }

  /** What was created and the copy has not heard of: name, namespace and uid. */
  unheard(key: string): Endpoints | undefined {
    const last = this.#writes.get(key)
    return last?.type === 'created' ? last.endpoints : undefined
  }

  /** The copy has heard of a change of the object. */
  heard(key: string): void {
    if (this.#writes.get(key)?.type !== 'replaced') this.#writes.delete(key)
  }

  /** Forgets an object that is gone. */
  delete(key: string): void {
    this.#writes.delete(key)
  }
}
