import type { ApiRequest } from '../kube/transport.ts'

/** A request of a member to its API server. */
export interface ObservedRequest {
  readonly atMs: number
  readonly by: string
  readonly request: Pick<ApiRequest, 'method' | 'path' | 'body'>
}

/** The state of the objects other than the lists, from `atMs` on. */
export interface ObservedObjects {
  readonly atMs: number
  /** `default/kubernetes`; undefined when it is gone. */
  readonly service: ObservedService | undefined
  /** The names of all namespaces. */
  readonly namespaces: readonly string[]
  /** Whether it was overwritten on purpose. */
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

/** Whether the request was meant to change something. Events do not count. */
export function isWrite({ request }: ObservedRequest): boolean {
  return request.method !== 'GET' && !request.path.endsWith('/events')
}

/** The listed addresses of `default/kubernetes`, from `atMs` on. */
export interface Listing {
  readonly atMs: number
  readonly object: 'endpoints' | 'slice'
  /** Sorted; undefined when the object was gone. */
  readonly addresses: readonly string[] | undefined
  /** Whether it was overwritten on purpose. */
  readonly byDamage: boolean
  /** The writer; undefined if it is foreign or unknown. */
  readonly by: string | undefined
}

/** The limits from which every margin of every invariant is computed. Durations are in milliseconds. */
export interface Bounds {
  /** How long after the end of its lease a dead master may still be listed. */
  readonly removalMarginMs: number
  /** How long a master that has become healthy may remain unlisted. */
  readonly listedMs: number
  /** How long Endpoints and EndpointSlice may differ. */
  readonly agreementMs: number
  /**
   * How long it may take until everything is in sync after the last fault, from the API server's first successful
   * write.
   */
  readonly recoveryMs: number
  /** How many writes one master may make in ten seconds. */
  readonly writesPerTenSeconds: number
}

/** Times of masters under faults of their own servers, in milliseconds. */
export const faultTimes = {
  /**
   * A shorter failure of a server may go unnoticed, because the next probe may be sent up to a second after its
   * beginning, hang for 3 s, and succeed in the end.
   */
  noticedMs: 4_500,
  /** For this long after the end of a fault of requests, a request may still hang, or an event be missing. */
  requestMs: 10_000,
} as const

export const defaultBounds: Bounds = {
  removalMarginMs: 2_000,
  listedMs: 6_000,
  agreementMs: 2_000,
  recoveryMs: 20_000,
  writesPerTenSeconds: 40,
}
