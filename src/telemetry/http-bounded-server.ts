import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { ExpiryReporter } from './expiry.ts'
import {
  followServingCertificate,
  readServingCertificate,
  type ServingCertificate,
  type ServingCertificateFiles,
} from './http-serving-certificate.ts'
import type { Logger } from './logger.ts'

/** `node:http` is not imported, because an import also loads Node's fetch and WebSocket: 50 ms and 9 MiB. */
export const { createServer } = process.getBuiltinModule('node:http')

/** The limits of a public port. Times are in milliseconds. */
export const serverLimits = {
  /**
   * Open connections of all clients together. A further one closes the oldest, so that idle connections block nobody.
   */
  connections: 100,
  /** Bytes of a request's line and headers together; longer ones are answered with 431. */
  headerBytes: 16_384,
  /** From the opening of a connection, or the first byte of a later request, to the last header. */
  headersMs: 5000,
  /** From the same moment as for `headersMs` to the last byte of the request. */
  requestMs: 10_000,
  /** From the opening of a connection to the end of its TLS handshake. */
  handshakeMs: 5000,
  /** For a client to receive an answer. */
  answerMs: 10_000,
  /** Between an answer and the next request. */
  keepAliveMs: 5000,
  /** For running requests to end when the server closes. */
  closeMs: 1000,
} as const

/**
 * How many bytes the parser gets at a time. The first slice is small, so that few pipelined requests are parsed
 * ({@link parseInSlices}). Later slices are larger, because long headers in many small pieces are slow.
 */
const SLICE_BYTES = { first: 1024, most: 4096 } as const

export interface BoundedServerOptions {
  /** An address of this machine, or a name for one. */
  readonly host: string
  /** 0 selects a free port. */
  readonly port: number
  /** Serve HTTPS with these PEM files, which are read again when they change. @default plain HTTP */
  readonly tls?: ServingCertificateFiles | undefined
  /** Called at each reading of the files with the lifetimes of the certificates in use. @default none */
  readonly onExpiry?: ExpiryReporter | undefined
  /** A rejection is logged and answered with 500. */
  readonly respond: (request: IncomingMessage) => Promise<HttpAnswer | HttpStream>
  readonly logger: Logger
}

/** A complete answer; a HEAD request gets it without its body. */
export interface HttpAnswer {
  readonly status: number
  readonly contentType: string
  readonly body: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

export function textAnswer(status: number, body: string): HttpAnswer {
  return { status, contentType: 'text/plain; charset=utf-8', body }
}

/** An answer that does not end by itself, such as server-sent events. */
export interface HttpStream {
  /**
   * Writes the answer, and ends it when the server closes: otherwise the server cuts the answer off after a second.
   * Must not throw.
   */
  stream(response: ServerResponse): void
}

export interface BoundedServer {
  /** The port in use, even if 0 was requested. */
  readonly port: number
  /** `HOST:PORT`, an IPv6 host in brackets. */
  readonly address: string
  /** Accepts no more requests. Resolves when the running requests are answered, or are cut off after a second. */
  close(): Promise<void>
}

/** The server cannot listen. The message is one line and names the address; `cause` is the system's error. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
  readonly code = 'CannotListen'

  constructor(host: string, port: number, cause: NodeJS.ErrnoException) {
    const reason = listenFaults[cause.code ?? ''] ?? cause.message
    super(`cannot listen on ${hostPort(host, port)}: ${reason}`, { cause })
  }
}

const listenFaults: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EADDRNOTAVAIL: 'the address is not assigned to this host',
  EACCES: 'not permitted',
  ENOTFOUND: 'no such host',
}

/**
 * An HTTP/1.1 server that no client can delay or overload: it enforces {@link serverLimits}, and handles one request at
 * a time on a connection. A client that sends the next request before it has received the last answer (pipelining) is
 * cut off.
 * @throws ListenError, ServingCertificateError
 */
export async function serveBounded(options: BoundedServerOptions): Promise<BoundedServer> {
  const { host, port, tls } = options
  const times = {
    maxHeaderSize: serverLimits.headerBytes,
    headersTimeout: serverLimits.headersMs,
    requestTimeout: serverLimits.requestMs,
    keepAliveTimeout: serverLimits.keepAliveMs,
    connectionsCheckingInterval: 1000,
  }
  const { server, follow } =
    tls === undefined ? { server: createServer(times), follow: undefined } : await tlsServer(tls, times, options)
  const connections = boundConnections(server)
  server.on(tls === undefined ? 'connection' : 'secureConnection', parseInSlices)
  answerOneAtATime(server, options)
  const { port: usedPort } = await listen(server, host, port, options.logger)
  const unfollow = follow?.()
  return {
    port: usedPort,
    address: hostPort(host, usedPort),
    close() {
      unfollow?.()
      return closeServer(server, connections, serverLimits.closeMs)
    },
  }
}

async function tlsServer(files: ServingCertificateFiles, times: ServerOptions, options: BoundedServerOptions) {
  const context = await readServingCertificate(files)
  const server = createTlsServer({
    ...times,
    ...context,
    handshakeTimeout: serverLimits.handshakeMs,
    requestCert: files.clientCaFile !== undefined,
    // A caller without a certificate may have a token, or request something public.
    rejectUnauthorized: false,
  })
  let { ca } = context
  const followed = {
    setSecureContext(next: ServingCertificate) {
      server.setSecureContext(next)
      // An open connection would stay authorized by the previous authorities.
      if (next.ca !== ca) server.closeAllConnections()
      ca = next.ca
    },
  }
  return { server, follow: () => followServingCertificate(files, followed, context, options) }
}

/**
 * The open connections, the oldest first. Node's `closeAllConnections` omits those in a TLS handshake, which may never
 * end.
 */
export function openConnections(server: Server): Set<Socket> {
  const open = new Set<Socket>()
  server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  return open
}

/** Closes the oldest connection when a new one exceeds the limit. Returns the open connections. */
function boundConnections(server: Server): ReadonlySet<Socket> {
  const open = openConnections(server)
  server.on('connection', () => {
    if (open.size <= serverLimits.connections) return
    const [oldest] = open
    if (oldest === undefined) return
    open.delete(oldest)
    oldest.destroy()
  })
  return open
}

/**
 * Passes the input to Node's parser in slices. Node itself would pass a whole chunk of up to 64 KiB at once. From a
 * chunk of pipelined requests, the parser would make some two thousand requests, in tens of milliseconds, before the
 * connection can be cut off. With slices, the parser stops after the slice that contains the second request.
 */
function parseInSlices(socket: Socket): void {
  const parsers = socket.listeners('data')
  socket.on('data', (chunk: Buffer) => {
    let bytes: number = SLICE_BYTES.first
    for (let from = 0; from < chunk.length && !socket.destroyed; from += bytes, bytes = SLICE_BYTES.most) {
      for (const parse of parsers) parse.call(socket, chunk.subarray(from, from + bytes))
    }
  })
  for (const parse of parsers) socket.removeListener('data', parse as () => void)
}

function answerOneAtATime(server: Server, { respond, logger }: BoundedServerOptions): void {
  const answer = oneAtATime((request, response) => {
    respond(request).then(
      (result) => {
        if (!('stream' in result)) send(server, request, response, result)
        // The response of a client that has disconnected has already emitted `close`: a stream on it would never end.
        else if (!response.destroyed) result.stream(response)
      },
      (error: unknown) => {
        logger.error({ error, path: request.url }, 'a request failed')
        send(server, request, response, textAnswer(500, 'internal server error\n'))
      },
    )
  })
  server.on('request', answer)
  // Without these listeners, Node itself answers requests with `Expect`, any number at a time.
  server.on('checkContinue', answer)
  server.on('checkExpectation', answer)
}

/**
 * Cuts off a client that sends the next request before it has received the last answer. Otherwise Node would hold
 * thousands of answers, one for each request of the chunk, that the client never reads. For such an answer, Node 22
 * does not even report that the client has disconnected.
 */
export function oneAtATime(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): (request: IncomingMessage, response: ServerResponse) => void {
  const answering = new WeakSet<Socket>()
  return (request, response) => {
    const { socket } = request
    if (answering.has(socket)) {
      socket.destroy()
      return
    }
    answering.add(socket)
    response.once('close', () => answering.delete(socket))
    answer(request, response)
  }
}

function send(server: Server, request: IncomingMessage, response: ServerResponse, answer: HttpAnswer): void {
  // The client has disconnected, and `close` was already emitted, so nothing would stop the timer.
  if (response.destroyed) return
  const { socket, headers } = request
  const timeout = setTimeout(() => socket.destroy(), serverLimits.answerMs)
  response.once('close', () => clearTimeout(timeout))
  const hasBody = headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
  response.writeHead(answer.status, {
    'content-type': answer.contentType,
    'content-length': Buffer.byteLength(answer.body),
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-cache, private',
    // A request with a body ends the connection, because bodies are not read here and may never end. While the server
    // closes, every answer ends its connection, because the server waits for open ones.
    ...((hasBody || !server.listening) && { connection: 'close' }),
    ...answer.headers,
  })
  response.end(answer.body)
}

/** The least time between two log lines about connections that cannot be accepted, in milliseconds. */
const UNACCEPTED_AGAIN_MS = 60_000

/**
 * Resolves with the address in use. Later errors of the server are logged, at most once a minute. @throws ListenError
 */
export function listen(server: Server, host: string, port: number, logger: Logger): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    let loggedMs = Number.NEGATIVE_INFINITY
    server.on('error', (error) => {
      reject(new ListenError(host, port, error))
      const nowMs = performance.now()
      if (!server.listening || nowMs - loggedMs < UNACCEPTED_AGAIN_MS) return
      loggedMs = nowMs
      logger.warn({ error, host }, 'a connection cannot be accepted')
    })
    server.listen({ host, port, exclusive: true }, () => resolve(server.address() as AddressInfo))
  })
}

/** Accepts no more requests. Resolves when the running ones are answered, or are cut off after `withinMs`. */
export function closeServer(server: Server, connections: ReadonlySet<Socket>, withinMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timeout = setTimeout(() => {
      for (const socket of connections) socket.destroy()
    }, withinMs)
    server.close(() => {
      clearTimeout(timeout)
      resolve()
    })
  })
}

function hostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
