import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Etcd } from './etcd.ts'
import { concerns, type FaultRule, FaultRules, type PlacedFault } from './fault-rules.ts'
import type { Owner } from './owner.ts'
import { freePort } from './ports.ts'
import { startOnFreePorts } from './process.ts'

const watching = { resource: 'Watch', verb: 'call' } as const

/**
 * A proxy in front of a real etcd (without TLS) that can inject faults into single gRPC calls. TcpProxy does so for
 * whole connections.
 */
export class EtcdFaultProxy {
  readonly port: number
  readonly url: string
  readonly #server: Http2Server
  readonly #target: string
  readonly #rules = new FaultRules((rule) => {
    if (!concerns(rule, watching)) return
    for (const watch of this.#watches) watch.close(constants.NGHTTP2_CANCEL)
  })
  readonly #sessions = new Map<ServerHttp2Session, ClientHttp2Session>()
  readonly #watches = new Set<ServerHttp2Stream>()

  private constructor(server: Http2Server, port: number, target: string) {
    this.port = port
    this.url = `http://127.0.0.1:${port}`
    this.#server = server
    this.#target = target
    server.on('session', (session) => this.#accept(session))
    server.on('sessionError', () => {})
  }

  static start(owner: Owner, target: Pick<Etcd, 'url'>): Promise<EtcdFaultProxy> {
    return startOnFreePorts(async () => {
      const proxy = new EtcdFaultProxy(createServer(), await freePort(), target.url)
      await proxy.accept()
      owner.after(() => proxy.#close())
      return proxy
    })
  }

  /** Injects a fault from now on. Resources are the methods of etcd: `Range`, `Txn`, `LeaseGrant`, `Watch`. */
  place(rule: FaultRule): PlacedFault {
    return this.#rules.place(rule)
  }

  /** Refuses connections, and closes the open ones, until `accept`. */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const session of this.#sessions.keys()) session.destroy()
    await closed
  }

  async accept(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async #close(): Promise<void> {
    this.#rules.clear()
    await this.refuse()
  }

  #accept(session: ServerHttp2Session): void {
    const upstream = connect(this.#target)
    this.#sessions.set(session, upstream)
    const end = (): void => {
      this.#sessions.delete(session)
      session.destroy()
      upstream.destroy()
    }
    for (const side of [session, upstream]) {
      side.on('error', end)
      side.on('close', end)
    }
    session.on('stream', (stream, headers) => this.#serve(stream, headers, upstream))
  }

  #serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, session: ClientHttp2Session): void {
    stream.on('error', () => {})
    const method = headers[':path']?.split('/').at(-1) ?? ''
    this.#rules.treat(
      { resource: method, verb: 'call' },
      {
        answer: ({ status }) => {
          if (stream.closed) return
          const headers = { ':status': 200, 'content-type': 'application/grpc', ...grpcStatus(status) }
          stream.respond(headers, { endStream: true })
        },
        forward: (whenAnswered) => {
          if (stream.closed || session.destroyed) return
          if (method === 'Watch') {
            this.#watches.add(stream)
            stream.on('close', () => this.#watches.delete(stream))
          }
          pass(stream, session.request(headers), whenAnswered)
        },
        close: () => stream.close(constants.NGHTTP2_CANCEL),
      },
    )
  }
}

function pass(stream: ServerHttp2Stream, upstream: ClientHttp2Stream, whenAnswered: (pass: () => void) => void): void {
  upstream.on('error', () => stream.close(constants.NGHTTP2_CANCEL))
  stream.on('close', () => upstream.close(constants.NGHTTP2_CANCEL))
  stream.pipe(upstream)
  let trailers: IncomingHttpHeaders = {}
  upstream.on('trailers', (received) => {
    trailers = received
  })
  upstream.on('response', (headers, flags) => {
    const endStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0
    whenAnswered(() => {
      // Checks `closed`, not `destroyed`: a stream that was cut off is closed first, and then `respond` throws.
      if (stream.closed) return
      stream.respond(headers, { endStream, waitForTrailers: !endStream })
      if (endStream) return
      stream.on('wantTrailers', () => stream.sendTrailers(trailers))
      upstream.pipe(stream)
    })
  })
}

/** The gRPC status that an HTTP status stands for. */
function grpcStatus(status: number): Readonly<Record<string, string>> {
  const code = { 401: 16, 403: 7, 429: 8, 500: 13, 503: 14 }[status] ?? 2
  return { 'grpc-status': String(code), 'grpc-message': `the fault proxy answers ${status}` }
}
