import type { ApiResponse } from '../kube/transport.ts'
import { notInThisForm } from './refusal.ts'
import type { StoredObject } from './store.ts'
import { eventsInForm, type WatchEvent } from './watch.ts'

/** Metadata alone in place of the objects themselves, as client-go's metadata client asks for it. */
export interface PartialRequest {
  readonly as: 'PartialObjectMetadata' | 'PartialObjectMetadataList'
  readonly apiVersion: string
}

/** The metadata of an object, as an object of its own. */
export function partialObject({ metadata }: Pick<StoredObject, 'metadata'>, apiVersion: string): object {
  return { kind: 'PartialObjectMetadata', apiVersion, metadata }
}

/**
 * An answer, of a list or of one object, with metadata alone; a Status stays as it is. The events of a watch have
 * single objects, whatever is asked.
 * @throws Refusal 406 where a list is asked for as one object, or one object as a list
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
  // Only the list of custom resources has an empty token.
  const { continue: token, ...rest } = body.metadata
  const metadata = token ? { ...rest, continue: token } : rest
  const objects = body.items.map((item) => partialObject(item, apiVersion))
  // As Go writes an empty list of them.
  return { ...response, body: { kind: as, apiVersion, metadata, items: objects.length === 0 ? null : objects } }
}
