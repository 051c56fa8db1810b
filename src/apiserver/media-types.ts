import type { ApiRequest } from '../kube/transport.ts'
import { parameter } from './query.ts'
import type { TableRequest } from './table.ts'

/** One media type of an Accept header, with its parameters by name. */
interface MediaType {
  readonly type: string
  readonly parameters: Readonly<Record<string, string>>
}

/** The media types of an Accept header, in its order: Kubernetes clients send the one that they prefer first. */
export function mediaTypesOf(accept: string): readonly MediaType[] {
  return accept.split(',').map((text) => {
    const [type = '', ...parameters] = text.split(';').map((part) => part.trim())
    return { type, parameters: Object.fromEntries(parameters.map((part) => part.split('=', 2))) }
  })
}

/** The Table that a client prefers to the objects; undefined if it asks for none. */
export function tableRequestOf(request: ApiRequest): TableRequest | undefined {
  const { accept } = request.headers
  if (accept === undefined) return undefined
  for (const { type, parameters } of mediaTypesOf(accept)) {
    if (type !== 'application/json' && type !== '*/*') continue
    const { as, g, v } = parameters
    if (as === undefined) return undefined
    if (as !== 'Table' || g !== 'meta.k8s.io' || v !== 'v1') continue
    const included = parameter(request.query, 'includeObject')
    return { includeObject: included === 'None' || included === 'Object' ? included : 'Metadata' }
  }
  return undefined
}
