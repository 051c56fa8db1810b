import type { ApiRequest, ApiResponse } from '../kube/transport.ts'

/** What goes wrong with a request. */
export type Fault =
  /** The request arrives `ms` later, and so does each event of a stream. */
  | { readonly type: 'delay'; readonly ms: number }
  /** The request, or the answer to it, is lost: it is done in the one case and not in the other, and nobody hears of it. */
  | { readonly type: 'drop'; readonly lost: 'request' | 'answer' }
  /** Nobody listens. */
  | { readonly type: 'refuse' }
  /** The server answers with this status and does nothing. */
  | { readonly type: 'status'; readonly status: number; readonly retryAfterSeconds?: number }
  /** The request is done, but the answer cannot be read. */
  | { readonly type: 'garbage' }
  /** After so many events a stream breaks, ends without a word, or falls silent. */
  | { readonly type: 'cut' | 'end' | 'stall'; readonly afterEvents: number }
  /** A change is lost on its way, and the stream goes on; also of streams that were open before. Each change that is lost counts as a fault. */
  | { readonly type: 'lose' }

/** Which requests meet a fault. What is left out matches everything. */
export interface FaultRule {
  readonly fault: Fault
  readonly methods?: readonly ApiRequest['method'][]
  readonly pathPrefix?: string
  /** Only watches, or only what is none. */
  readonly stream?: boolean
  /** How likely a request that matches, or a change, meets the fault: 0 to 1. @default 1 */
  readonly probability?: number
  /** The rule is gone after so many faults. @default no limit */
  readonly times?: number
}

/** Whether a rule is about this request; chance and count aside. */
export function isAbout(rule: FaultRule, request: ApiRequest): boolean {
  if (rule.methods !== undefined && !rule.methods.includes(request.method)) return false
  if (rule.pathPrefix !== undefined && !request.path.startsWith(rule.pathPrefix)) return false
  return rule.stream === undefined || rule.stream === (request.stream === true)
}

const reasons: Readonly<Record<number, string>> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
}

/** The answer of a server that refuses with a status. */
export function refusedWith(status: number, retryAfterSeconds: number | undefined): ApiResponse {
  const message = `the fault that was asked for: ${status}`
  const details = retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } }
  const retryAfter = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
  const reason = reasons[status] ?? 'Unknown'
  return {
    status,
    headers: { 'content-type': 'application/json', ...retryAfter },
    body: {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      ...details,
      code: status,
    },
  }
}

/** The answer that was on its way, torn. */
export function torn(response: ApiResponse): ApiResponse {
  const text = 'body' in response ? JSON.stringify(response.body ?? null) : ''
  return { status: response.status, headers: response.headers, body: `${text.slice(0, text.length / 2)}\0` }
}
