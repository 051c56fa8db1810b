import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { KV, Lease, Watch } from '../protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import { type ConnectionTimes, EtcdConnection } from './connect-connection.ts'
import type { EtcdCredentials, TlsMaterial } from './connect-credentials.ts'
import { combined, connectionError, type FailedTry, openingFailure, requestFailure } from './connect-failure.ts'
import { EtcdError } from './kv.ts'
import type { EtcdEndpoint } from './options.ts'

/** The gRPC services of one etcd server, over one connection. */
export interface Server {
  readonly endpoint: string
  readonly connection: EtcdConnection
  readonly kv: Client<typeof KV>
  readonly lease: Client<typeof Lease>
  readonly watch: Client<typeof Watch>
}

/** How to handle a request that failed after it was sent. */
export type RequestKind =
  /** The request changes nothing of importance, so it may be sent again, to any server. */
  | 'repeatable'
  /** The server may have carried out the request, so the caller must read before it sends the request again. */
  | 'once'

interface PoolOptions {
  readonly endpoints: readonly EtcdEndpoint[]
  readonly credentials: EtcdCredentials
  readonly clock: Clock
  readonly logger: Logger
  readonly times: ConnectionTimes
  readonly requestTimeoutMs: number
}

/** An endpoint, with its open connection if it has one. */
interface Member {
  readonly endpoint: EtcdEndpoint
  server: Server | undefined
  opening: Promise<Server> | undefined
}

/**
 * The longest accepted answer, in bytes. By default etcd accepts requests, and so values, of up to 1.5 MiB. The limit
 * is necessary because the client allocates the announced length of an answer before any of the answer has arrived.
 */
const READ_MAX_BYTES = 2 * 1024 * 1024

/**
 * The pause in milliseconds before all servers are tried again, if one of them refused to serve, such as without a
 * leader.
 */
const REFUSED_PAUSE_MS = 200

/**
 * Sends each request to one of several endpoints. All requests begin with the same endpoint until that one fails: it
 * cannot be reached, answers that it cannot serve, does not answer in time, or the caller aborts before the answer.
 * Later requests then begin with the next endpoint. After a timeout or an abort the connection may be dead, so it gets
 * no more requests, and closes when its streams have ended.
 */
export class EndpointPool {
  readonly #options: PoolOptions
  readonly #members: readonly Member[]
  readonly #closing = new AbortController()
  /** All connections whose socket is open, including those that get no more requests. */
  readonly #connections = new Set<EtcdConnection>()
  /** All attempts to open a connection, including those whose callers have aborted. */
  readonly #openings = new Set<Promise<unknown>>()
  /** The index of the endpoint to try first. */
  #first = 0
  /** The last endpoint that answered while requests began with it; undefined before the first such answer. */
  #serving: Member | undefined
  /** The failure for which requests last changed to the next endpoint. */
  #switchCause: EtcdError | undefined

  constructor(options: PoolOptions) {
    this.#options = options
    this.#members = options.endpoints.map((endpoint) => ({ endpoint, server: undefined, opening: undefined }))
  }

  /** Aborted by `close`. The reason is the error of every later call. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /**
   * Sends a request to one endpoint after another until one answers, or until a request of kind `once` may have had an
   * effect. No attempt begins later than two request timeouts after the call. `send` must stop when its signal is
   * aborted. Rejects with an EtcdError, or with the reason of `signal`.
   */
  async ask<T>(
    kind: RequestKind,
    signal: AbortSignal,
    send: (server: Server, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { controller, unlink } = linkedController(signal, this.closing)
    controller.signal.throwIfAborted()
    try {
      return await this.#ask(kind, controller.signal, send)
    } finally {
      unlink()
    }
  }

  /** If requests begin with the endpoint of `server`, makes later ones begin with the next. `error` is the reason. */
  leave(server: Server, error: EtcdError): void {
    const member = this.#members.find(({ endpoint }) => endpoint.text === server.endpoint)
    if (member !== undefined) this.#goOn(member, error)
  }

  /** Closes all connections; resolves when no socket is left. */
  async close(): Promise<void> {
    const closed = new EtcdError('Unreachable', 'etcd: the client closed the connection')
    this.#closing.abort(closed)
    await Promise.allSettled(this.#openings)
    await Promise.all([...this.#connections].map((connection) => connection.close(closed)))
  }

  async #ask<T>(
    kind: RequestKind,
    signal: AbortSignal,
    send: (server: Server, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { clock, requestTimeoutMs } = this.#options
    const lastTryMs = clock.monotonicMs() + 2 * requestTimeoutMs
    for (;;) {
      const failed: FailedTry[] = []
      for (const member of this.#inTurn()) {
        const result = await this.#try(member, signal, send)
        if ('value' in result) {
          this.#answered(member)
          return result.value
        }
        failed.push(result)
        if (!result.elsewhere) throw result.error
        this.#goOn(member, result.error)
        if (!result.harmless && kind === 'once') throw result.error
        if (clock.monotonicMs() >= lastTryMs) throw combined(failed)
      }
      // Tries again if a server had no leader, because an election normally ends within a second.
      const electing = failed.some(({ harmless, error }) => harmless && error.code === 'ServerError')
      if (!electing || clock.monotonicMs() + REFUSED_PAUSE_MS >= lastTryMs) throw combined(failed)
      await sleep(clock, REFUSED_PAUSE_MS, signal)
    }
  }

  /**
   * The endpoints, beginning with the one to try first. An endpoint whose open connection broke during the attempt
   * comes once more at the end, for an attempt with a new connection. So a request succeeds after a restart of the only
   * server.
   */
  *#inTurn(): Generator<Member> {
    const first = this.#first
    const turn = [...this.#members.slice(first), ...this.#members.slice(0, first)]
    const open = turn.map(({ server }) => server?.connection).map((connection) => connection?.usable && connection)
    yield* turn
    yield* turn.filter((_, index) => open[index] && !open[index].usable)
  }

  async #try<T>(
    member: Member,
    signal: AbortSignal,
    send: (server: Server, signal: AbortSignal) => Promise<T>,
  ): Promise<{ readonly value: T } | FailedTry> {
    const opening = this.#serverOf(member)
    let server: Server
    try {
      server = await abortable(opening, signal)
    } catch (error) {
      if (signal.aborted && member.opening === opening) member.opening = undefined
      if (signal.aborted) this.#goOn(member, gaveUp(member.endpoint))
      if (signal.aborted || !(error instanceof EtcdError)) throw error
      return openingFailure(error)
    }
    try {
      return { value: await abortable(send(server, signal), signal) }
    } catch (error) {
      const failure = requestFailure(server.endpoint, server.connection.failure, error)
      if (signal.aborted) this.#goOn(member, gaveUp(member.endpoint))
      if ((signal.aborted || failure.error.code === 'Timeout') && member.server === server) {
        member.server = undefined
        server.connection.retire()
      }
      signal.throwIfAborted()
      return failure
    }
  }

  #goOn(from: Member, error: EtcdError): void {
    if (this.#members[this.#first] !== from) return
    this.#first = (this.#first + 1) % this.#members.length
    this.#switchCause = error
  }

  /** Logs when requests have changed from one endpoint to another. Single failures are not logged. */
  #answered(member: Member): void {
    if (this.#members[this.#first] !== member || this.#serving === member) return
    if (this.#serving !== undefined) {
      const { text: endpoint } = member.endpoint
      this.#options.logger.info({ endpoint, error: this.#switchCause }, 'switched to another etcd endpoint')
    }
    this.#serving = member
  }

  #serverOf(member: Member): Promise<Server> {
    if (member.server?.connection.usable) {
      if (member.endpoint.tls) this.#options.credentials.refresh()
      return Promise.resolve(member.server)
    }
    member.opening ??= this.#openFor(member)
    return member.opening
  }

  #openFor(member: Member): Promise<Server> {
    const opening = this.#open(member.endpoint)
      .then((server) => {
        if (!member.server?.connection.usable) member.server = server
        // The first caller stopped waiting for its connection, so another caller opened a second one.
        else server.connection.retire()
        return member.server
      })
      .finally(() => {
        this.#openings.delete(opening)
        if (member.opening === opening) member.opening = undefined
      })
    this.#openings.add(opening)
    return opening
  }

  async #open(endpoint: EtcdEndpoint): Promise<Server> {
    const { credentials, clock, times, requestTimeoutMs } = this.#options
    let tls: TlsMaterial | undefined
    try {
      tls = endpoint.tls ? await abortable(credentials.load(), this.closing) : undefined
      const connection = await EtcdConnection.open(endpoint, tls, { clock, times, signal: this.closing })
      this.#connections.add(connection)
      void connection.closed.then(() => this.#connections.delete(connection))
      const transport = createGrpcTransport({
        baseUrl: connection.authority,
        sessionManager: connection,
        acceptCompression: [],
        // Each unknown field would be an object: 700 MB for an answer of 2 MiB.
        binaryOptions: { readUnknownFields: false },
        readMaxBytes: READ_MAX_BYTES,
        defaultTimeoutMs: requestTimeoutMs,
      })
      return {
        endpoint: endpoint.text,
        connection,
        kv: createClient(KV, transport),
        lease: createClient(Lease, transport),
        watch: createClient(Watch, transport),
      }
    } catch (error) {
      throw connectionError(endpoint.text, tls, error)
    }
  }
}

function gaveUp({ text }: EtcdEndpoint): EtcdError {
  return new EtcdError('Timeout', `etcd ${text}: no answer before the caller aborted`)
}
