import type { KubeApi } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import { type EndpointSlice, endpointSlices, type Service } from '../kube/resources.ts'
import type { SliceAction } from './slice-actions.ts'
import type { SliceTracker } from './slice-tracker.ts'

export interface SliceWriterOptions {
  readonly api: KubeApi
  readonly tracker: SliceTracker
  /** Told of each write that succeeded. */
  readonly written: (operation: SliceAction['type']) => void
}

/** A write of a slice that failed, in upstream's words; the cause is the server's refusal. */
export class SliceWriteError extends Error {
  override name = 'SliceWriteError'
}

/** Does what was planned for the slices of a Service, and has the tracker know what the server answered. */
export class SliceWriter {
  readonly #options: SliceWriterOptions

  constructor(options: SliceWriterOptions) {
    this.#options = options
  }

  /**
   * Does the actions one after the other. Resolves with false, leaving out the rest, when the namespace is being deleted.
   * @throws SliceWriteError at the first that fails; the reason of `signal` when that is aborted.
   */
  async execute(service: Service, actions: readonly SliceAction[], signal: AbortSignal): Promise<boolean> {
    for (const action of actions) {
      try {
        await this.#write(action, signal)
      } catch (error) {
        if (signal.aborted) throw error
        if (action.type === 'create' && isNamespaceTerminating(error)) return false
        throw failed(action, service, error)
      }
      this.#options.written(action.type)
    }
    return true
  }

  /** Deletes a slice of an address type that the Service does not have. */
  async deleteUnsupported(service: Service, slice: EndpointSlice, signal: AbortSignal): Promise<void> {
    try {
      await this.#write({ type: 'delete', slice }, signal)
    } catch (error) {
      if (signal.aborted) throw error
      throw new SliceWriteError(
        `error deleting ${slice.metadata?.name} EndpointSlice for Service ${nameOf(service)}: ${messageOf(error)}`,
        { cause: error },
      )
    }
    this.#options.written('delete')
  }

  async #write(action: SliceAction, signal: AbortSignal): Promise<void> {
    const { api, tracker } = this.#options
    switch (action.type) {
      case 'create':
        tracker.update(await api.create(endpointSlices, action.slice, { signal }))
        return
      case 'update':
        tracker.update(await api.update(endpointSlices, action.slice, { signal }))
        return
      case 'delete': {
        const { namespace, name = '' } = action.slice.metadata ?? {}
        try {
          await api.delete(endpointSlices, { namespace, name }, { signal })
        } catch (error) {
          // Gone is gone, whoever did it.
          if (!isKubeError(error, 'NotFound')) throw error
        }
        tracker.expectDeletion(action.slice)
      }
    }
  }
}

function failed(action: SliceAction, service: Service, error: unknown): SliceWriteError {
  const name = action.type === 'create' ? '' : `${action.slice.metadata?.name} `
  return new SliceWriteError(
    `failed to ${action.type} ${name}EndpointSlice for Service ${nameOf(service)}: ${messageOf(error)}`,
    { cause: error },
  )
}

function isNamespaceTerminating(error: unknown): boolean {
  if (!isKubeError(error)) return false
  return error.status?.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating') ?? false
}

function nameOf(service: Service): string {
  return `${service.metadata?.namespace}/${service.metadata?.name}`
}

/** The server's own words where there are any, as upstream has them in its events. */
function messageOf(error: unknown): string {
  if (isKubeError(error)) return error.status?.message ?? error.message
  return error instanceof Error ? error.message : String(error)
}
