import { Socket } from 'node:net'
import { checkServerIdentity, createSecureContext, type SecureContext } from 'node:tls'
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici'
import { certificateFault, failureCode, shortMessage, socketReason } from '../net/host-port.ts'
import { messageOf } from '../runtime/errors.ts'
import { Semaphore } from '../runtime/request-limit.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import { sharedLookup } from '../runtime/system-lookup.ts'
import { KubeError } from './errors.ts'
import { ByteBuffer, EventStream, type Frames, JsonLines, LengthDelimitedFrames, parseJson } from './http-streams.ts'
import { picked } from './shared-values.ts'
import { type ApiRequest, type ApiResponse, answerLimits, type Transport } from './transport.ts'

/** The TLS settings of the client; all texts are PEM. */
export interface ClientTls {
  /** Trusted authorities instead of the system's. */
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** The server name to send (SNI) and to expect in the server certificate. @default the host of the URL */
  readonly serverName?: string | undefined
  /** If set, the certificate must be valid for one of these names instead. IPv6 addresses may have brackets. */
  readonly serverNames?: readonly string[] | undefined
  /** Accepts any server certificate. @default false */
  readonly skipVerify?: boolean | undefined
}

/** Additional headers of a request; several values make several headers. */
export type ExtraHeaders = Readonly<Record<string, string | readonly string[]>>

export interface HttpTransportOptions {
  /** `http:` or `https:`; a path in it is put before the path of each request. */
  readonly server: URL
  readonly tls?: ClientTls | undefined
  /** The URL of an HTTP proxy, with user and password if it requires them. @default none */
  readonly proxy?: URL | undefined
  /** The timeout of requests that have none of their own, in milliseconds. @default 10000 */
  readonly timeoutMs?: number | undefined
  /**
   * How long opening one connection may take, TLS included, in milliseconds. Through a proxy each of three steps may
   * take that long: the connection to the proxy, the tunnel, and TLS in the tunnel. @default 5000
   */
  readonly connectTimeoutMs?: number | undefined
}

const CERTIFICATES = ['ca', 'cert', 'key'] as const
/**
 * At most {@link LARGE_AT_ONCE} answers longer than this many bytes are read at a time. Further ones wait in their
 * connections.
 */
const LARGE_BYTES = 1024 * 1024
const LARGE_AT_ONCE = 2
/**
 * A request with more informational answers (1xx) fails. Kubernetes sends none, and no limit of bytes counts them: a
 * flood would hold up everything else until the request times out.
 */
const MOST_INFORMATIONAL = 16

/**
 * Carries requests to one API server over pooled HTTP/1.1 connections, under one set of TLS credentials.
 *
 * A request that timed out or was aborted may have used a dead connection, and the idle connections may be dead too. So
 * the next requests use new connections; requests and watches on the old ones continue.
 *
 * With HTTP/1.1, unlike HTTP/2, each watch has its own connection. A lost connection ends one watch, not all. TCP
 * keep-alive finds a dead peer for each watch. No limit on concurrent streams delays the other requests. The transport
 * requests no compression, because on a short path CPU costs more than bytes. A compressed response is refused, and so
 * is a response that is longer than the request allows. Redirects are not followed, so that no request and no
 * credentials go to another server.
 */
export class HttpTransport implements Transport {
  readonly #origin: string
  /** The origin, and the proxy if there is one, for messages. */
  readonly #target: string
  readonly #prefix: string
  readonly #timeoutMs: number
  readonly #connect: () => Dispatcher
  #dispatcher: Dispatcher
  #closed = false
  /** Dispatchers that accept no more requests. */
  readonly #retired = new Set<Dispatcher>()
  readonly #largeAnswers = new Semaphore(LARGE_AT_ONCE)
  readonly #underWay = new Set<AbortController>()
  /** All connections, including those that are being opened. */
  readonly #sockets = new Set<Socket>()

  constructor(options: HttpTransportOptions) {
    this.#origin = options.server.origin
    this.#target = options.proxy === undefined ? this.#origin : `${this.#origin} via the proxy ${options.proxy.origin}`
    this.#prefix = options.server.pathname.replace(/\/+$/, '')
    this.#timeoutMs = options.timeoutMs ?? 10_000
    const certificates = picked(options.tls ?? {}, CERTIFICATES)
    let context: SecureContext | undefined
    // Made once for all connections without a proxy. Otherwise each of them would parse and store the certificates for
    // itself.
    const contextOf = (): SecureContext => (context ??= createSecureContext(certificates))
    this.#connect = () => dispatcherFor(options, contextOf, this.#sockets)
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
    const reconnect = (): void => {
      if (dispatcher === this.#dispatcher) this.#reconnect()
    }
    const { reconnectMs } = request
    const reconnectTimer = reconnectMs === undefined ? undefined : setTimeout(reconnect, reconnectMs)
    let streaming = false
    let release: (() => void) | undefined
    let bytes: ByteBuffer | undefined
    try {
      const { statusCode, headers, body } = await this.#request(request, extraHeaders, controller)
      const answer = { status: statusCode, headers: flatten(headers) }
      const succeeded = statusCode >= 200 && statusCode < 300
      const asked = request.maxBytes ?? answerLimits.object
      const maxBytes = succeeded ? asked : Math.min(asked, answerLimits.refusal)
      const refuse = (code: 'BadResponse' | 'TooLarge', words: string): never => {
        // Closes the connection without reading the rest.
        body.on('error', () => {}).destroy()
        throw new KubeError(code, `${this.#target}: the answer to ${request.method} ${request.path} ${words}`)
      }
      const { 'content-encoding': encoding = 'identity', 'content-length': announced = '0' } = answer.headers
      if (encoding !== 'identity') refuse('BadResponse', 'is compressed, but compression was not requested')
      if (request.stream === true && succeeded) {
        streaming = true
        const frames = framesOf(answer.headers['content-type'] ?? '', maxBytes, request)
        return { ...answer, stream: new EventStream(body, { frames, explain, finish }) }
      }
      if (Number(announced) > maxBytes) refuse('TooLarge', `has ${announced} bytes, more than the limit of ${maxBytes}`)
      bytes = new ByteBuffer(maxBytes, () => refuse('TooLarge', `is longer than the limit of ${maxBytes} bytes`))
      for await (const piece of body) {
        if (release === undefined && bytes.length + piece.length > LARGE_BYTES) {
          release = await this.#largeAnswers.acquire(controller.signal)
        }
        bytes.add(piece)
      }
      const decoded = bytes.take((all) => decode(all, answer.headers['content-type'] ?? '', request))
      if (statusCode === 400) refuseClearText(this.#target, decoded)
      return { ...answer, body: decoded }
    } catch (error) {
      if (controller.signal.aborted) reconnect()
      throw explain(error)
    } finally {
      bytes?.clear()
      release?.()
      clearTimeout(timer)
      clearTimeout(reconnectTimer)
      if (!streaming) finish()
    }
  }

  /** Closes all connections; running requests and watches fail as Unreachable. */
  async close(): Promise<void> {
    this.#closed = true
    // undici's own destroy reaches neither requests of a retiring agent nor requests whose connection is being opened.
    for (const controller of this.#underWay) {
      controller.abort(new KubeError('Unreachable', `${this.#target}: the transport is closed`))
    }
    const closing = [this.#dispatcher, ...this.#retired].map((dispatcher) => dispatcher.destroy(null))
    // Otherwise a dead connection, or one that is being opened, would wait for its peer.
    for (const socket of this.#sockets) socket.destroy(new Error('the transport is closed'))
    await Promise.all(closing)
  }

  /** Accepts no more requests, and closes each connection when its running requests and watches have ended. */
  async retire(): Promise<void> {
    this.#closed = true
    await Promise.all([this.#dispatcher, ...this.#retired].map((dispatcher) => dispatcher.close()))
  }

  #reconnect(): void {
    if (this.#closed) return
    const dispatcher = this.#dispatcher
    this.#dispatcher = this.#connect()
    this.#retired.add(dispatcher)
    void dispatcher.close().finally(() => this.#retired.delete(dispatcher))
  }

  /** Aborts `controller` if more than {@link MOST_INFORMATIONAL} informational answers arrive. */
  #request(
    request: ApiRequest,
    extraHeaders: ExtraHeaders,
    controller: AbortController,
  ): Promise<Dispatcher.ResponseData> {
    const { signal } = controller
    let informational = 0
    const query = request.query
      .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
      .join('&')
    const sent = this.#dispatcher.request({
      origin: this.#origin,
      method: request.method,
      path: `${this.#prefix}${request.path}${query === '' ? '' : `?${query}`}`,
      headers: {
        'user-agent': 'apiserver-bootstrap',
        ...request.headers,
        ...(extraHeaders as Record<string, string | string[]>),
      },
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal,
      // Only the signal limits the time: a watch may be silent for long, and undici's timers tick in half seconds.
      headersTimeout: 0,
      bodyTimeout: 0,
      onInfo: () => {
        if (++informational <= MOST_INFORMATIONAL) return
        const words = `more than ${MOST_INFORMATIONAL} informational answers to ${request.method} ${request.path}`
        controller.abort(new KubeError('BadResponse', `${this.#target} sent ${words}`))
      },
    })
    // undici itself reacts to an abort only when the connection has been made.
    return abortable(sent, signal)
  }
}

/**
 * `contextOf`: called for the first connection to an `https:` server without a proxy. It throws if the certificates
 * cannot be used.
 */
function dispatcherFor(
  options: HttpTransportOptions,
  contextOf: () => SecureContext,
  sockets: Set<Socket>,
): Dispatcher {
  const { tls = {}, proxy } = options
  // Common load balancers forget an idle connection after 60 s. A server that is gone is noticed in 40 s.
  const socket = { keepAlive: true, keepAliveInitialDelay: 30_000, lookup: sharedLookup }
  const timeout = options.connectTimeoutMs ?? 5_000
  const requestTls = {
    ...socket,
    timeout,
    allowH2: false,
    ...(tls.serverName === undefined ? {} : { servername: tls.serverName }),
    ...(tls.serverNames === undefined ? {} : { checkServerIdentity: identityOfAny(tls.serverNames) }),
    // Explicit, because otherwise NODE_TLS_REJECT_UNAUTHORIZED decides.
    rejectUnauthorized: tls.skipVerify !== true,
  }
  const pool = {
    allowH2: false,
    pipelining: 1,
    // Each watch holds one connection. The limit only stops runaway concurrency.
    connections: 128,
    // Go's servers close idle connections after 90 s. A request must not use one that is closing.
    keepAliveTimeout: 55_000,
    headersTimeout: 0,
    bodyTimeout: 0,
  }
  if (proxy === undefined) {
    let direct: buildConnector.connector | undefined
    const connect: buildConnector.connector = (target, callback) => {
      direct ??= buildConnector({
        ...requestTls,
        ...(target.protocol === 'https:' && { secureContext: contextOf() }),
      })
      return direct(target, callback)
    }
    return new Agent({ ...pool, connect: tracked(connect, sockets) })
  }
  const open = (origin: string | URL, { connect, ...given }: Pool.Options): Dispatcher =>
    new Pool(origin, { ...given, ...(typeof connect === 'function' && { connect: tracked(connect, sockets) }) })
  return new ProxyAgent({
    ...pool,
    uri: proxy.href,
    requestTls: { ...requestTls, ...picked(tls, CERTIFICATES) },
    proxyTls: { ...socket, timeout, allowH2: false, rejectUnauthorized: true },
    connectTimeout: timeout,
    // Opens the connections for a server without TLS, and the tunnels.
    factory: open,
    // Opens the connections to the proxy for tunnels. A tunnel belongs to no particular request, so no request's
    // timeout limits its opening.
    clientFactory: (origin, given) => open(origin, { ...given, allowH2: false, headersTimeout: timeout }),
  })
}

/** A connector that does what `connector` does, and adds each socket to `sockets` until the socket is closed. */
function tracked(connector: buildConnector.connector, sockets: Set<Socket>): buildConnector.connector {
  return (options, callback) => {
    const socket: unknown = connector(options, callback)
    if (!(socket instanceof Socket)) return
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  }
}

/** Checks a server certificate against several names, one of which must match. IP addresses may have brackets. */
export function identityOfAny(names: readonly string[]): typeof checkServerIdentity {
  return (_host, certificate) => {
    let failure: Error | undefined
    for (const name of names) {
      failure = checkServerIdentity(name.replace(/^\[(.+)\]$/, '$1'), certificate)
      if (failure === undefined) return undefined
    }
    return failure
  }
}

function flatten(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name.toLowerCase()] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}

function decode(bytes: Uint8Array, contentType: string, { dropsManagedFields, protobuf }: ApiRequest): unknown {
  if (protobuf !== undefined && isProtobuf(contentType)) return readProtobuf(() => protobuf.answer(bytes))
  return /[/+]json\b/i.test(contentType) ? parseJson(bytes, dropsManagedFields) : Buffer.from(bytes).toString('utf8')
}

function framesOf(contentType: string, maxBytes: number, { protobuf }: ApiRequest): Frames {
  return protobuf !== undefined && isProtobuf(contentType)
    ? new LengthDelimitedFrames(maxBytes, (bytes) => readProtobuf(() => protobuf.event(bytes)))
    : new JsonLines(maxBytes)
}

function isProtobuf(contentType: string): boolean {
  return /^application\/vnd\.kubernetes\.protobuf\s*(;|$)/i.test(contentType)
}

function readProtobuf(read: () => unknown): unknown {
  try {
    return read()
  } catch (cause) {
    throw new KubeError('BadResponse', messageOf(cause), { cause })
  }
}

/**
 * Throws for the answer of Go's TLS servers to a client without TLS. Go's library sends that answer; the API server
 * itself never receives the request.
 */
function refuseClearText(target: string, body: unknown): void {
  const sentence = 'Client sent an HTTP request to an HTTPS server.'
  if (typeof body !== 'string' || body.trim() !== sentence) return
  throw new KubeError('Unreachable', `${target} accepts only https ("${sentence}"): use https:// in the kubeconfig`)
}

const reasons: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'connecting took too long',
  UND_ERR_SOCKET: 'connection closed by the server',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection closed in the middle of the answer',
  UND_ERR_PRX_CONN: 'connection closed by the proxy',
  UND_ERR_HEADERS_TIMEOUT: 'the proxy opened no tunnel in time',
  UND_ERR_PRX_TLS: 'the certificate of the proxy is for another name',
  UND_ERR_DESTROYED: 'the transport is closed',
  UND_ERR_CLOSED: 'the transport is closed',
  EPROTO: 'the TLS handshake failed',
}

/** The KubeError for an error of undici, TLS or the network. A KubeError is returned unchanged. */
function transportError(target: string, error: unknown): KubeError {
  if (error instanceof KubeError) return error
  const code = failureCode(error)
  if (error instanceof Error && error.name === 'HTTPParserError') {
    return new KubeError('BadResponse', `${target} did not send a valid HTTP response`, { cause: error })
  }
  if (code === 'UND_ERR_HEADERS_OVERFLOW') {
    return new KubeError('BadResponse', `${target} sent headers that are too long`, { cause: error })
  }
  return new KubeError('Unreachable', `${target}: ${reasonOf(code, error)}`, { cause: error })
}

function reasonOf(code: string, error: unknown): string {
  const fault = certificateFault(code)
  if (fault !== undefined) return `the server certificate ${fault}`
  const known = reasons[code] ?? socketReason(code)
  if (known !== undefined) return known
  const message = shortMessage(error)
  const [, refusedBy] = /^Proxy response \((\d+)\)/.exec(message) ?? []
  return refusedBy === undefined ? message : `the proxy refused with HTTP status ${refusedBy}`
}
