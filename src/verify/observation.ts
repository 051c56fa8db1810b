import type { ApiRequest } from '../kube/transport.ts'

/** What a member asked its API server for. */
export interface ObservedRequest {
  readonly atMs: number
  readonly by: string
  readonly request: Pick<ApiRequest, 'method' | 'path' | 'body'>
}

/** What there was beside the lists from a moment on. */
export interface ObservedObjects {
  readonly atMs: number
  /** `default/kubernetes`; undefined when it is gone. */
  readonly service: ObservedService | undefined
  /** The names of all namespaces. */
  readonly namespaces: readonly string[]
  /** Somebody spoiled it on purpose. */
  readonly byDamage: boolean
}

export interface ObservedService {
  readonly uid: string
  readonly clusterIP: string
  readonly ports: readonly ObservedPort[]
}

export interface ObservedPort {
  readonly name: string
  readonly port: number
  readonly protocol: string
  readonly nodePort: number | undefined
}

/** Whether something was to be changed. Events tell, they change nothing. */
export function isWrite({ request }: ObservedRequest): boolean {
  return request.method !== 'GET' && !request.path.endsWith('/events')
}
