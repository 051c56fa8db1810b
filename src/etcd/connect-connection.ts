import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type OutgoingHttpHeaders,
} from 'node:http2'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Cancel, Clock } from '../runtime/clock.ts'
import type { TlsMaterial } from './connect-credentials.ts'
import type { EtcdEndpoint } from './endpoint.ts'
import { EtcdError } from './kv.ts'

/** How long each stage may take, in milliseconds. */
export interface ConnectionTimes {
  /** Until the server's first HTTP/2 frame: TCP and TLS included. */
  readonly connectMs: number
  /** A request without an answer is doubted, and the server pinged, after so long. */
  readonly doubtMs: number
  /** Open streams are silent for so long before the server is pinged. */
  readonly silenceMs: number
  /** For the answer to a ping. */
  readonly pongMs: number
  /** Without a request for so long the connection is closed. */
  readonly idleMs: number
}

export const defaultTimes: ConnectionTimes = {
  connectMs: 2_000,
  doubtMs: 1_000,
  // etcd and kine end connections that ping more often than every 5 s without being sent anything.
  silenceMs: 6_000,
  pongMs: 1_500,
  // Common balancers forget a silent connection after 60 s, and say nothing.
  idleMs: 55_000,
}

/** What a connection waits for: whether the server is silent, the answer to a ping, or the end of its use. */
interface Timer {
  readonly kind: 'none' | 'check' | 'pong' | 'idle'
  readonly dueMs: number
  readonly cancel: Cancel
}

const rereadMs = 200

const noTimer: Timer = { kind: 'none', dueMs: 0, cancel() {} }

/**
 * One HTTP/2 connection to one endpoint. It is open once the server's SETTINGS have come: until then nothing was sent that could have
 * changed anything, so that whoever fails to open one may go to another server.
 *
 * While streams are open a dead peer is noticed by pings, whether or not the network says anything: within three seconds of a request
 * that stays without answer, within eight in a silent watch.
 */
export class EtcdConnection {
  /** As connect asks for it: what requests must be addressed to. */
  readonly authority: string
  /** Resolves when its socket is gone. */
  readonly closed: Promise<void>
  readonly #session: ClientHttp2Session
  readonly #socket: Socket
  readonly #clock: Clock
  readonly #times: ConnectionTimes
  readonly #unanswered = new Set<ClientHttp2Stream>()
  #streams = 0
  #retired = false
  #failure: unknown
  #heardMs: number
  #pingedMs = Number.NEGATIVE_INFINITY
  /** Whether the server sent anything on a stream since the last ping: then it forgives the next one. */
  #forgiven = true
  #timer: Timer = noTimer

  private constructor(endpoint: EtcdEndpoint, tls: TlsMaterial | undefined, clock: Clock, times: ConnectionTimes) {
    const host = isIP(endpoint.host) === 6 ? `[${endpoint.host}]` : endpoint.host
    this.authority = new URL(
      `${endpoint.tls ? 'https' : 'http'}://${host}${endpoint.port === 0 ? '' : `:${endpoint.port}`}`,
    ).origin
    this.#clock = clock
    this.#times = times
    this.#heardMs = clock.monotonicMs()
    this.#socket = openSocket(endpoint, tls)
    // A TLS alert that comes after the handshake, as a refused client certificate does in TLS 1.3, is hidden by Node's session.
    this.#socket.on('error', (error) => this.#end(error))
    this.#session = connectHttp2(this.authority, { createConnection: () => this.#socket })
    this.#session.on('error', (error) => this.#end(error))
    this.#session.once('close', () => this.#end(lost('connection closed by the server')))
    this.closed = new Promise((resolve) => this.#socket.once('close', () => resolve()))
  }

  /**
   * Opens one. Rejects with what TCP, TLS or HTTP/2 failed with, an EtcdError `Unreachable` when it takes too long, or the signal's
   * reason.
   */
  static async open(
    endpoint: EtcdEndpoint,
    tls: TlsMaterial | undefined,
    options: { readonly clock: Clock; readonly times: ConnectionTimes; readonly signal: AbortSignal },
  ): Promise<EtcdConnection> {
    const { clock, times, signal } = options
    signal.throwIfAborted()
    const connection = new EtcdConnection(endpoint, tls, clock, times)
    const session = connection.#session
    await new Promise<void>((resolve, reject) => {
      const onAbort = (): void => fail(signal.reason)
      const cancel = clock.schedule(times.connectMs, () => fail(lost(`no connection within ${times.connectMs} ms`)))
      const settle = (): void => {
        cancel()
        signal.removeEventListener('abort', onAbort)
        session.off('remoteSettings', onOpen).off('close', onClose)
      }
      const fail = (error: unknown): void => {
        settle()
        connection.#end(error)
        reject(error)
      }
      const onOpen = (): void => {
        settle()
        resolve()
      }
      const onClose = (): void => fail(connection.#failure)
      signal.addEventListener('abort', onAbort, { once: true })
      session.once('remoteSettings', onOpen).once('close', onClose)
    })
    connection.#rest()
    return connection
  }

  /** Whether it takes further requests. One that the server wants to end does not: Node closes it when the last stream has ended. */
  get usable(): boolean {
    return this.#failure === undefined && !this.#session.closed && !this.#session.destroyed
  }

  /** Why it ended; undefined while it has not. */
  get failure(): unknown {
    return this.#failure
  }

  /** For connect: opens a stream. */
  async request(method: string, path: string, headers: OutgoingHttpHeaders): Promise<ClientHttp2Stream> {
    if (this.#failure !== undefined) throw this.#failure
    const stream = this.#session.request({ ...headers, ':method': method, ':path': path })
    this.#streams++
    this.#unanswered.add(stream)
    // connect listens for errors a moment later; one that comes before is in its hands as well, as the stream has then ended.
    stream.on('error', () => {})
    stream.once('response', () => {
      this.#unanswered.delete(stream)
      this.notifyResponseByteRead()
    })
    stream.once('close', () => {
      this.#unanswered.delete(stream)
      this.#streams--
      if (this.#streams === 0) this.#rest()
    })
    this.#check(this.#times.doubtMs)
    return stream
  }

  /** For connect: the server has sent something on a stream. */
  notifyResponseByteRead(): void {
    this.#heardMs = this.#clock.monotonicMs()
    this.#forgiven = true
  }

  /** Ends it when nothing is open on it any more. */
  retire(): void {
    this.#retired = true
    if (this.#streams === 0) this.#rest()
  }

  /** Ends it at once; what is open on it fails with `reason`. Resolves when the socket is gone. */
  async close(reason: unknown): Promise<void> {
    this.#end(reason)
    await this.closed
  }

  /** Nothing is open on it: it goes by itself when that stays so. */
  #rest(): void {
    if (this.#failure !== undefined) return
    if (this.#retired) this.#end(lost('connection closed for want of use'))
    else this.#arm('idle', this.#times.idleMs, () => this.#end(lost('connection closed for want of use')))
  }

  /** Looks, in `delayMs` at the latest, whether the server is silent for too long; whoever waits for a pong knows soon anyway. */
  #check(delayMs: number): void {
    const { kind, dueMs } = this.#timer
    const nowMs = this.#clock.monotonicMs()
    if (kind === 'pong' || (kind === 'check' && dueMs > nowMs && dueMs <= nowMs + delayMs)) return
    this.#arm('check', delayMs, () => {
      if (this.#streams === 0) return
      const { doubtMs, silenceMs } = this.#times
      const quietMs = this.#unanswered.size > 0 ? doubtMs : silenceMs
      const pingMs = Math.max(this.#heardMs + quietMs, this.#pingedMs + (this.#forgiven ? 0 : silenceMs))
      const leftMs = pingMs - this.#clock.monotonicMs()
      if (leftMs <= 0) this.#ping()
      else this.#check(leftMs)
    })
  }

  #ping(): void {
    const { pongMs, doubtMs } = this.#times
    this.#pingedMs = this.#clock.monotonicMs()
    this.#forgiven = false
    const give = (): void => this.#end(lost('no sign of life from the server'))
    // Once more, shortly: after a pause of this process the answer may lie here unread.
    this.#arm('pong', pongMs, () => this.#arm('pong', rereadMs, give))
    this.#session.ping((error: Error | null) => {
      if (error !== null || this.#failure !== undefined) return
      this.#heardMs = this.#clock.monotonicMs()
      this.#timer.cancel()
      this.#timer = noTimer
      if (this.#streams === 0) this.#rest()
      else this.#check(doubtMs)
    })
  }

  /** One timer at a time. */
  #arm(kind: Timer['kind'], delayMs: number, callback: () => void): void {
    this.#timer.cancel()
    const cancel = this.#clock.schedule(delayMs, () => {
      this.#timer = noTimer
      callback()
    })
    this.#timer = { kind, dueMs: this.#clock.monotonicMs() + delayMs, cancel }
  }

  #end(reason: unknown): void {
    if (this.#failure !== undefined) return
    const error = reason instanceof Error ? reason : lost('connection closed')
    this.#failure = error
    this.#timer.cancel()
    this.#session.destroy(error)
    this.#socket.destroy()
  }
}

function lost(reason: string): EtcdError {
  return new EtcdError('Unreachable', reason)
}

function openSocket(endpoint: EtcdEndpoint, tls: TlsMaterial | undefined): Socket {
  const { host, port, socketPath } = endpoint
  if (socketPath !== undefined) return connectTcp({ path: socketPath })
  // Half of the 60 s after which common balancers forget an idle connection.
  const options = { host, port, keepAlive: true, keepAliveInitialDelay: 30_000, noDelay: true }
  if (tls === undefined) return connectTcp(options)
  // An address is no server name; it is looked for in the certificate all the same.
  const servername = isIP(host) === 0 ? host : ''
  // Said, because else NODE_TLS_REJECT_UNAUTHORIZED decides.
  const verified = { secureContext: tls.context, servername, rejectUnauthorized: true }
  return connectTls({ ...options, ...verified, ALPNProtocols: ['h2'] })
}
