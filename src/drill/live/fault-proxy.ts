import { once } from 'node:events'
import {
  createServer as createHttpServer,
  Agent as HttpAgent,
  type Server as HttpServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestHttp,
  type ServerResponse,
} from 'node:http'
import {
  createServer as createHttpsServer,
  Agent as HttpsAgent,
  type Server as HttpsServer,
  request as requestHttps,
} from 'node:https'
import type { Socket } from 'node:net'
import { refusedWith } from '../../apiserver/faults.ts'
import type { ObservedRequest } from '../../verify/observation.ts'
import { isMet, RequestFaults, type RequestRule, type SentRequest } from '../request-faults.ts'
import { listenAnywhere } from './tcp-proxy.ts'

/** The server behind a proxy, and the proxy's credentials. Certificates and keys are PEM. */
export interface ProxiedServer {
  /** If this URL has a path, the paths of the proxied requests already begin with that path. */
  readonly url: URL
  readonly tls?:
    | {
        readonly ca?: string | undefined
        /** The client certificate of the proxy, because a proxy cannot pass on the certificates of its own clients. */
        readonly cert?: string | undefined
        readonly key?: string | undefined
        readonly serverName?: string | undefined
        /** @default false */
        readonly skipVerify?: boolean | undefined
      }
    | undefined
}

/** Requests without this bearer token are answered with 401. */
export interface IssuedCredential {
  readonly token: string
  /** The `authorization` header that replaces the token on the way to the server. @default none */
  readonly authorization?: string | undefined
}

export interface FaultProxyOptions {
  readonly server: ProxiedServer
  /** The certificate that clients see. Without it the proxy speaks plain HTTP. */
  readonly tls?: { readonly certificate: string; readonly key: string } | undefined
  /** @default none, and every client's `authorization` is passed on unchanged */
  readonly credential?: IssuedCredential | undefined
  /** Rules that this proxy shares with a readiness endpoint. @default its own */
  readonly faults?: RequestFaults | undefined
  /** Called with each arriving request, whatever its outcome. */
  readonly onRequest?: ((request: ObservedRequest['request']) => void) | undefined
}

interface Watch {
  readonly request: SentRequest
  readonly socket: Socket
}

/**
 * A proxy in front of an API server. It listens on a port of 127.0.0.1, speaks HTTP/1.1 to both sides, and applies
 * rules ({@link RequestRule}) to single requests. It passes on bodies and headers unchanged, with these exceptions: the
 * headers `host`, `connection`, `keep-alive` and `trailer`, the token of an {@link IssuedCredential}, `accept` of
 * watches, and the events that a rule loses.
 */
export class FaultProxy {
  readonly port: number
  readonly #faults: RequestFaults
  readonly #listener: HttpServer | HttpsServer
  readonly #options: FaultProxyOptions
  readonly #agent: HttpAgent
  readonly #sockets = new Set<Socket>()
  readonly #watches = new Set<Watch>()
  readonly #timers = new Set<NodeJS.Timeout>()
  #credential: IssuedCredential | undefined

  private constructor(listener: HttpServer | HttpsServer, port: number, options: FaultProxyOptions) {
    this.port = port
    this.#listener = listener
    this.#options = options
    this.#credential = options.credential
    this.#faults = options.faults ?? new RequestFaults()
    const { ca, cert, key, serverName, skipVerify = false } = options.server.tls ?? {}
    const isSecure = options.server.url.protocol === 'https:'
    const verified = { ca, cert, key, rejectUnauthorized: !skipVerify, ...(serverName && { servername: serverName }) }
    this.#agent = isSecure ? new HttpsAgent({ keepAlive: true, ...verified }) : new HttpAgent({ keepAlive: true })
    listener.on('connection', (socket) => this.#track(socket))
    listener.on('request', (request, response) => this.#serve(request, response))
  }

  static async open(options: FaultProxyOptions): Promise<FaultProxy> {
    const { certificate: cert, key } = options.tls ?? {}
    const listener = options.tls === undefined ? createHttpServer() : createHttpsServer({ cert, key })
    // Clients decide when to close idle connections.
    listener.keepAliveTimeout = 0
    return new FaultProxy(listener, await listenAnywhere(listener), options)
  }

  /** Applies a rule until {@link lift}. One `lift` ends a rule that was applied twice. */
  apply(rule: RequestRule): void {
    this.#faults.add(rule)
    if (rule.fault.type !== 'cut-watches') return
    for (const { request, socket } of [...this.#watches]) {
      if (!isMet(rule, request)) continue
      this.#faults.countCut(rule)
      socket.destroy()
    }
  }

  /** Ends a rule. Hanging requests stay unanswered; delayed requests still arrive. */
  lift(rule: RequestRule): void {
    this.#faults.remove(rule)
  }

  /** From now on requests without this token are answered with 401. */
  issue(credential: IssuedCredential): void {
    this.#credential = credential
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#agent.destroy()
    if (!this.#listener.listening) return
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    // A `close` event follows.
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    if (!isPath(request.url)) {
      response.writeHead(400).end()
      return
    }
    const sent = this.#read(request)
    const { method, path } = sent
    this.#options.onRequest?.({ method: method as ObservedRequest['request']['method'], path })
    const { delayMs, end } = this.#faults.applyTo(sent)
    response.on('error', () => {})
    this.#after(delayMs, () => {
      if (response.destroyed || end?.type === 'hang') return
      if (end !== undefined) return answer(response, end.status, end.retryAfterMs)
      const { authorization } = request.headers
      if (this.#credential !== undefined && authorization !== `Bearer ${this.#credential.token}`) {
        return answer(response, 401)
      }
      this.#forward(request, response, sent)
    })
  }

  #read({ method = 'GET', url = '/' }: IncomingMessage): SentRequest {
    const [path = '/', query = ''] = url.split('?', 2)
    const prefix = this.#options.server.url.pathname.replace(/\/+$/, '')
    const watch = new URLSearchParams(query).get('watch')
    const isWatch = watch === 'true' || watch === '1'
    return { method, path: path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path, isWatch }
  }

  #forward(request: IncomingMessage, response: ServerResponse, sent: SentRequest): void {
    const { url } = this.#options.server
    const send = url.protocol === 'https:' ? requestHttps : requestHttp
    // With the path as a separate option, no path can name another server.
    const upstream = send(url.origin, {
      path: request.url,
      method: request.method,
      agent: this.#agent,
      // Only in JSON is each event one line.
      headers: { ...this.#headersOf(request.headers), ...(sent.isWatch && { accept: 'application/json' }) },
    })
    // The client finds the connection closed, as without a proxy.
    upstream.on('error', () => response.destroy())
    response.on('close', () => upstream.destroy())
    upstream.on('response', (answered) => {
      answered.on('error', () => response.destroy())
      answered.on('aborted', () => response.destroy())
      response.writeHead(answered.statusCode ?? 502, withoutConnection(answered.headers))
      if (!sent.isWatch || answered.statusCode !== 200) return answered.pipe(response)
      // Otherwise Node would hold the head of the answer back until the first event.
      response.flushHeaders()
      return this.#relay(answered, response, sent)
    })
    request.pipe(upstream)
  }

  /** Passes on the events of a watch, except those that a rule loses. Each event is one line. */
  #relay(answered: IncomingMessage, response: ServerResponse, sent: SentRequest): void {
    const { socket } = response
    if (socket === null) return
    const watch: Watch = { request: sent, socket }
    this.#watches.add(watch)
    const limitMs = this.#faults.watchLimitMs(sent)
    const cancel = limitMs === undefined ? undefined : this.#after(limitMs, () => socket.destroy())
    response.on('close', () => {
      this.#watches.delete(watch)
      cancel?.()
    })
    let rest = ''
    answered.setEncoding('utf8')
    answered.on('data', (text: string) => {
      const lines = `${rest}${text}`.split('\n')
      rest = lines.pop() ?? ''
      const delivered = lines.filter((line) => !this.#faults.loses(sent, frameOf(line)))
      if (delivered.length > 0) response.write(`${delivered.join('\n')}\n`)
    })
    answered.on('end', () => response.end(rest))
  }

  #headersOf(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    const { authorization } = this.#credential ?? headers
    const { authorization: _, host: __, ...others } = withoutConnection(headers)
    return { ...others, ...(authorization !== undefined && { authorization }) }
  }

  /** Does the work after `ms`, or at once for 0, but not after `close`. Returns a function that cancels the work. */
  #after(ms: number, work: () => void): () => void {
    if (ms === 0) {
      work()
      return () => {}
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      work()
    }, ms)
    this.#timers.add(timer)
    return () => {
      clearTimeout(timer)
      this.#timers.delete(timer)
    }
  }
}

/** Answers as an API server that refuses a request. */
export function answer(response: ServerResponse, status: number, retryAfterMs?: number): void {
  const seconds = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs / 1000)
  const refused = refusedWith(status, seconds)
  const text = JSON.stringify('body' in refused ? refused.body : undefined)
  response.writeHead(status, { ...refused.headers, 'content-length': Buffer.byteLength(text) }).end(text)
}

/** Whether a request's target is a path. A URL or `//HOST` could name another server. Pure. */
export function isPath(target: string | undefined): boolean {
  return /^\/(?![/\\])/.test(target ?? '')
}

/**
 * Omits the headers of a connection, because each side of a proxy has its own, and `trailer`, because Node throws for
 * announced trailers.
 */
function withoutConnection(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { connection: _, 'keep-alive': __, trailer: ___, ...others } = headers
  return others
}

function frameOf(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
