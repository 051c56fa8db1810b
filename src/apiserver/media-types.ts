import type { ApiRequest } from '../kube/transport.ts'
import type { PartialRequest } from './partial-metadata.ts'
import { parameter } from './query.ts'
import type { TableRequest } from './table.ts'

interface MediaType {
  readonly type: string
  readonly parameters: Readonly<Record<string, string>>
}

/** The media types of an Accept header, in its order. Kubernetes clients send their preferred type first. */
export function mediaTypesOf(accept: string): readonly MediaType[] {
  return accept.split(',').map((text) => {
    const [type = '', ...parameters] = text.split(';').map((part) => part.trim())
    return { type, parameters: Object.fromEntries(parameters.map((part) => part.split('=', 2))) }
  })
}

/** The form that a client prefers to the objects themselves; undefined if the client prefers the objects. */
export function formRequested(request: ApiRequest): TableRequest | PartialRequest | undefined {
  const { accept } = request.headers
  if (accept === undefined) return undefined
  for (const { type, parameters } of mediaTypesOf(accept)) {
    if (type !== 'application/json' && type !== '*/*') continue
    const { as, g, v } = parameters
    if (as === undefined) return undefined
    if (g !== 'meta.k8s.io') continue
    if (as === 'Table' && v === 'v1') {
      const included = parameter(request.query, 'includeObject')
      return { as, includeObject: included === 'None' || included === 'Object' ? included : 'Metadata' }
    }
    const isPartial = as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList'
    if (isPartial && (v === 'v1' || v === 'v1beta1')) return { as, apiVersion: `${g}/${v}` }
  }
  return undefined
}
