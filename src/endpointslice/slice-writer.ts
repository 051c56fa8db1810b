import type { KubeApi } from '../kube/api.ts'
import { isKubeError, isNamespaceTerminating } from '../kube/errors.ts'
import { type EndpointSlice, endpointSlices, type Service } from '../kube/resources.ts'
import { messageOf } from '../runtime/errors.ts'
import { serviceKeyOf } from './slice.ts'
import { type SliceAction, updatesWithoutCreations } from './slice-actions.ts'
import type { SliceTracker } from './slice-tracker.ts'

export interface SliceWriterOptions {
  readonly api: KubeApi
  readonly tracker: SliceTracker
  /** Called after each successful write. */
  readonly written: (operation: SliceAction['type']) => void
  /**
   * Called with the key of the Service when the server answers a deletion with NotFound or Conflict. If the server
   * still has the slice, no event follows, so the Service must be synced again after `UNSEEN_MS`.
   */
  readonly onSliceGone: (serviceKey: string) => void
}

/** How many slices of a Service are written at the same time, at most. Upstream writes one at a time. */
const CONCURRENT_WRITES = 4

/** A failed write of a slice. The message is in upstream's words, and the cause is the error of the request. */
export class SliceWriteError extends Error {
  override name = 'SliceWriteError'
}

interface Failure {
  readonly action: SliceAction
  readonly error: unknown
}

/** Carries out the plan for the slices of a Service, and passes the server's answers to the tracker. */
export class SliceWriter {
  readonly #options: SliceWriterOptions

  constructor(options: SliceWriterOptions) {
    this.#options = options
  }

  /**
   * Carries out the actions: creations, then updates, then deletions, a few at a time. `existing` are the slices from
   * which the actions were planned. Resolves with true. Resolves with false if a creation was refused because the
   * namespace is being deleted; the remaining actions are then skipped.
   * @throws SliceWriteError for the first failure, after the running writes have ended. The remaining actions are
   * skipped, except those of {@link updatesWithoutCreations} if the server refused a creation. If `signal` is aborted,
   * throws the error of the failed request.
   */
  async execute(
    service: Service,
    actions: readonly SliceAction[],
    existing: readonly EndpointSlice[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const { create = [], update = [], delete: remove = [] } = Object.groupBy(actions, ({ type }) => type)
    const refused = await this.#firstFailure(create, signal)
    if (refused !== undefined) {
      if (signal.aborted) throw refused.error
      if (isNamespaceTerminating(refused.error)) return false
      // A quota may be exhausted for long. Meanwhile dead endpoints must not stay in the other slices.
      const isAnswered = !isKubeError(refused.error, 'Unreachable', 'Timeout', 'NoCredentials', 'TooManyRequests')
      if (isAnswered) await this.#firstFailure(updatesWithoutCreations(actions, existing), signal)
    }
    const failure = refused ?? (await this.#firstFailure(update, signal)) ?? (await this.#firstFailure(remove, signal))
    if (failure === undefined) return true
    if (signal.aborted) throw failure.error
    throw failed(failure.action, service, failure.error)
  }

  /**
   * Deletes a slice that the Service must not have: the Service does not have its address type, or another controller
   * manages the Service.
   * @throws SliceWriteError, or the error of the request itself if `signal` is aborted.
   */
  async deleteUnwanted(service: Service, slice: EndpointSlice, signal: AbortSignal): Promise<void> {
    try {
      await this.#write({ type: 'delete', slice }, signal)
    } catch (error) {
      if (signal.aborted) throw error
      throw new SliceWriteError(
        `error deleting ${slice.metadata?.name} EndpointSlice for Service ${nameOf(service)}: ${wordsOf(error)}`,
        { cause: error },
      )
    }
    this.#options.written('delete')
  }

  /**
   * Deletes an orphaned slice, unless it is gone or has changed. @throws KubeError if the request fails for another
   * reason.
   */
  async deleteOrphan(slice: EndpointSlice, signal: AbortSignal): Promise<void> {
    const { namespace, name = '', uid, resourceVersion } = slice.metadata ?? {}
    try {
      await this.#options.api.delete(endpointSlices, { namespace, name }, { signal, uid, resourceVersion })
    } catch (error) {
      if (isKubeError(error, 'NotFound', 'Conflict')) return
      throw error
    }
    this.#options.written('delete')
  }

  /** Carries out the actions until one fails. Returns the first failure, after the running writes have ended. */
  async #firstFailure(actions: readonly SliceAction[], signal: AbortSignal): Promise<Failure | undefined> {
    const waiting = actions.values()
    const failures: Failure[] = []
    const work = async (): Promise<void> => {
      // All workers share the iterator, so that each action is taken by one of them.
      for (const action of waiting) {
        if (failures.length > 0) return
        try {
          await this.#write(action, signal)
          this.#options.written(action.type)
        } catch (error) {
          failures.push({ action, error })
        }
      }
    }
    await Promise.all(Array.from({ length: Math.min(CONCURRENT_WRITES, actions.length) }, work))
    return failures[0]
  }

  async #write(action: SliceAction, signal: AbortSignal): Promise<void> {
    const { api, tracker, onSliceGone } = this.#options
    switch (action.type) {
      case 'create':
        tracker.update(await api.create(endpointSlices, action.slice, { signal }))
        return
      case 'update':
        tracker.update(await api.update(endpointSlices, action.slice, { signal }))
        return
      case 'delete': {
        const { namespace, name = '', uid } = action.slice.metadata ?? {}
        try {
          await api.delete(endpointSlices, { namespace, name }, { signal, uid })
        } catch (error) {
          // With these codes the slice is gone, or another one has its name.
          if (!isKubeError(error, 'NotFound', 'Conflict')) throw error
          const serviceKey = serviceKeyOf(action.slice)
          if (serviceKey !== undefined) onSliceGone(serviceKey)
        }
        tracker.expectDeletion(action.slice)
      }
    }
  }
}

function failed(action: SliceAction, service: Service, error: unknown): SliceWriteError {
  const name = action.type === 'create' ? '' : `${action.slice.metadata?.name} `
  return new SliceWriteError(
    `failed to ${action.type} ${name}EndpointSlice for Service ${nameOf(service)}: ${wordsOf(error)}`,
    { cause: error },
  )
}

function nameOf(service: Service): string {
  return `${service.metadata?.namespace}/${service.metadata?.name}`
}

/** The server's own message if it sent one, as in upstream's Events. */
function wordsOf(error: unknown): string {
  if (isKubeError(error)) return error.status?.message ?? error.message
  return messageOf(error)
}
