import { type FailureNature, RemoteError } from '../runtime/errors.ts'
import type { Status } from './api.ts'

/** What a failed call means for its caller. The table is in docs/errors.md. */
export type KubeErrorCode =
  | 'NotFound'
  | 'AlreadyExists'
  | 'Conflict'
  /** The resourceVersion is too old for a watch or a continued list: list again. */
  | 'Expired'
  | 'Invalid'
  | 'BadRequest'
  | 'Unauthorized'
  | 'Forbidden'
  | 'TooManyRequests'
  /** The server failed (5xx): try again later; a write may or may not have happened. */
  | 'ServerError'
  /** The server did not answer in time; a write may or may not have happened. */
  | 'Timeout'
  /** The server cannot be reached, or the connection broke; a write may or may not have happened. */
  | 'Unreachable'
  /** Credentials are not available (token file, exec plugin). */
  | 'NoCredentials'
  /** The answer is not what the protocol allows: not JSON, cut off, of another kind. */
  | 'BadResponse'
  /** The answer exceeds the limit for its kind (`answerLimits` in transport.ts): request less. */
  | 'TooLarge'
  /** Any other refusal (405, 415, …). */
  | 'Refused'

const natures: Readonly<Partial<Record<KubeErrorCode, FailureNature>>> = {
  Conflict: 'conflict',
  NotFound: 'passing',
  Invalid: 'passing',
  Unauthorized: 'lasting',
  Forbidden: 'lasting',
  BadRequest: 'lasting',
  Refused: 'lasting',
}

/**
 * A call to the API server that failed. The message contains no credentials, and of object contents only what the
 * server quotes in its refusal.
 */
export class KubeError extends RemoteError {
  override readonly name = 'KubeError'
  readonly code: KubeErrorCode
  /** The HTTP status, 0 if there was none. */
  readonly httpStatus: number
  /** The server's own explanation, if it sent one. */
  readonly status: Status | undefined
  /** How long the server asked the client to wait, in milliseconds; undefined if it did not ask. */
  readonly retryAfterMs: number | undefined

  constructor(
    code: KubeErrorCode,
    message: string,
    details: {
      readonly httpStatus?: number
      readonly status?: Status | undefined
      readonly retryAfterMs?: number | undefined
      readonly cause?: unknown
    } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.httpStatus = details.httpStatus ?? 0
    this.status = details.status
    this.retryAfterMs = details.retryAfterMs
  }

  get nature(): FailureNature {
    return natures[this.code] ?? 'away'
  }
}

/** Whether `error` is a KubeError with one of these codes, or with any code if none is given. */
export function isKubeError(error: unknown, ...codes: readonly KubeErrorCode[]): error is KubeError {
  return error instanceof KubeError && (codes.length === 0 || codes.includes(error.code))
}

/** Whether the server is out of reach or too busy. Callers then record no Event: `Availability` logs such failures. */
export function isAwayOrBusy(error: unknown): boolean {
  return isKubeError(error, 'Unreachable', 'TooManyRequests')
}

/** Whether a server will probably refuse the same write again. A ValidatingAdmissionPolicy also answers `Invalid`. */
export function isDenied(error: unknown): boolean {
  return isKubeError(error, 'Invalid') || (error instanceof RemoteError && error.nature === 'lasting')
}

/** Whether a server refused to create an object because its namespace is being deleted. */
export function isNamespaceTerminating(error: unknown): boolean {
  if (!isKubeError(error, 'Forbidden')) return false
  return error.status?.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating') ?? false
}

/** Resolves with the answer, or with undefined if the server answers `NotFound`. */
export function ifFound<T>(answer: Promise<T>): Promise<T | undefined> {
  return unless('NotFound', answer)
}

/** Resolves with the created object, or with undefined if the server answers `AlreadyExists`. */
export function ifNew<T>(created: Promise<T>): Promise<T | undefined> {
  return unless('AlreadyExists', created)
}

async function unless<T>(code: KubeErrorCode, answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isKubeError(error, code)) return undefined
    throw error
  }
}

const codes: Readonly<Partial<Record<number, KubeErrorCode>>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Expired',
  422: 'Invalid',
  429: 'TooManyRequests',
}

/** The code for an HTTP answer outside 2xx, from its status and the reason in its Status body. */
export function codeOf(httpStatus: number, reason: string | undefined): KubeErrorCode {
  if (httpStatus === 409 && reason === 'AlreadyExists') return 'AlreadyExists'
  return codes[httpStatus] ?? (httpStatus >= 500 ? 'ServerError' : 'Refused')
}
