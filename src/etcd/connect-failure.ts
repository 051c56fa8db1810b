import { Code, ConnectError } from '@connectrpc/connect'
import { certificateFault, failureCode, shortMessage, socketReason } from '../net/host-port.ts'
import type { TlsMaterial } from './connect-credentials.ts'
import { EtcdError, type EtcdErrorCode, isEtcdError } from './kv.ts'

/** A failed attempt at one endpoint. */
export interface FailedTry {
  readonly error: EtcdError
  /**
   * Whether the request certainly had no effect, because it was not sent, or was refused before it did anything.
   * Meaningful only if `elsewhere` is true.
   */
  readonly harmless: boolean
  /** Whether another endpoint may succeed. */
  readonly elsewhere: boolean
}

/** The error of a connection that could not be opened or was lost. The code of an EtcdError is preserved. */
export function connectionError(endpoint: string, tls: TlsMaterial | undefined, error: unknown): EtcdError {
  const [code, reason] = error instanceof EtcdError ? [error.code, error.message] : reasonOf(error, tls)
  return new EtcdError(code, `etcd ${endpoint}: ${reason}`, error)
}

/**
 * A failure to open a connection: nothing was sent. Unusable certificate files (`NoCredentials`) affect all endpoints.
 */
export function openingFailure(error: EtcdError): FailedTry {
  return { error, harmless: true, elsewhere: error.code !== 'NoCredentials' }
}

/** The failure of a request on an open connection. `lost` is why the connection has ended; undefined if it is open. */
export function requestFailure(endpoint: string, lost: unknown, error: unknown): FailedTry {
  // The code that sent the request rejected an answer, for example because the server ended the watch.
  if (error instanceof EtcdError) {
    const known = new EtcdError(error.code, `etcd ${endpoint}: ${error.message}`, error)
    return { error: known, harmless: true, elsewhere: known.nature === 'away' }
  }
  const answered = error instanceof ConnectError && lost === undefined ? answerOf(error) : undefined
  if (answered !== undefined) {
    const [code, words, effect] = answered
    return {
      error: new EtcdError(code, `etcd ${endpoint}: ${words}`, error),
      harmless: effect === 'refused before',
      elsewhere: effect !== undefined,
    }
  }
  return { error: connectionError(endpoint, undefined, lost ?? error), harmless: false, elsewhere: true }
}

/**
 * One error for all tries. It has the code of the first error whose nature is not `lasting`, or else of the first
 * error.
 */
export function combined(tries: readonly FailedTry[]): EtcdError {
  const [first, ...rest] = tries.map(({ error }) => error)
  if (first === undefined) return new EtcdError('Unreachable', 'etcd: no endpoint is configured')
  if (rest.length === 0) return first
  const decisive = [first, ...rest].find((error) => error.nature !== 'lasting') ?? first
  const messages = new Set([first, ...rest].map(({ message }) => message.replace(/^etcd /, '')))
  return new EtcdError(decisive.code, `etcd ${[...messages].join('; ')}`, decisive)
}

/**
 * Adds to the message of a PermissionDenied error the permission that is missing, such as `read /registry/ranges/`:
 * etcd does not name it.
 */
export function withRight(right: string, error: unknown): unknown {
  if (!isEtcdError(error, 'PermissionDenied')) return error
  return new EtcdError(error.code, `${error.message}; this needs the permission to ${right}`, error)
}

/** The codes of the servers' error messages. The first pattern that matches decides. */
const answers: readonly (readonly [pattern: RegExp, code: EtcdErrorCode, effect?: Effect])[] = [
  [/revision has been compacted|is a future revision/, 'Compacted'],
  [/database space exceeded/, 'NoSpace'],
  [/requested lease not found/, 'LeaseNotFound'],
  [/invalid auth token|authentication failed|user name is empty/, 'Unauthenticated'],
  [/permission denied/, 'PermissionDenied'],
  [/unsupported operations in txn|not implemented by kine|is not supported$/, 'Unsupported'],
  [/request is too large|message larger than max/, 'Refused'],
  [/no leader|too many requests|unhealthy cluster|not supported for learner/, 'ServerError', 'refused before'],
  [/request timed out|server stopped|leader changed|deadline exceeded/, 'Timeout', 'effect unknown'],
  // The connect library reports these for an unreadable answer.
  [/^protocol error|larger than configured readMaxBytes/, 'ServerError', 'effect unknown'],
  [/revision of auth store is old/, 'ServerError', 'refused before'],
]

/** Whether a failed request may have had an effect. Undefined: a refusal that every endpoint would repeat. */
type Effect = 'refused before' | 'effect unknown' | undefined

const byGrpcCode: Readonly<Partial<Record<Code, readonly [EtcdErrorCode, Effect?]>>> = {
  [Code.Unauthenticated]: ['Unauthenticated'],
  [Code.PermissionDenied]: ['PermissionDenied'],
  [Code.Unimplemented]: ['Unsupported'],
  [Code.DeadlineExceeded]: ['Timeout', 'effect unknown'],
  [Code.InvalidArgument]: ['Refused'],
  [Code.NotFound]: ['Refused'],
  [Code.AlreadyExists]: ['Refused'],
  [Code.FailedPrecondition]: ['Refused'],
  [Code.OutOfRange]: ['Refused'],
}

/** The server's answer, with its code and its own words; undefined if the error is about the connection. */
function answerOf(error: ConnectError): readonly [EtcdErrorCode, string, Effect] | undefined {
  // The error of a broken stream is a ConnectError too, with Node's error as its cause or HTTP/2's code as its text.
  if (!error.isWireError && (error.cause !== undefined || /^http\/2 /.test(error.rawMessage))) return undefined
  const words = shortMessage(error.rawMessage)
  const known = answers.find(([pattern]) => pattern.test(words))
  if (known !== undefined) return [known[1], words, known[2]]
  if (error.code === Code.DeadlineExceeded) return ['Timeout', 'no answer in time', 'effect unknown']
  const [code, effect] = byGrpcCode[error.code] ?? (['ServerError', 'effect unknown'] as const)
  return [code, words, effect]
}

/** Reasons that only gRPC connections and Unix sockets have, beside those of {@link socketReason}. */
const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such socket',
  EACCES: 'permission denied for the socket',
  ERR_HTTP2_ERROR: 'the server does not speak HTTP/2 on this port',
  ERR_HTTP2_SESSION_ERROR: 'the server ended the connection with an HTTP/2 error',
  ERR_HTTP2_STREAM_CANCEL: 'connection closed by the server',
  ERR_STREAM_PREMATURE_CLOSE: 'connection closed by the server',
}

/** Why a connection could not be opened or broke: the code and a few words. */
function reasonOf(error: unknown, tls: TlsMaterial | undefined): readonly [EtcdErrorCode, string] {
  if (error instanceof ConnectError && error.cause === undefined)
    return ['Unreachable', 'connection closed by the server']
  const code = failureCode(error)
  const fault = certificateFault(code)
  if (fault !== undefined) {
    const authorities = /author|self-signed/.test(fault) && tls !== undefined ? `; ${tls.authorities}` : ''
    return ['BadCertificate', `the server certificate ${fault}${authorities}`]
  }
  const [, alert] = /ALERT_(.+)$/.exec(code) ?? []
  if (alert !== undefined && /CERT|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE/.test(alert)) {
    const certificate = tls === undefined ? '' : `; ${tls.clientCertificate}`
    return [
      'BadCertificate',
      `the server refuses the client (${alert.toLowerCase().replaceAll('_', ' ')})${certificate}`,
    ]
  }
  const known = reasons[code] ?? socketReason(code)
  // A server without TLS resets the connection of a TLS client.
  if (code === 'ECONNRESET' && tls !== undefined) return ['Unreachable', 'connection reset in the TLS handshake']
  if (known !== undefined) return ['Unreachable', known]
  return ['Unreachable', shortMessage(error)]
}
