import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import type { PeerCertificate, TLSSocket } from 'node:tls'
import {
  certificateFault,
  failureCode,
  formatHostPort,
  type HostPort,
  shortMessage,
  socketReason,
} from '../net/host-port.ts'
import type { Clock } from '../runtime/clock.ts'
import { abortable } from '../runtime/signals.ts'
import { parseReadinessChecks } from './http-readiness.ts'
import { identityOfAny } from './http-transport.ts'
import { answerLimits } from './transport.ts'

/** What one API server answered at one address to GET /readyz?verbose, without credentials. */
export type ServerAnswer =
  /** No answer over TLS. `reason` is one short line. */
  | { readonly type: 'none'; readonly reason: string }
  | {
      readonly type: 'answer'
      readonly status: number
      /** The checks of /readyz that failed, if it lists them. */
      readonly failing: readonly string[]
      readonly certificate: {
        /** The rest of a sentence about the certificate, such as `has expired`. Undefined if there is no fault. */
        readonly fault: string | undefined
        /** The names and addresses for which the certificate is valid, at most 20. */
        readonly names: readonly string[]
      }
      /**
       * The server's clock, by its Date header, minus the local clock; undefined without that header. The error is at
       * most `toleranceMs`.
       */
      readonly clock: { readonly offsetMs: number; readonly toleranceMs: number } | undefined
    }

/** Asks one API server. Never rejects, except with the signal's reason. */
export type ServerProbe = (
  /** `names`: the certificate of the server is checked against them. Addresses have no brackets. */
  target: HostPort & { readonly names: readonly string[] },
  signal: AbortSignal,
) => Promise<ServerAnswer>

interface ServerProbeOptions {
  /** The authorities that must have signed the certificates, as PEM. @default any authority */
  readonly ca?: string | undefined
  readonly clock: Clock
  /** How long one server may take, in ms: longer than kube-apiserver's own checks of a hung etcd. @default 5000 */
  readonly timeoutMs?: number | undefined
}

/** A Date header has whole seconds. */
const DATE_STEP_MS = 1_000
const MAX_NAMES = 20

/**
 * A probe over TLS. It sends no credentials, because a listed address may belong to any server. It sends no server
 * name, like Pods that use the ClusterIP. It reads only the beginning of a long answer.
 */
export function serverProbe({ ca, clock, timeoutMs = 5_000 }: ServerProbeOptions): ServerProbe {
  return async ({ host, port, names }, signal) => {
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<ServerAnswer>()
    const agent = new Agent({ keepAlive: false, maxCachedSessions: 0 })
    const sentMs = { wall: clock.wallMs(), monotonic: clock.monotonicMs() }
    const where = formatHostPort({ host, port })
    const sent = request({
      agent,
      host,
      port,
      path: '/readyz?verbose',
      headers: { accept: '*/*', 'user-agent': 'apiserver-bootstrap', connection: 'close' },
      ...(ca === undefined ? {} : { ca }),
      servername: '',
      // The answer is read even if the certificate has a fault.
      rejectUnauthorized: false,
      checkServerIdentity: identityOfAny(names),
    })
    const none = (reason: string): void => resolve({ type: 'none', reason })
    const timer = setTimeout(() => none(`${where}: no answer within ${timeoutMs} ms`), timeoutMs)
    sent.on('error', (error) => none(`${where}: ${reasonOf(error)}`))
    sent.on('response', (response) => {
      const { socket, statusCode = 0, headers } = response
      const certificate = certificateOf(socket as TLSSocket, names, ca !== undefined)
      const clockOffset = offsetOf(headers.date, sentMs, clock)
      void readText(response).then((text) => {
        const failing = parseReadinessChecks(text).flatMap(({ name, ok }) => (ok ? [] : [name]))
        resolve({ type: 'answer', status: statusCode, failing, certificate, clock: clockOffset })
      })
    })
    sent.end()
    try {
      return await abortable(promise, signal)
    } finally {
      clearTimeout(timer)
      sent.destroy()
      agent.destroy()
    }
  }
}

/** Why there is no answer. OpenSSL's own error is in the message of an EPROTO. */
function reasonOf(error: Error): string {
  const [, words] = /SSL routines:[^:]*:([^:]+):/.exec(error.message) ?? []
  const code = words === undefined ? failureCode(error) : `ERR_SSL_${words.toUpperCase().replaceAll(' ', '_')}`
  return socketReason(code) ?? shortMessage(error)
}

/** The beginning of an answer, until the limit is reached or the connection breaks. */
async function readText(response: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  let length = 0
  try {
    for await (const piece of response as AsyncIterable<Buffer>) {
      pieces.push(piece)
      length += piece.length
      if (length > answerLimits.text) break
    }
  } catch {
    // A broken body is ignored, because the status has arrived and is what counts.
  }
  return Buffer.concat(pieces).toString()
}

function certificateOf(
  socket: TLSSocket,
  names: readonly string[],
  checksAuthority: boolean,
): Extract<ServerAnswer, { readonly type: 'answer' }>['certificate'] {
  const certificate = socket.getPeerCertificate()
  const own = (certificate.subjectaltname ?? '').split(', ').map((name) => name.replace(/^(?:DNS|IP Address):/, ''))
  const found = socket.authorized ? '' : String(socket.authorizationError)
  const code = checksAuthority ? found : faultOf(certificate, names)
  return {
    fault: code === '' ? undefined : (certificateFault(code) ?? `is not trusted (${code.slice(0, 80)})`),
    names: own.filter((name) => name !== '').slice(0, MAX_NAMES),
  }
}

/** Node's code for the fault of a certificate, without a check of who signed it; empty if there is no fault. */
function faultOf(certificate: PeerCertificate, names: readonly string[]): string {
  const nowMs = Date.now()
  if (Date.parse(certificate.valid_to) < nowMs) return 'CERT_HAS_EXPIRED'
  if (Date.parse(certificate.valid_from) > nowMs) return 'CERT_NOT_YET_VALID'
  return identityOfAny(names)('', certificate) === undefined ? '' : 'ERR_TLS_CERT_ALTNAME_INVALID'
}

/**
 * The difference of the clocks. The server wrote the header after the request was sent and before the answer arrived.
 */
function offsetOf(
  date: string | undefined,
  sentMs: { readonly wall: number; readonly monotonic: number },
  clock: Clock,
): { readonly offsetMs: number; readonly toleranceMs: number } | undefined {
  const atMs = Date.parse(date ?? '')
  if (Number.isNaN(atMs)) return undefined
  const tookMs = clock.monotonicMs() - sentMs.monotonic
  const toleranceMs = (tookMs + DATE_STEP_MS) / 2
  return { offsetMs: Math.round(atMs + DATE_STEP_MS / 2 - sentMs.wall - tookMs / 2), toleranceMs }
}
