import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type OutgoingHttpHeaders,
} from 'node:http2'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Cancel, Clock } from '../runtime/clock.ts'
import { abortable } from '../runtime/signals.ts'
import { sharedLookup } from '../runtime/system-lookup.ts'
import type { TlsMaterial } from './connect-credentials.ts'
import { EtcdError } from './kv.ts'
import type { EtcdEndpoint } from './options.ts'

/** How long each stage may take, in milliseconds. */
export interface ConnectionTimes {
  /** From the lookup of the host name, through TCP and TLS, to the server's SETTINGS frame. */
  readonly connectMs: number
  /** While a request is unanswered, the client pings the server when nothing has arrived for this long. */
  readonly pingAfterMs: number
  /**
   * While only answered streams (watches) are open, the client pings the server when nothing has arrived for this long.
   */
  readonly silenceMs: number
  /** How long the answer to a ping may take, before {@link PONG_GRACE_MS}. */
  readonly pongMs: number
  /** The client closes a connection that has had no open stream for this long. */
  readonly idleMs: number
}

export const defaultTimes: ConnectionTimes = {
  connectMs: 2_000,
  pingAfterMs: 1_000,
  // etcd and kine close a connection whose client pings more often than every 5 s while they send nothing.
  silenceMs: 6_000,
  pongMs: 1_500,
  // Common balancers silently forget an idle connection after 60 s.
  idleMs: 55_000,
}

/**
 * A connection has one timer. It waits for the next check, for the answer to a ping, or to close an idle connection.
 */
interface Timer {
  readonly kind: 'none' | 'check' | 'pong' | 'idle'
  readonly dueMs: number
  readonly cancel: Cancel
}

/**
 * The extra wait for a ping's answer, in milliseconds: after a pause of this process the answer may have arrived
 * unread.
 */
const PONG_GRACE_MS = 200

const noTimer: Timer = { kind: 'none', dueMs: 0, cancel() {} }

/**
 * One HTTP/2 connection to one endpoint. It is open once the server's SETTINGS have arrived. No request is sent before
 * that, so a caller that fails to open a connection may use another server.
 *
 * While streams are open, pings detect a dead peer that the network does not report. While a request is unanswered,
 * that takes at most three seconds, or eight if the server has sent nothing on a stream since the last ping. In a
 * silent watch it takes at most eight seconds.
 */
export class EtcdConnection {
  /** The origin of requests, as the connect library needs it. */
  readonly authority: string
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>
  readonly #session: ClientHttp2Session
  readonly #socket: Socket
  readonly #clock: Clock
  readonly #times: ConnectionTimes
  readonly #unanswered = new Set<ClientHttp2Stream>()
  #streams = 0
  #retired = false
  #failure: unknown
  #lastReceivedMs: number
  #pingedMs = Number.NEGATIVE_INFINITY
  /** Whether the server sent anything on a stream since the last ping. If so, the server tolerates the next ping. */
  #forgiven = true
  #timer: Timer = noTimer

  private constructor(endpoint: EtcdEndpoint, tls: TlsMaterial | undefined, clock: Clock, times: ConnectionTimes) {
    this.authority = endpoint.socketPath === undefined ? new URL(endpoint.text).origin : 'http://localhost'
    this.#clock = clock
    this.#times = times
    this.#lastReceivedMs = clock.monotonicMs()
    this.#socket = openSocket(endpoint, tls)
    // Node's session hides a TLS alert after the handshake, such as the refusal of a client certificate in TLS 1.3.
    this.#socket.on('error', (error) => this.#end(error))
    this.#session = connectHttp2(this.authority, { createConnection: () => this.#socket })
    this.#session.on('error', (error) => this.#end(error))
    this.#session.once('close', () => this.#end(lost('connection closed by the server')))
    this.closed = new Promise((resolve) => this.#socket.once('close', () => resolve()))
  }

  /**
   * Rejects with the error of TCP, TLS or HTTP/2, with an EtcdError `Unreachable` after `connectMs`, or with the
   * signal's reason.
   */
  static async open(
    endpoint: EtcdEndpoint,
    tls: TlsMaterial | undefined,
    options: { readonly clock: Clock; readonly times: ConnectionTimes; readonly signal: AbortSignal },
  ): Promise<EtcdConnection> {
    const { clock, times, signal } = options
    signal.throwIfAborted()
    const connection = new EtcdConnection(endpoint, tls, clock, times)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const cancel = clock.schedule(times.connectMs, () => reject(lost(`no connection within ${times.connectMs} ms`)))
    connection.#session
      .once('remoteSettings', () => resolve())
      .once('close', () => reject(unopened(endpoint, connection.#failure)))
    try {
      await abortable(promise, signal)
    } catch (error) {
      connection.#end(error)
      throw error
    } finally {
      cancel()
    }
    connection.#rest()
    return connection
  }

  /**
   * Whether the connection accepts further requests: false once it has ended, or the server has begun to close it.
   * {@link retire} does not change this.
   */
  get usable(): boolean {
    return this.#failure === undefined && !this.#session.closed && !this.#session.destroyed
  }

  /** Why the connection ended; undefined until then. */
  get failure(): unknown {
    return this.#failure
  }

  /** Called by the connect library to open a stream. */
  async request(method: string, path: string, headers: OutgoingHttpHeaders): Promise<ClientHttp2Stream> {
    if (this.#failure !== undefined) throw this.#failure
    const stream = this.#session.request({ ...headers, ':method': method, ':path': path })
    this.#streams++
    this.#unanswered.add(stream)
    // The connect library adds its own listener a moment later. It notices an earlier error by the end of the stream.
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
    this.#check(this.#times.pingAfterMs)
    return stream
  }

  /** Called by the connect library when the server has sent something on a stream. */
  notifyResponseByteRead(): void {
    this.#lastReceivedMs = this.#clock.monotonicMs()
    this.#forgiven = true
  }

  /** Closes the connection when its last stream has ended. */
  retire(): void {
    this.#retired = true
    if (this.#streams === 0) this.#rest()
  }

  /** Closes the connection at once; its open streams fail with `reason`. Resolves when the socket is closed. */
  async close(reason: unknown): Promise<void> {
    this.#end(reason)
    await this.closed
  }

  /** Called when no stream is open. Closes the connection at once if it is retired, otherwise after `idleMs`. */
  #rest(): void {
    if (this.#failure !== undefined) return
    if (this.#retired) this.#end(lost('idle connection closed'))
    // Node itself does not close the connection if data is still to be sent when the last stream ends.
    else if (this.#session.closed) this.#end(lost('connection closed by the server'))
    else this.#arm('idle', this.#times.idleMs, () => this.#end(lost('idle connection closed')))
  }

  /**
   * Checks within `delayMs` whether the server has been silent for too long, and then pings it. While the timer of an
   * unanswered ping runs, that timer decides instead.
   */
  #check(delayMs: number): void {
    const { kind, dueMs } = this.#timer
    const nowMs = this.#clock.monotonicMs()
    if (kind === 'pong' || (kind === 'check' && dueMs > nowMs && dueMs <= nowMs + delayMs)) return
    this.#arm('check', delayMs, () => {
      if (this.#streams === 0) return
      const { pingAfterMs, silenceMs } = this.#times
      const quietMs = this.#unanswered.size > 0 ? pingAfterMs : silenceMs
      const pingMs = Math.max(this.#lastReceivedMs + quietMs, this.#pingedMs + (this.#forgiven ? 0 : silenceMs))
      const leftMs = pingMs - this.#clock.monotonicMs()
      if (leftMs <= 0) this.#ping()
      else this.#check(leftMs)
    })
  }

  #ping(): void {
    const { pongMs, pingAfterMs } = this.#times
    this.#pingedMs = this.#clock.monotonicMs()
    this.#forgiven = false
    const give = (): void => this.#end(lost('no response to a ping from the server'))
    this.#arm('pong', pongMs, () => this.#arm('pong', PONG_GRACE_MS, give))
    this.#session.ping((error: Error | null) => {
      if (error !== null || this.#failure !== undefined) return
      this.#lastReceivedMs = this.#clock.monotonicMs()
      this.#timer.cancel()
      this.#timer = noTimer
      if (this.#streams === 0) this.#rest()
      else this.#check(pingAfterMs)
    })
  }

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

/** A server that takes only TLS closes a connection without TLS, and does not say why. */
function unopened({ tls, socketPath }: EtcdEndpoint, failure: unknown): unknown {
  const isPlain = !tls && socketPath === undefined
  return isPlain && failure instanceof EtcdError
    ? lost(`${failure.message}; if it takes TLS only, use https://`)
    : failure
}

function openSocket(endpoint: EtcdEndpoint, tls: TlsMaterial | undefined): Socket {
  const { host, port, socketPath } = endpoint
  if (socketPath !== undefined) return connectTcp({ path: socketPath })
  // The delay is half of the 60 s after which common balancers forget an idle connection.
  const options = { host, port, keepAlive: true, keepAliveInitialDelay: 30_000, noDelay: true, lookup: sharedLookup }
  if (tls === undefined) return connectTcp(options)
  // An IP address is not sent as the server name, but it is verified against the certificate all the same.
  const servername = isIP(host) === 0 ? host : ''
  // `rejectUnauthorized` is set, because otherwise NODE_TLS_REJECT_UNAUTHORIZED decides.
  const verified = { secureContext: tls.context, servername, rejectUnauthorized: true }
  return connectTls({ ...options, ...verified, ALPNProtocols: ['h2'] })
}
