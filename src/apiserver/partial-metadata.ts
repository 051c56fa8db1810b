import type { ApiResponse } from '../kube/transport.ts'
import { type AnswerBody, inForm, listMetadata } from './answer-forms.ts'
import { notInThisForm } from './refusal.ts'
import type { StoredObject } from './store.ts'

/** A request for metadata alone instead of whole objects, as client-go's metadata client sends it. */
export interface PartialRequest {
  readonly as: 'PartialObjectMetadata' | 'PartialObjectMetadataList'
  readonly apiVersion: string
}

/** The metadata of an object, as an object of its own. */
export function partialObject({ metadata }: Pick<StoredObject, 'metadata'>, apiVersion: string): object {
  return { kind: 'PartialObjectMetadata', apiVersion, metadata }
}

/**
 * Reduces the objects in an answer to their metadata. The events of a watch have single objects, even if the client
 * requests a list.
 * @throws Refusal 406 if a list is requested as one object, or one object as a list
 */
export function partialResponse(response: ApiResponse, request: PartialRequest, isList: boolean): ApiResponse {
  const { as, apiVersion } = request
  const one = (object: object): object => partialObject(object as StoredObject, apiVersion)
  const whole = (body: AnswerBody): object => {
    if (as === 'PartialObjectMetadata') {
      if (isList) throw notInThisForm(as, `a list (${body.kind})`)
      return one(body)
    }
    if (!isList) throw notInThisForm(as, `not a list (${body.kind})`)
    // Go writes an empty list of metadata as null.
    const items = body.items.length === 0 ? null : body.items.map(one)
    return { kind: as, apiVersion, metadata: listMetadata(body), items }
  }
  return inForm(response, ({ object }) => one(object), whole)
}
