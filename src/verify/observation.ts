import type { ApiRequest } from '../kube/transport.ts'

export interface ObservedRequest {
  readonly atMs: number
  readonly by: string
  readonly request: Pick<ApiRequest, 'method' | 'path' | 'body'>
}

/** The state of the Service and the namespaces, from `atMs` on. */
export interface ObservedObjects {
  readonly atMs: number
  readonly service: ObservedService | undefined
  readonly namespaces: readonly string[]
  /** Whether the drill, not a master, wrote this state as damage. */
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

/** Whether the request is a write, except one of an Event. */
export function isWrite({ request }: ObservedRequest): boolean {
  return request.method !== 'GET' && !isOfEvents(request.path)
}

/** Whether it is the path of Events, or of one Event. A write there causes no work for other masters. */
export function isOfEvents(path: string): boolean {
  return /\/namespaces\/[^/]+\/events(\/[^/]+)?$/.test(path)
}

/** The addresses that Endpoints or EndpointSlice `default/kubernetes` lists, from `atMs` on. */
export interface Listing {
  readonly atMs: number
  readonly object: 'endpoints' | 'slice'
  /** Sorted; undefined when the object did not exist. */
  readonly addresses: readonly string[] | undefined
  /** Whether the drill, not a master, wrote this state as damage. */
  readonly byDamage: boolean
  /** The name of the master that wrote this state; undefined for another or an unknown writer. */
  readonly by: string | undefined
}

/** The limits of the invariants. Durations are in milliseconds. */
export interface Bounds {
  /** How long after the end of its lease a dead master may still be listed. */
  readonly removalMarginMs: number
  /** How long a master that has become healthy may remain unlisted. */
  readonly listedMs: number
  /** How long Endpoints and EndpointSlice may differ. */
  readonly agreementMs: number
  /** How long after the last fault the fleet may be out of sync. An outage ends when the API server accepts a write. */
  readonly recoveryMs: number
  /** How many writes one master may send in ten seconds. Events do not count. */
  readonly writesPerTenSeconds: number
}

/** Times of masters under faults of their own servers, in milliseconds. */
export const faultTimes = {
  /**
   * A shorter failure of a server may go unnoticed: the next probe may be sent up to a second after the failure begins,
   * hang for 3 s, and succeed in the end.
   */
  noticedMs: 4_500,
  /** For this long after a fault of requests ends, a request may still hang, and a lost watch event be missing. */
  requestMs: 10_000,
} as const

export const defaultBounds: Bounds = {
  removalMarginMs: 2_000,
  listedMs: 6_000,
  agreementMs: 2_000,
  recoveryMs: 20_000,
  writesPerTenSeconds: 40,
}
