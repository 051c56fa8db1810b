import { Socket } from 'node:net'
import { checkServerIdentity } from 'node:tls'
import { Agent, buildConnector, type Dispatcher, ProxyAgent } from 'undici'
import { Semaphore, type Slot } from '../runtime/semaphore.ts'
import { linkedController } from '../runtime/signals.ts'
import { answerLimits } from './answer-limits.ts'
import { KubeError } from './errors.ts'
import { HttpBytes } from './http-bytes.ts'
import { EventStream } from './http-event-stream.ts'
import { transportError } from './http-failure.ts'
import { parseJson } from './http-json-lines.ts'
import type { ApiRequest, ApiResponse, Transport } from './transport.ts'

/** How the client end of TLS is set up; PEM throughout. */
export interface ClientTls {
  /** Trusted authorities instead of the system's. */
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** The name to ask for and to find in the server certificate, where it is not the host of the URL. */
  readonly serverName?: string | undefined
  /** The certificate may be for any one of these instead, addresses in brackets if IPv6. */
  readonly serverNames?: readonly string[] | undefined
  /** Takes any server certificate. @default false */
  readonly skipVerify?: boolean | undefined
}

/** Headers that go with a request beside its own; several values make several headers. */
export type ExtraHeaders = Readonly<Record<string, string | readonly string[]>>

export interface HttpTransportOptions {
  /** `http:` or `https:`; a path in it is put before the path of each request. */
  readonly server: URL
  readonly tls?: ClientTls | undefined
  /** The URL of an HTTP proxy, with user and password if it wants them. @default none */
  readonly proxy?: URL | undefined
  /** @default 'apiserver-bootstrap' */
  readonly userAgent?: string | undefined
  /** For requests that name no time of their own, in milliseconds. @default 10000 */
  readonly timeoutMs?: number | undefined
  /** How long making one connection may take, TLS included, in milliseconds. @default 5000 */
  readonly connectTimeoutMs?: number | undefined
}

/** Of what is longer, in bytes, so many answers are read at a time. The rest of the others waits in their connections, not in memory. */
const LARGE_BYTES = 1024 * 1024
const LARGE_AT_ONCE = 2

/**
 * Carries requests to one API server over pooled HTTP/1.1 connections, under one set of TLS credentials.
 *
 * A request that took too long, or was given up, may have been on a connection that leads nowhere, and the idle ones beside it may lead
 * there too. So the requests after it go over new connections; what is under way on the old ones, watches above all, goes on.
 *
 * HTTP/1.1 and not 2: every watch then has a connection of its own, so that one lost connection ends one watch and not all, TCP
 * keep-alive finds a dead peer for each, and no limit of concurrent streams holds back the requests beside the watches.
 * Responses are not compressed, for none is asked for: between neighbours CPU is dearer than bytes. One that is compressed all the same is
 * refused, as is one that is longer than the request allows. Redirects are answers like others: no request, and no credentials, go elsewhere.
 */
export class HttpTransport implements Transport {
  readonly #origin: string
  /** The origin, and the proxy on the way to it, for messages. */
  readonly #target: string
  readonly #prefix: string
  readonly #userAgent: string
  readonly #timeoutMs: number
  readonly #connect: () => Dispatcher
  #dispatcher: Dispatcher
  #closed = false
  /** Those that take no more requests. */
  readonly #retired = new Set<Dispatcher>()
  readonly #largeAnswers = new Semaphore(LARGE_AT_ONCE)
  readonly #underWay = new Set<AbortController>()
  /** Every connection, those that are being made included. */
  readonly #sockets = new Set<Socket>()

  constructor(options: HttpTransportOptions) {
    this.#origin = options.server.origin
    this.#target =
      options.proxy === undefined ? this.#origin : `${this.#origin} by way of the proxy ${options.proxy.origin}`
    this.#prefix = options.server.pathname.replace(/\/+$/, '')
    this.#userAgent = options.userAgent ?? 'apiserver-bootstrap'
    this.#timeoutMs = options.timeoutMs ?? 10_000
    this.#connect = () => dispatcherFor(options, this.#sockets)
    this.#dispatcher = this.#connect()
  }

  async send(request: ApiRequest, signal: AbortSignal, extraHeaders: ExtraHeaders = {}): Promise<ApiResponse> {
    signal.throwIfAborted()
    const { controller, unlink } = linkedController(signal)
    this.#underWay.add(controller)
    const finish = (): void => {
      unlink()
      this.#underWay.delete(controller)
    }
    const explain = (error: unknown): unknown =>
      controller.signal.aborted ? controller.signal.reason : transportError(this.#target, error)
    const timeoutMs = request.timeoutMs ?? this.#timeoutMs
    const timer = setTimeout(() => {
      controller.abort(new KubeError('Timeout', `${this.#target}: no answer within ${timeoutMs} ms`))
    }, timeoutMs)
    const dispatcher = this.#dispatcher
    let streaming = false
    let slot: Slot | undefined
    try {
      const { statusCode, headers, body } = await this.#request(request, extraHeaders, controller.signal)
      const answer = { status: statusCode, headers: flatten(headers) }
      const succeeded = statusCode >= 200 && statusCode < 300
      const asked = request.maxBytes ?? answerLimits.object
      const maxBytes = succeeded ? asked : Math.min(asked, answerLimits.refusal)
      const refuse = (code: 'BadResponse' | 'TooLarge', words: string): never => {
        // Closes the connection: the rest is not read.
        body.on('error', () => {}).destroy()
        throw new KubeError(code, `${this.#target}: the answer to ${request.method} ${request.path} ${words}`)
      }
      const { 'content-encoding': encoding = 'identity', 'content-length': announced = '0' } = answer.headers
      if (encoding !== 'identity') refuse('BadResponse', 'is compressed, which was not asked for')
      if (request.stream === true && succeeded) {
        streaming = true
        return { ...answer, stream: new EventStream(body, { maxEventBytes: maxBytes, explain, finish }) }
      }
      if (Number(announced) > maxBytes) refuse('TooLarge', `has ${announced} bytes, more than the limit of ${maxBytes}`)
      const bytes = new HttpBytes(maxBytes, () => refuse('TooLarge', `is longer than the limit of ${maxBytes} bytes`))
      for await (const piece of body) {
        if (slot === undefined && bytes.length + piece.length > LARGE_BYTES) {
          slot = await this.#largeAnswers.acquire(controller.signal)
        }
        bytes.add(piece)
      }
      return { ...answer, body: decode(bytes.take(), answer.headers['content-type'] ?? '') }
    } catch (error) {
      if (controller.signal.aborted && dispatcher === this.#dispatcher) this.#reconnect()
      throw explain(error)
    } finally {
      slot?.release()
      clearTimeout(timer)
      if (!streaming) finish()
    }
  }

  /** Closes all connections; requests and watches under way fail as Unreachable. */
  async close(): Promise<void> {
    this.#closed = true
    // undici's own destroy does not reach the requests of an agent that is retiring, nor those whose connection is being made.
    for (const controller of this.#underWay) {
      controller.abort(new KubeError('Unreachable', `${this.#target}: the transport is closed`))
    }
    const closing = [this.#dispatcher, ...this.#retired].map((dispatcher) => dispatcher.destroy(null))
    // A connection that leads nowhere, or is still being made, would wait for its peer.
    for (const socket of this.#sockets) socket.destroy(new Error('the transport is closed'))
    await Promise.all(closing)
  }

  /** Takes no more requests and closes the connections when those under way, watches included, have ended. */
  async retire(): Promise<void> {
    this.#closed = true
    await Promise.all([this.#dispatcher, ...this.#retired].map((dispatcher) => dispatcher.close()))
  }

  /** Has the next requests go over new connections. */
  #reconnect(): void {
    if (this.#closed) return
    const dispatcher = this.#dispatcher
    this.#dispatcher = this.#connect()
    this.#retired.add(dispatcher)
    void dispatcher.close().finally(() => this.#retired.delete(dispatcher))
  }

  #request(request: ApiRequest, extraHeaders: ExtraHeaders, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const query = request.query
      .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
      .join('&')
    const sent = this.#dispatcher.request({
      origin: this.#origin,
      method: request.method,
      path: `${this.#prefix}${request.path}${query === '' ? '' : `?${query}`}`,
      headers: {
        'user-agent': this.#userAgent,
        ...request.headers,
        ...(extraHeaders as Record<string, string | string[]>),
      },
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal,
      // Time is limited by the signal: a watch may be silent for long, and undici's timers tick in half seconds.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    return untilAborted(sent, signal)
  }
}

function dispatcherFor(options: HttpTransportOptions, sockets: Set<Socket>): Dispatcher {
  const { tls = {}, proxy } = options
  // Half of the 60 s after which common balancers forget an idle connection; a server that is gone is noticed in 40 s.
  const socket = { keepAlive: true, keepAliveInitialDelay: 30_000 }
  const timeout = options.connectTimeoutMs ?? 5_000
  const requestTls = {
    ...socket,
    timeout,
    allowH2: false,
    ...(tls.ca === undefined ? {} : { ca: tls.ca }),
    ...(tls.cert === undefined ? {} : { cert: tls.cert }),
    ...(tls.key === undefined ? {} : { key: tls.key }),
    ...(tls.serverName === undefined ? {} : { servername: tls.serverName }),
    ...(tls.serverNames === undefined ? {} : { checkServerIdentity: anyOf(tls.serverNames) }),
    // Said, because else NODE_TLS_REJECT_UNAUTHORIZED decides.
    rejectUnauthorized: tls.skipVerify !== true,
  }
  const pool = {
    allowH2: false,
    pipelining: 1,
    // Each watch holds one; the bound is for concurrency that has run away.
    connections: 128,
    // Go's servers drop idle connections after 90 s and do not announce it; a longer life here would race with that.
    keepAliveTimeout: 55_000,
    headersTimeout: 0,
    bodyTimeout: 0,
  }
  if (proxy === undefined) return new Agent({ ...pool, connect: tracked(buildConnector(requestTls), sockets) })
  return new ProxyAgent({
    ...pool,
    uri: proxy.href,
    requestTls,
    proxyTls: { ...socket, timeout, rejectUnauthorized: true },
    connectTimeout: timeout,
  })
}

/** As `connector`, with its sockets in `sockets` until they are closed. */
function tracked(connector: buildConnector.connector, sockets: Set<Socket>): buildConnector.connector {
  return (options, callback) => {
    const socket: unknown = connector(options, callback)
    if (!(socket instanceof Socket)) return
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  }
}

/** Checks a server certificate against several names, and reports the last failure. */
function anyOf(names: readonly string[]): typeof checkServerIdentity {
  return (_host, certificate) => {
    let failure: Error | undefined
    for (const name of names) {
      failure = checkServerIdentity(name.replace(/^\[(.+)\]$/, '$1'), certificate)
      if (failure === undefined) return undefined
    }
    return failure
  }
}

/** As `promise`, but an abort counts at once: undici itself reacts only when the connection has been made. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

function flatten(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name.toLowerCase()] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}

function decode(bytes: Uint8Array, contentType: string): unknown {
  return /[/+]json\b/i.test(contentType) ? parseJson(bytes) : Buffer.from(bytes).toString('utf8')
}
