import type { KubeApi } from '../kube/api.ts'
import { isKubeError, type KubeError } from '../kube/errors.ts'
import { type EventSink, referenceTo } from '../kube/event-object.ts'
import { eventOf } from '../kube/event-reasons.ts'
import { type Endpoints, endpoints } from '../kube/resources.ts'
import { keyOfObject, type Store } from '../kube/store.ts'
import type { Clock } from '../runtime/clock.ts'
import { StaleCacheError } from '../workloads/service-queue.ts'
import type { EndpointsAction } from './endpoints-plan.ts'
import type { EndpointsTracker } from './endpoints-tracker.ts'

export interface EndpointsWriterOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly events: EventSink
  readonly tracker: EndpointsTracker
  /** What the informer has. */
  readonly copy: Store<Endpoints>
}

/** Carries out what a plan asks for, tells of what was refused, and remembers what the copy will have to hear of. */
export class EndpointsWriter {
  readonly #options: EndpointsWriterOptions

  constructor(options: EndpointsWriterOptions) {
    this.#options = options
  }

  /**
   * @param current - what the plan rests on.
   * @throws StaleCacheError when the server shows that the copy is old.
   * @throws KubeError for every other refusal, but of Endpoints in a namespace that is going: those will never be made.
   */
  async write(
    action: Exclude<EndpointsAction, { readonly type: 'none' }>,
    current: Endpoints | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const key = keyOfObject(action.endpoints)
    try {
      switch (action.type) {
        case 'create':
          await this.#create(key, action.endpoints, signal)
          break
        case 'update':
          await this.#update(action.endpoints, current, signal)
          break
        case 'delete':
          await this.#delete(key, action.endpoints, signal)
      }
    } catch (error) {
      if (signal.aborted || !isKubeError(error)) throw error
      if (action.type === 'create' && isNamespaceTerminating(error)) return
      if (action.type !== 'delete') this.#tell(action.type, key, action.endpoints, error)
      if (!isKubeError(error, 'Conflict', 'AlreadyExists')) throw error
      throw new StaleCacheError(`Endpoints ${key} are not what the copy has`, { cause: error })
    }
  }

  async #create(key: string, wanted: Endpoints, signal: AbortSignal): Promise<void> {
    const { api, clock, tracker } = this.#options
    const made = await api.create(endpoints, wanted, { signal })
    tracker.created(key, made, clock.monotonicMs())
  }

  async #update(wanted: Endpoints, current: Endpoints | undefined, signal: AbortSignal): Promise<void> {
    const { api, tracker } = this.#options
    const made = await api.update(endpoints, wanted, { signal })
    if (current !== undefined) tracker.replaced(current, made)
  }

  async #delete(key: string, { metadata }: Endpoints, signal: AbortSignal): Promise<void> {
    const { api, tracker } = this.#options
    const { namespace, name = '', uid, resourceVersion } = metadata ?? {}
    try {
      await api.delete(endpoints, { namespace, name }, { signal, uid, resourceVersion })
    } catch (error) {
      if (!isKubeError(error, 'NotFound')) throw error
    }
    const left = this.#options.copy.get({ namespace, name })
    if (left !== undefined && left.metadata?.uid === uid) tracker.deleted(key, left)
    else tracker.delete(key)
  }

  /** Upstream's words. Nobody can be told while the server cannot be reached. */
  #tell(verb: 'create' | 'update', key: string, wanted: Endpoints, error: KubeError): void {
    if (error.code === 'Unreachable') return
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

/** Nothing can be made in a namespace that is being deleted: the Service goes as well. */
function isNamespaceTerminating(error: KubeError): boolean {
  const causes = error.status?.details?.causes ?? []
  return error.code === 'Forbidden' && causes.some(({ reason }) => reason === 'NamespaceTerminating')
}
