import type { Random } from '../runtime/random.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { oneLine } from '../telemetry/secrets.ts'
import type { Status, WatchEvent } from './api.ts'
import { codeOf, KubeError } from './errors.ts'
import { shapeOf } from './object-shapes.ts'
import {
  isAbsentOr,
  isListOf,
  isRecord,
  isText,
  type KubeList,
  type KubeObject,
  type ObjectMeta,
  type Resource,
} from './resources.ts'
import type { ApiResponse } from './transport.ts'

/** The call in the words of an error message: `update services default/kubernetes`. */
export type CallName = string

export function refusal(call: CallName, response: ApiResponse & { readonly body: unknown }): KubeError {
  const { body } = response
  const status = isRecord(body) && body.kind === 'Status' ? withTexts(body) : undefined
  const words = status?.message ?? (typeof body === 'string' ? plainText(response) : '')
  const code = codeOf(response.status, status?.reason)
  return new KubeError(code, `${call}: ${oneLine(words === '' ? `HTTP status ${response.status}` : words)}`, {
    httpStatus: response.status,
    status,
    retryAfterMs: retryAfterMs(response.headers) ?? secondsToMs(status?.details?.retryAfterSeconds),
  })
}

/** Adds the name of the call to a KubeError of a transport. Returns any other error unchanged. */
export function named(call: CallName, error: unknown): unknown {
  if (!(error instanceof KubeError)) return error
  return new KubeError(error.code, `${call}: ${error.message}`, {
    httpStatus: error.httpStatus,
    status: error.status,
    retryAfterMs: error.retryAfterMs,
    cause: error,
  })
}

/** The object in the answer. Throws a BadResponse if the answer is not an object of this resource. */
export function asObject<T extends KubeObject>(call: CallName, resource: Resource<T>, body: unknown): T {
  if (!isRecord(body)) throw badResponse(call, `the answer is ${describe(body)}, not an object`)
  if (body.kind !== resource.kind) {
    throw badResponse(call, `the answer is of kind ${quote(body.kind)}, not ${resource.kind}`)
  }
  if (!isRecord(body.metadata)) throw badResponse(call, 'the answer has no metadata')
  const fault = metadataFault(body) ?? shapeOf(resource)?.(body)
  if (fault !== undefined) throw badResponse(call, `in the answer ${fault}`)
  return body as T
}

/**
 * The list in the answer. Throws a BadResponse if there is none. The `kind` of items is not checked, because items of
 * built-in types have none.
 */
export function asList<T extends KubeObject>(call: CallName, resource: Resource<T>, body: unknown): KubeList<T> {
  if (!isRecord(body)) throw badResponse(call, `the answer is ${describe(body)}, not a list`)
  const { items, metadata } = body
  if (!isRecord(metadata) || !isText(metadata.resourceVersion) || metadata.resourceVersion === '') {
    throw badResponse(call, 'the list has no resourceVersion')
  }
  if (!isAbsentOr(isText)(metadata.continue)) throw badResponse(call, 'the continue token of the list is not a string')
  // Go writes a nil slice as null.
  if (items === null || items === undefined) return { ...body, items: [] } as unknown as KubeList<T>
  if (!Array.isArray(items) || !items.every(isRecord)) throw badResponse(call, 'the list has no items')
  const shapeFault = shapeOf(resource)
  for (const item of items) {
    const fault = metadataFault(item)
    if (fault !== undefined) throw badResponse(call, `in an item of the list ${fault}`)
    const inItem = shapeFault?.(item)
    if (inItem !== undefined) throw badResponse(call, `in ${nameOf(item)} ${inItem}`)
  }
  return body as unknown as KubeList<T>
}

const eventTypes: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'])

/** Reads one event of a watch. Throws a BadResponse if the frame is no event; the caller adds the name of the call. */
export function asWatchEvent<T extends KubeObject>(resource: Resource<T>, frame: unknown): WatchEvent<T> {
  if (!isRecord(frame) || !eventTypes.has(frame.type) || !isRecord(frame.object)) {
    throw new KubeError('BadResponse', `a frame of the watch is ${describe(frame)}, not an event`)
  }
  if (frame.type === 'ERROR') return { type: frame.type, object: withTexts(frame.object) }
  const fault = metadataFault(frame.object)
  if (fault !== undefined) throw new KubeError('BadResponse', `in a frame of the watch ${fault}`)
  const inObject = shapeOf(resource)?.(frame.object)
  if (inObject !== undefined) throw new KubeError('BadResponse', `in ${nameOf(frame.object)} ${inObject}`)
  return frame as unknown as WatchEvent<T>
}

export function badResponse(call: CallName, message: string): KubeError {
  return new KubeError('BadResponse', `${call}: ${message}`)
}

type Fields = Readonly<Record<string, unknown>>

const isTexts = (value: unknown): boolean => isRecord(value) && Object.values(value).every(isText)

/** The types that the fields of ObjectMeta must have, if they are set. */
const metadataTypes: readonly (readonly [field: string, isRight: (value: unknown) => boolean, type: string])[] = [
  ...['name', 'namespace', 'resourceVersion', 'uid', 'generateName'].map((field) => {
    return [field, (value: unknown) => value === undefined || isText(value), 'a string'] as const
  }),
  ['creationTimestamp', isAbsentOr(isText), 'a time'],
  ['deletionTimestamp', isAbsentOr(isText), 'a time'],
  ['labels', isAbsentOr(isTexts), 'a map of strings'],
  ['annotations', isAbsentOr(isTexts), 'a map of strings'],
  ['finalizers', isAbsentOr(isListOf(isText)), 'a list of strings'],
  ['ownerReferences', isAbsentOr(isListOf(isRecord)), 'a list of objects'],
  ['managedFields', isAbsentOr(isListOf(isRecord)), 'a list of objects'],
]

/**
 * Describes the first mistake in the metadata of a received object, without quoting its value; undefined if there is
 * none. Other code relies on this check: a name becomes a key, and a name that is not a string would end the process.
 */
function metadataFault({ metadata }: Fields): string | undefined {
  if (metadata === undefined) return undefined
  if (!isRecord(metadata)) return 'metadata is not an object'
  for (const [field, isRight, type] of metadataTypes) {
    if (!isRight(metadata[field])) return `metadata.${field} is not ${type}`
  }
  return undefined
}

/** The name of an object whose metadata is valid, as a quoted text, for messages. */
function nameOf({ metadata }: Fields): string {
  const { namespace, name } = (metadata ?? {}) as ObjectMeta
  return quote([namespace, name].filter((part) => part !== undefined).join('/'))
}

/** Drops `message`, `reason` or `details` of a Status if it has a wrong type, so that the rest can be read. */
function withTexts({ details, ...body }: Fields): Status {
  const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
  const isRight = isRecord(details) && isAbsentOr(isListOf(isRecord))(details.causes)
  return { ...body, message: text(body.message), reason: text(body.reason), ...(isRight && { details }) } as Status
}

/** The body of a text/plain answer; empty for other types, such as an HTML page. */
function plainText(response: ApiResponse & { readonly body: unknown }): string {
  const type = response.headers['content-type'] ?? ''
  return type.startsWith('text/plain') ? String(response.body) : ''
}

function secondsToMs(seconds: unknown): number | undefined {
  return typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : undefined
}

function quote(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(oneLine(value, 80)) : 'unknown'
}

/** Names the type of a value, never the value, which may be another client's object. */
function describe(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'string' ? 'not JSON' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

export interface RetryPolicy {
  /** Requests in all, the first included. @default 3 */
  readonly attempts: number
  /**
   * The longest wait, in milliseconds, without jitter. It replaces a longer wait that the server asks for, because the
   * caller must notice soon that the server accepts requests again. @default 1000
   */
  readonly maxWaitMs: number
  /** The shortest wait, in milliseconds, for servers that ask for 0 s. @default 100 */
  readonly minWaitMs: number
  /** Waits are lengthened by up to this share, so that refused clients do not return at the same time. @default 0.1 */
  readonly jitter: number
}

export const defaultRetryPolicy: RetryPolicy = { attempts: 3, maxWaitMs: 1_000, minWaitMs: 100, jitter: 0.1 }

/**
 * How long to wait before the request is sent again, in milliseconds; undefined if it is not sent again. Only a 429 or
 * 503 with Retry-After is retried, because such an answer states that the server has done nothing. `attempts`: the
 * number of requests so far.
 */
export function planRetry(
  response: ApiResponse,
  attempts: number,
  policy: RetryPolicy,
  random: Random,
): number | undefined {
  if (response.status !== 429 && response.status !== 503) return undefined
  const askedMs = retryAfterMs(response.headers)
  if (askedMs === undefined || attempts >= policy.attempts) return undefined
  return Math.min(Math.max(askedMs, policy.minWaitMs), policy.maxWaitMs) * (1 + policy.jitter * random.next())
}

/** The Retry-After header in milliseconds; undefined if it is missing or a date. No API server sends a date. */
function retryAfterMs(headers: Readonly<Record<string, string>>): number | undefined {
  const text = headers['retry-after']?.trim()
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) * 1000 : undefined
}

const REMEMBERED = 1000

/** A header of 16 KiB can contain a thousand texts. */
const MOST_WARNINGS = 5

/** We write Endpoints because kube-apiserver does, and clients may still read them. So this warning is expected. */
const EXPECTED = 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice'

/**
 * The first {@link MOST_WARNINGS} texts of a Warning header (RFC 7234 section 5.5). Kubernetes sends `299 - "text"`,
 * separated by commas.
 */
function parseWarnings(header: string): string[] {
  const texts: string[] = []
  for (const match of header.matchAll(/\b299 [^\s"]+ "((?:[^"\\]|\\.)*)"/g)) {
    texts.push((match[1] ?? '').replace(/\\(.)/g, '$1'))
    if (texts.length === MOST_WARNINGS) break
  }
  return texts
}

/**
 * Logs each warning text of a server once, until {@link REMEMBERED} others have been received. The deprecation of
 * Endpoints is logged at debug.
 */
export function warnOnce(logger: Logger): (header: string | undefined) => void {
  const seen = new Set<string>()
  let last: string | undefined
  return (header) => {
    if (header === undefined || header === last) return
    last = header
    for (const warning of parseWarnings(header)) {
      if (seen.has(warning)) continue
      // A text may contain values that we sent, so there may be many texts. Forgetting all at once limits the memory.
      if (seen.size >= REMEMBERED) seen.clear()
      seen.add(warning)
      logger[warning === EXPECTED ? 'debug' : 'warn']({ warning }, 'the API server sent a warning')
    }
  }
}

export type RestMetrics = ReturnType<typeof restMetrics>

/** Metrics with client-go's names (component-base `metrics/prometheus/restclient`), but without the label `host`. */
export function restMetrics(metrics: Metrics) {
  return {
    requests: metrics.counter({
      name: 'rest_client_requests_total',
      help: 'Number of HTTP requests, partitioned by status code and method.',
      labels: ['code', 'method'],
    }),
    duration: metrics.histogram({
      name: 'rest_client_request_duration_seconds',
      help: 'Request latency in seconds, until the response (of a watch: until it begins), by method.',
      labels: ['verb'],
      buckets: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    }),
    retries: metrics.counter({
      name: 'rest_client_request_retries_total',
      help: 'Number of request retries, partitioned by status code and method.',
      labels: ['code', 'verb'],
    }),
  }
}
