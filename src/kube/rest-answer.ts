import type { Status, WatchEvent } from './api.ts'
import { codeOf, KubeError } from './errors.ts'
import type { KubeList, KubeObject } from './json.ts'
import type { Resource } from './resources.ts'
import { retryAfterMs } from './rest-retry.ts'
import type { ApiResponse } from './transport.ts'

/** What was asked, in the words of an error message: `update services default/kubernetes`. */
export type CallName = string

const longestMessage = 500

/** One printable line of at most 500 characters. */
export function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
  const line = text.replace(/[\s\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim()
  return line.length > longestMessage ? `${line.slice(0, longestMessage)}…` : line
}

/** The error for an answer outside 2xx. */
export function refusal(call: CallName, response: ApiResponse & { readonly body: unknown }): KubeError {
  const status = asStatus(response.body)
  const words = status?.message ?? (typeof response.body === 'string' ? plainText(response) : '')
  const code = codeOf(response.status, status?.reason)
  return new KubeError(code, `${call}: ${oneLine(words === '' ? `HTTP status ${response.status}` : words)}`, {
    httpStatus: response.status,
    status,
    retryAfterMs: retryAfterMs(response.headers) ?? secondsToMs(status?.details?.retryAfterSeconds),
  })
}

/** A transport's error, said of this call. */
export function failure(call: CallName, error: KubeError): KubeError {
  return new KubeError(error.code, `${call}: ${error.message}`, {
    httpStatus: error.httpStatus,
    status: error.status,
    retryAfterMs: error.retryAfterMs,
    cause: error,
  })
}

/** The one object of the answer, or a BadResponse. */
export function asObject<T extends KubeObject>(call: CallName, resource: Resource<T>, body: unknown): T {
  if (!isRecord(body)) throw badResponse(call, `the answer is ${describe(body)}, not an object`)
  if (body.kind !== resource.kind) {
    throw badResponse(call, `the answer is of kind ${quote(body.kind)}, not ${resource.kind}`)
  }
  if (!isRecord(body.metadata)) throw badResponse(call, 'the answer has no metadata')
  return body as T
}

/** The list of the answer, or a BadResponse. Items are as the server sent them: those of built-in kinds have no kind. */
export function asList<T extends KubeObject>(call: CallName, body: unknown): KubeList<T> {
  if (!isRecord(body)) throw badResponse(call, `the answer is ${describe(body)}, not a list`)
  const { items, metadata } = body
  if (!isRecord(metadata) || typeof metadata.resourceVersion !== 'string') {
    throw badResponse(call, 'the list has no resourceVersion')
  }
  // Go writes an empty slice that was never made as null.
  if (items === null || items === undefined) return { ...body, items: [] } as unknown as KubeList<T>
  if (!Array.isArray(items) || !items.every(isRecord)) throw badResponse(call, 'the list has no items')
  return body as unknown as KubeList<T>
}

const eventTypes: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'])

/** One frame of a watch, or a BadResponse that does not name the call yet. */
export function asWatchEvent<T extends KubeObject>(frame: unknown): WatchEvent<T> {
  if (!isRecord(frame) || !eventTypes.has(frame.type) || !isRecord(frame.object)) {
    throw new KubeError('BadResponse', `a frame of the watch is ${describe(frame)}, not an event`)
  }
  return frame as unknown as WatchEvent<T>
}

export function badResponse(call: CallName, message: string): KubeError {
  return new KubeError('BadResponse', `${call}: ${message}`)
}

function asStatus(body: unknown): Status | undefined {
  if (!isRecord(body) || body.kind !== 'Status') return undefined
  // A Status of the wrong shape must not break the reading of the refusal that carries it.
  const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
  return { ...body, message: text(body.message), reason: text(body.reason) } as Status
}

/** The text of an answer that is not JSON, if it was meant for people and is not a page. */
function plainText(response: ApiResponse & { readonly body: unknown }): string {
  const type = response.headers['content-type'] ?? ''
  return type.startsWith('text/plain') ? String(response.body) : ''
}

function secondsToMs(seconds: unknown): number | undefined {
  return typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : undefined
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function quote(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(oneLine(value).slice(0, 80)) : 'unknown'
}

/** Names what kind of value it is, never the value: it may be an object of somebody else. */
function describe(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'string' ? 'not JSON' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
