import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { KubeError } from '../kube/errors.ts'
import { isRecord } from '../kube/resources.ts'
import type { ApiRequest, ApiResponse, Transport } from '../kube/transport.ts'
import { formatHostPort } from '../net/host-port.ts'
import { closeServer, listen, oneAtATime, openConnections } from '../telemetry/http-bounded-server.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { KeyPair } from './http-certificate.ts'
import { readRequestBody } from './http-request-body.ts'
import { OPENAPI_V2_PATH } from './open-api.ts'
import { flag } from './query.ts'
import { answerOf, internalError, notAcceptable, Refusal, tooManyRequests, unauthorized } from './refusal.ts'
import type { WatchEvent } from './watch.ts'

/**
 * The limits of an embedded API server that listens. Counts are for all clients together; times are in milliseconds.
 */
export type ApiServerLimits = { readonly [limit in keyof typeof defaultLimits]: number }

const defaultLimits = {
  /** Open connections; a further one is closed. */
  connections: 2000,
  /**
   * Requests that are being read or answered, as kube-apiserver's --max-requests-inflight; a further one gets 429. Open
   * watches do not count.
   */
  requests: 400,
  /** Open watches; a further one gets 429. */
  watches: 1000,
  /**
   * For each of these: the TLS handshake, the wait for the first byte of a connection, the headers from their first
   * byte on.
   */
  headersMs: 10_000,
  /** From the first byte of a request until its last byte has arrived. */
  requestMs: 30_000,
  /** For a client to take what was written to it; a slower client is disconnected. */
  answerMs: 30_000,
  /** For running requests to end when the server closes. */
  closeMs: 1000,
} as const

export interface ApiServingOptions {
  /** Answers the requests: an embedded server, perhaps with injected faults. */
  readonly send: Transport['send']
  /** An address of this machine, or a name of such an address. */
  readonly host: string
  /** 0 selects a free port. */
  readonly port: number
  readonly tls: KeyPair
  /** The bearer token that clients must send. */
  readonly token: string
  readonly limits?: Partial<ApiServerLimits> | undefined
  readonly logger: Logger
}

export interface ApiServing {
  /** `https://HOST:PORT` */
  readonly url: string
  /** The port in use, even if 0 was requested. */
  readonly port: number
  /**
   * Accepts no more connections and ends all watches, as kube-apiserver does when it shuts down. Ends each connection
   * after the answer to its running request; after `closeMs`, cuts those that are still open. Resolves when no
   * connection is open.
   */
  close(): Promise<void>
}

/**
 * Serves an embedded API server over HTTP/1.1 with TLS. Checks the token, enforces the limits, and reads the bodies;
 * `send` answers the requests. The paths of health and version are public, all others need the token. Clients that
 * pipeline requests are disconnected.
 * @throws ListenError; TypeError for invalid limits
 */
export async function serveApi(options: ApiServingOptions): Promise<ApiServing> {
  const { host, port, tls } = options
  const limits = limitsOf(options.limits ?? {})
  const serverOptions = {
    // Node requires that `headersTimeout` is no longer than `requestTimeout`.
    headersTimeout: Math.min(limits.headersMs, limits.requestMs),
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: 1000,
    handshakeTimeout: limits.headersMs,
    cert: tls.certificate,
    key: tls.key,
  }
  const closing = new AbortController()
  const frontend = new HttpFrontend(options, limits, closing.signal)
  const respond = oneAtATime((request, response) => void frontend.respond(request, response))
  const server = createServer(serverOptions, respond)
  server.maxConnections = limits.connections
  const connections = openConnections(server)
  const { port: usedPort } = await listen(server, host, port, options.logger)
  return {
    url: `https://${formatHostPort({ host, port: usedPort })}`,
    port: usedPort,
    close() {
      closing.abort(new Error('the API server is closing'))
      return closeServer(server, connections, limits.closeMs)
    },
  }
}

/** The limits, with the defaults of those that are missing or undefined. @throws TypeError */
function limitsOf(given: Partial<ApiServerLimits>): ApiServerLimits {
  const set = Object.entries(given).filter(([, limit]) => limit !== undefined)
  for (const [name, limit] of set) {
    if (!Object.hasOwn(defaultLimits, name)) {
      throw new TypeError(`limits contains ${name}; known limits: ${Object.keys(defaultLimits).join(', ')}`)
    }
    if (!(typeof limit === 'number' && limit >= 0)) throw new TypeError(`limits.${name} must be a number of at least 0`)
  }
  return { ...defaultLimits, ...Object.fromEntries(set) }
}

class HttpFrontend {
  readonly #options: ApiServingOptions
  readonly #limits: ApiServerLimits
  readonly #closing: AbortSignal
  readonly #tokenHash: Buffer
  #requests = 0
  #watches = 0
  /** The latest event that any watch has sent, with its line of JSON. */
  #newest: (WatchEvent & { readonly line: Buffer }) | undefined

  constructor(options: ApiServingOptions, limits: ApiServerLimits, closing: AbortSignal) {
    this.#options = options
    this.#limits = limits
    this.#closing = closing
    this.#tokenHash = hashOf(options.token)
  }

  /** Never rejects. */
  async respond(message: IncomingMessage, response: ServerResponse): Promise<void> {
    // A client that disconnects before it has its answer is no error of this server.
    message.on('error', () => {})
    response.on('error', () => {})
    const gone = new AbortController()
    response.once('close', () => gone.abort(new Error('the client closed the connection')))
    // An answer that began before this server closes has no `connection: close`.
    response.once('finish', () => {
      if (this.#closing.aborted) message.socket.destroySoon()
    })
    this.#requests++
    let isCounted = true
    const release = (): void => {
      if (isCounted) this.#requests--
      isCounted = false
    }
    try {
      const answer = await this.#answer(message, gone.signal)
      if ('stream' in answer) {
        release()
        await this.#sendStream(response, answer, gone)
      } else await this.#send(message, response, answer)
    } catch (error) {
      await this.#fail(message, response, error, gone.signal)
    } finally {
      release()
    }
  }

  async #fail(message: IncomingMessage, response: ServerResponse, error: unknown, gone: AbortSignal): Promise<void> {
    if (error instanceof Refusal && !response.headersSent) {
      await this.#send(message, response, answerOf(error))
      return
    }
    // The client has disconnected, or an injected fault cuts the connection.
    const isCut = gone.aborted || error instanceof KubeError
    if (!isCut) this.#options.logger.error({ error, path: message.url }, 'a request failed')
    if (isCut || response.headersSent) message.socket.destroy()
    else await this.#send(message, response, answerOf(internalError('an internal error; see the log')))
  }

  /** @throws Refusal */
  async #answer(message: IncomingMessage, signal: AbortSignal): Promise<ApiResponse> {
    const { method = 'GET', url = '/', headers } = message
    const [path = '/'] = url.split('?', 1)
    if (!this.#isAllowed(path, headers.authorization)) throw unauthorized()
    if (this.#requests > this.#limits.requests) throw tooManyRequests()
    if (path !== OPENAPI_V2_PATH && !acceptsJson(headers.accept)) throw notAcceptable()
    // Clients without the token may request public paths, but must not occupy this server with bodies.
    const body = publicPaths.has(path) ? undefined : await readRequestBody(message)
    const query = [...new URLSearchParams(url.slice(path.length + 1))]
    const request: ApiRequest = {
      method: method as ApiRequest['method'],
      path,
      query,
      ...(flag(query, 'watch') === true ? { stream: true } : {}),
      headers: singleHeaders(headers),
      ...(body === undefined ? {} : { body }),
    }
    return this.#options.send(request, signal)
  }

  #isAllowed(path: string, authorization: string | undefined): boolean {
    if (publicPaths.has(path)) return true
    const [, token] = /^Bearer +(.+)$/i.exec(authorization ?? '') ?? []
    return token !== undefined && timingSafeEqual(hashOf(token), this.#tokenHash)
  }

  /** While this server closes, every answer ends its connection, because the server waits for open ones. */
  #headersOf(headers: ApiResponse['headers']): Record<string, string> {
    return { ...commonHeaders, ...bytesOf(headers), ...(this.#closing.aborted && { connection: 'close' }) }
  }

  async #send(
    message: IncomingMessage,
    response: ServerResponse,
    { status, headers, body }: Extract<ApiResponse, { body: unknown }>,
  ): Promise<void> {
    if (response.destroyed || response.headersSent) return
    const longMember = longMemberOf(body)
    if (longMember !== undefined && message.method !== 'HEAD') {
      response.writeHead(status, this.#headersOf(headers))
      await this.#sendParts(response, partsOf(body, longMember))
      return
    }
    // The body is sent as bytes. With a string, Node would encode the headers as UTF-8 again, after `bytesOf` did.
    const bytes = Buffer.from(typeof body === 'string' ? body : `${JSON.stringify(body)}\n`)
    response.writeHead(status, {
      ...this.#headersOf(headers),
      'content-length': bytes.length,
      // If the body was not read to its end, nothing reads the rest, so no further request can use the connection.
      ...(message.complete ? {} : { connection: 'close' }),
    })
    if (message.method === 'HEAD') response.end()
    else response.end(bytes)
    await sent(response, this.#limits.answerMs)
  }

  /**
   * Makes and writes one part after the other, and waits for the client while the write buffer is full. So a long
   * answer neither fills the memory nor delays other answers.
   */
  async #sendParts(response: ServerResponse, parts: Iterable<Buffer>): Promise<void> {
    for (const part of parts) {
      if (!response.write(part)) await sent(response, this.#limits.answerMs)
      if (response.destroyed) return
    }
    response.end()
    await sent(response, this.#limits.answerMs)
  }

  /** Sends events until the watch ends, the client disconnects or this server closes. */
  async #sendStream(
    response: ServerResponse,
    answer: Extract<ApiResponse, { stream: unknown }>,
    gone: AbortController,
  ): Promise<void> {
    if (this.#watches >= this.#limits.watches) {
      await answer.stream[Symbol.asyncIterator]().return?.()
      throw tooManyRequests()
    }
    this.#watches++
    const end = (): void => gone.abort(this.#closing.reason)
    if (this.#closing.aborted) end()
    else this.#closing.addEventListener('abort', end, { once: true })
    try {
      response.writeHead(answer.status, this.#headersOf(answer.headers))
      response.flushHeaders()
      for await (const event of answer.stream) {
        if (!response.write(this.#lineOf(event as WatchEvent))) await sent(response, this.#limits.answerMs)
        if (response.destroyed) return
      }
    } catch (error) {
      if (!this.#closing.aborted) throw error
    } finally {
      this.#closing.removeEventListener('abort', end)
      this.#watches--
    }
    response.end()
  }

  /**
   * The line of JSON of an event. Watches of the same objects usually send a change right after one another, so one
   * cached line serves them all. The cached line stays valid, because stored objects are frozen.
   */
  #lineOf({ type, object }: WatchEvent): Buffer {
    if (this.#newest?.type !== type || this.#newest.object !== object) {
      this.#newest = { type, object, line: Buffer.from(`${jsonLine({ type, object })}\n`) }
    }
    return this.#newest.line
  }
}

/** Served without a token, as kube-apiserver's ClusterRole system:public-info-viewer allows. */
const publicPaths: ReadonlySet<string> = new Set(['/healthz', '/livez', '/readyz', '/version'])

const commonHeaders = { 'cache-control': 'no-cache, private', 'x-content-type-options': 'nosniff' }

/** Encodes headers as UTF-8, one character per byte: Node refuses characters beyond Latin-1. */
function bytesOf(headers: ApiResponse['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Buffer.from(value, 'utf8').toString('latin1')]),
  )
}

/** How many items are sent at once: few enough that the JSON of the largest objects fits in one string. */
const ITEMS_IN_PART = 20

/** The members that hold the objects of a list and the rows of a Table. */
const longMembers = ['items', 'rows']

/**
 * The member of the body (`items` or `rows`) that has more than {@link ITEMS_IN_PART} entries, so that the body is sent
 * in parts; undefined if neither has.
 */
function longMemberOf(body: unknown): string | undefined {
  if (!isRecord(body)) return undefined
  return longMembers.find((name) => {
    const { [name]: items } = body
    return Array.isArray(items) && items.length > ITEMS_IN_PART
  })
}

/**
 * The JSON of a body in parts. Joined, they are the JSON of the body with the member `name` last. The items of a part
 * are converted to text only when that part is requested.
 */
function* partsOf(body: unknown, name: string): Generator<Buffer, void, undefined> {
  const { [name]: items = [], ...rest } = body as Readonly<Record<string, readonly unknown[]>>
  yield Buffer.from(JSON.stringify({ ...rest, [name]: [] }).slice(0, -'[]}'.length))
  for (let from = 0; from < items.length; from += ITEMS_IN_PART) {
    // Edits the brackets in the bytes, because slicing a long text costs more than encoding it.
    const bytes = Buffer.from(JSON.stringify(items.slice(from, from + ITEMS_IN_PART)))
    if (from > 0) bytes.write(',')
    yield bytes.subarray(0, -1)
  }
  yield Buffer.from(']}\n')
}

/**
 * Resolves when Node's write buffer is empty or the connection is closed. If that takes longer than `withinMs`,
 * disconnects the client.
 */
async function sent(response: ServerResponse, withinMs: number): Promise<void> {
  if (response.destroyed || response.writableFinished) return
  const timeout = setTimeout(() => response.destroy(), withinMs)
  const done = new AbortController()
  try {
    const event = response.writableEnded ? 'finish' : 'drain'
    await Promise.race([once(response, event, done), once(response, 'close', done)])
  } catch {
    // The connection broke. The next write finds it destroyed.
  } finally {
    done.abort()
    clearTimeout(timeout)
  }
}

/** JSON on one line, even for readers that treat U+2028 and U+2029 as line ends, as client-node does. */
function jsonLine(value: unknown): string {
  return JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
}

/**
 * Whether a client accepts this server's answers: JSON, or text for health and metrics. A client that names no type, or
 * accepts any, is served; a client that reads only protobuf gets 406. For the OpenAPI v2 document, `openApiV2` checks
 * this instead.
 */
function acceptsJson(accept: string | undefined): boolean {
  return accept === undefined || accept === '' || /application\/(?:json|\*)|\*\/\*|text\/(?:plain|html)/.test(accept)
}

function singleHeaders(headers: IncomingMessage['headers']): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  )
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
