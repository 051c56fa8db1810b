import type { ApiResponse } from '../kube/transport.ts'
import { notInThisForm } from './refusal.ts'
import type { StoredObject } from './store.ts'
import { eventsInForm, type WatchEvent } from './watch.ts'

/** A request for metadata alone instead of whole objects, as client-go's metadata client sends it. */
export interface PartialRequest {
  readonly as: 'PartialObjectMetadata' | 'PartialObjectMetadataList'
  readonly apiVersion: string
}

/** The metadata of an object, as an object of its own. */
export function partialObject({ metadata }: Pick<StoredObject, 'metadata'>, apiVersion: string): object {
  return { kind: 'PartialObjectMetadata', apiVersion, metadata }
}

/** The metadata of a list without an empty `continue`, which only lists of custom resources have. */
export function listMetadata({ continue: token, ...metadata }: { readonly continue?: string }): object {
  return token ? { ...metadata, continue: token } : metadata
}

/**
 * Reduces the objects in an answer to their metadata; a Status stays as it is. The events of a watch have single
 * objects, even if the client requests a list.
 * @throws Refusal 406 if a list is requested as one object, or one object as a list
 */
export function partialResponse(response: ApiResponse, request: PartialRequest, isList: boolean): ApiResponse {
  const { as, apiVersion } = request
  if ('stream' in response) {
    const stream = eventsInForm(response.stream as AsyncIterable<WatchEvent>, ({ type, object }) => {
      return { type, object: partialObject(object as StoredObject, apiVersion) }
    })
    return { ...response, stream }
  }
  const body = response.body as StoredObject & {
    readonly items: readonly StoredObject[]
    readonly metadata: { readonly continue?: string }
  }
  if (body.kind === 'Status') return response
  if (as === 'PartialObjectMetadata') {
    if (isList) throw notInThisForm(as, `a list (${body.kind})`)
    return { ...response, body: partialObject(body, apiVersion) }
  }
  if (!isList) throw notInThisForm(as, `not a list (${body.kind})`)
  const metadata = listMetadata(body.metadata)
  const objects = body.items.map((item) => partialObject(item, apiVersion))
  // Go writes an empty list of metadata as null.
  return { ...response, body: { kind: as, apiVersion, metadata, items: objects.length === 0 ? null : objects } }
}
