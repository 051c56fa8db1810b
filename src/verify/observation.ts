import type { ApiRequest } from '../kube/transport.ts'

/** A request of a member to its API server. */
export interface ObservedRequest {
  readonly atMs: number
  readonly by: string
  readonly request: Pick<ApiRequest, 'method' | 'path' | 'body'>
}

/** The state of the objects beside the lists from a moment on. */
export interface ObservedObjects {
  readonly atMs: number
  /** `default/kubernetes`; undefined when it is gone. */
  readonly service: ObservedService | undefined
  /** The names of all namespaces. */
  readonly namespaces: readonly string[]
  /** It was overwritten on purpose. */
  readonly byDamage: boolean
}

export interface ObservedService {
  readonly uid: string
  readonly clusterIP: string
  readonly ports: readonly ObservedPort[]
}

interface ObservedPort {
  readonly name: string
  readonly port: number
  readonly protocol: string
  readonly nodePort: number | undefined
}

/** Whether it was to change something. Events do not count. */
export function isWrite({ request }: ObservedRequest): boolean {
  return request.method !== 'GET' && !request.path.endsWith('/events')
}

/** The listed addresses of `default/kubernetes` from a moment on. */
export interface Listing {
  readonly atMs: number
  readonly object: 'endpoints' | 'slice'
  /** Sorted; undefined when the object was gone. */
  readonly addresses: readonly string[] | undefined
  /** It was overwritten on purpose. */
  readonly byDamage: boolean
  /** The writer; undefined for a foreign one, or where it is unknown. */
  readonly by: string | undefined
}

/** The time limits. Every margin of every invariant is made of these. Durations are in milliseconds. */
export interface Bounds {
  /** How much later than its lease's end a dead master may still be listed. */
  readonly removalMarginMs: number
  /** Until a master that has become healthy is listed. */
  readonly listedMs: number
  /** How long Endpoints and EndpointSlice may differ. */
  readonly agreementMs: number
  /** After the last fault, from the API server's own first successful write, until everything is in sync. */
  readonly recoveryMs: number
  /** What one master may write in ten seconds. */
  readonly writesPerTenSeconds: number
}

/** Times of masters under faults of their own servers, in milliseconds. */
export const faultTimes = {
  /**
   * A shorter failure of a server may go unnoticed: the next probe is sent up to a second after it has begun, may
   * hang for 3 s, and may succeed in the end.
   */
  noticedMs: 4_500,
  /** A request may hang for this long after a fault of its requests is over, or a lost event be missed. */
  requestMs: 10_000,
} as const

export const defaultBounds: Bounds = {
  removalMarginMs: 2_000,
  listedMs: 6_000,
  agreementMs: 2_000,
  recoveryMs: 20_000,
  writesPerTenSeconds: 40,
}
