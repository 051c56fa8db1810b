import type { KubeApi } from '../kube/api.ts'
import { isAwayOrBusy, isKubeError, isNamespaceTerminating, type KubeError } from '../kube/errors.ts'
import { type EventSink, eventOf, referenceTo } from '../kube/event-object.ts'
import { type Endpoints, endpoints } from '../kube/resources.ts'
import { keyOfObject, type Store } from '../kube/store.ts'
import type { Clock } from '../runtime/clock.ts'
import { StaleCacheError, UNSEEN_MS } from '../workloads/service-queue.ts'
import type { EndpointsAction } from './endpoints-plan.ts'

interface EndpointsWriterOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly events: EventSink
  readonly tracker: EndpointsTracker
  readonly copy: Store<Endpoints>
}

/** Carries out a plan, records refusals as Events, and passes the writes to the tracker. */
export class EndpointsWriter {
  readonly #options: EndpointsWriterOptions

  constructor(options: EndpointsWriterOptions) {
    this.#options = options
  }

  /**
   * @param current - the object from which the plan was made.
   * @throws StaleCacheError when the server's answer shows that the copy is old, for example when an object to delete
   * is in the copy but not on the server. If that answer was wrong, the retries delete the object.
   * @throws KubeError for every other refusal, except that of a creation in a namespace that is being deleted.
   */
  async write(
    action: Exclude<EndpointsAction, { readonly type: 'none' }>,
    current: Endpoints | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { api, clock, tracker } = this.#options
    const key = keyOfObject(action.endpoints)
    try {
      switch (action.type) {
        case 'create':
          tracker.created(key, await api.create(endpoints, action.endpoints, { signal }), clock.monotonicMs())
          break
        case 'update': {
          const made = await api.update(endpoints, action.endpoints, { signal })
          if (current !== undefined) tracker.replaced(current, made, clock.monotonicMs())
          break
        }
        case 'delete':
          await this.#delete(key, action.endpoints, signal)
      }
    } catch (error) {
      if (signal.aborted || !isKubeError(error)) throw error
      if (action.type === 'create' && isNamespaceTerminating(error)) return
      const isConflict = isKubeError(error, 'Conflict', 'AlreadyExists')
      // If this process's own write explains the conflict, the copy is only late.
      const isExplained = isConflict && tracker.renew(key, current, clock.monotonicMs())
      if (action.type !== 'delete' && !isExplained) this.#recordFailure(action.type, key, action.endpoints, error)
      if (!isConflict) throw error
      throw new StaleCacheError(`Endpoints ${key} differ from the cached copy`, { cause: error })
    }
  }

  async #delete(key: string, { metadata }: Endpoints, signal: AbortSignal): Promise<void> {
    const { api, clock, tracker, copy } = this.#options
    const { namespace, name = '', uid, resourceVersion } = metadata ?? {}
    let refusal: unknown
    try {
      await api.delete(endpoints, { namespace, name }, { signal, uid, resourceVersion })
    } catch (error) {
      if (!isKubeError(error, 'NotFound')) throw error
      refusal = error
    }
    const left = copy.get({ namespace, name })
    if (left === undefined || left.metadata?.uid !== uid) {
      tracker.delete(key)
      return
    }
    tracker.deleted(key, left, clock.monotonicMs())
    if (refusal !== undefined)
      throw new StaleCacheError(`Endpoints ${key} are only in the cached copy`, { cause: refusal })
  }

  /** Records a failed write as an Event, in upstream's words. No Event is written to a server that is away or busy. */
  #recordFailure(verb: 'create' | 'update', key: string, wanted: Endpoints, error: KubeError): void {
    if (isAwayOrBusy(error)) return
    const why = error.status?.message ?? error.message
    const regarding = referenceTo(wanted)
    const { events } = this.#options
    if (verb === 'create') {
      const note = `Failed to create endpoint for service ${key}: ${why}`
      events.record(eventOf('FailedToCreateEndpoint', { regarding, note }))
    } else {
      events.record(eventOf('FailedToUpdateEndpoint', { regarding, note: `Failed to update endpoint ${key}: ${why}` }))
    }
  }
}

/**
 * A created object that the copy has not received after this time, in milliseconds, is created again. If the server has
 * the object, it answers AlreadyExists, and no Event is recorded.
 */
const CREATED_UNSEEN_MS = 10_000

/** `atMs`: when the server answered, in monotonic time. `resourceVersion`: that of the object before the update. */
type LastWrite = { readonly atMs: number } & (
  | { readonly type: 'created'; readonly endpoints: Endpoints }
  | { readonly type: 'replaced'; readonly resourceVersion: string | undefined }
  | { readonly type: 'deleted'; readonly uid: string | undefined }
)

/**
 * The last write of each Endpoints object by this process, to detect copies that are older. Upstream's
 * `staleEndpointsTracker` remembers updates. This tracker also remembers creations and deletions, which saves requests
 * that the server would refuse.
 *
 * A copy that does not show the write counts as current in two cases: {@link UNSEEN_MS} have passed since the write
 * (for a creation, {@link CREATED_UNSEEN_MS}), or the copy comes from a list that was requested after the write.
 */
export class EndpointsTracker {
  readonly #writes = new Map<string, LastWrite>()

  /** Records an update of `before`, with the answer `after`. An update without a change leaves the copy current. */
  replaced(before: Endpoints, after: Endpoints, nowMs: number): void {
    const resourceVersion = before.metadata?.resourceVersion
    if (after.metadata?.resourceVersion === resourceVersion) return
    this.#writes.set(keyOfObject(before), { type: 'replaced', resourceVersion, atMs: nowMs })
  }

  created(key: string, { metadata }: Endpoints, nowMs: number): void {
    const { namespace, name, uid } = metadata ?? {}
    const identity = { namespace, name, uid } as NonNullable<Endpoints['metadata']>
    this.#writes.set(key, { type: 'created', endpoints: { metadata: identity }, atMs: nowMs })
  }

  /** Records the deletion of an object that the copy still has. */
  deleted(key: string, { metadata }: Endpoints, nowMs: number): void {
    this.#writes.set(key, { type: 'deleted', uid: metadata?.uid, atMs: nowMs })
  }

  /** Whether `current`, the copy of an object, is older than the last write of this process. */
  isStale(key: string, current: Endpoints | undefined, nowMs: number): boolean {
    const last = this.#writes.get(key)
    if (last === undefined || !isBefore(last, current)) return false
    return nowMs - last.atMs < (last.type === 'created' ? CREATED_UNSEEN_MS : UNSEEN_MS)
  }

  /**
   * When the server answered the last write of the object, in monotonic time; infinite without a write. A deletion does
   * not count, because the server may have answered by mistake that the object is gone.
   */
  answeredMs(key: string): number {
    const last = this.#writes.get(key)
    // In a dry run a created object has no uid.
    const isStored =
      last?.type === 'replaced' || (last?.type === 'created' && last.endpoints.metadata?.uid !== undefined)
    return isStored ? last.atMs : Number.POSITIVE_INFINITY
  }

  /**
   * Must be called when the server has refused a write because of a conflict. If `current`, the copy, is older than the
   * last write of this process, returns true. The copy then counts as old for as long again, from `nowMs`.
   */
  renew(key: string, current: Endpoints | undefined, nowMs: number): boolean {
    const last = this.#writes.get(key)
    if (last === undefined || !isBefore(last, current)) return false
    this.#writes.set(key, { ...last, atMs: nowMs })
    return true
  }

  /** Whether this process has deleted `current`, and the copy does not show that yet. */
  isDeleted(key: string, current: Endpoints | undefined, nowMs: number): boolean {
    return this.#writes.get(key)?.type === 'deleted' && this.isStale(key, current, nowMs)
  }

  /** The created object that the copy does not have yet: name, namespace and uid. */
  unseen(key: string): Endpoints | undefined {
    const last = this.#writes.get(key)
    return last?.type === 'created' ? last.endpoints : undefined
  }

  /** Records that the copy has received a change of the object. Creations and deletions are then forgotten. */
  observed(key: string): void {
    if (this.#writes.get(key)?.type !== 'replaced') this.#writes.delete(key)
  }

  /**
   * Forgets the writes before `beganMs` that the copy does not show, because the copy comes from a list that was
   * requested at `beganMs`. Returns the keys of these objects, which must be synced. `copyOf` returns an object's copy.
   */
  listed(beganMs: number, copyOf: (key: string) => Endpoints | undefined): readonly string[] {
    const keys: string[] = []
    for (const [key, last] of this.#writes) {
      if (last.atMs >= beganMs || !isBefore(last, copyOf(key))) continue
      this.#writes.delete(key)
      keys.push(key)
    }
    return keys
  }

  delete(key: string): void {
    this.#writes.delete(key)
  }
}

/** Whether `current`, a copy of an object, does not show this write yet. */
function isBefore(write: LastWrite, current: Endpoints | undefined): boolean {
  switch (write.type) {
    case 'created':
      return current === undefined
    case 'replaced':
      return current !== undefined && current.metadata?.resourceVersion === write.resourceVersion
    case 'deleted':
      return current !== undefined && current.metadata?.uid === write.uid
  }
}
