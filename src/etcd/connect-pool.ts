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

/** The services of one server, over one connection. */
export interface Server {
  readonly endpoint: string
  readonly connection: EtcdConnection
  readonly kv: Client<typeof KV>
  readonly lease: Client<typeof Lease>
  readonly watch: Client<typeof Watch>
}

/** How to handle a request that failed after it was sent. */
export type RequestKind =
  /** The request changes nothing of importance. It may be sent again, to any server. */
  | 'repeatable'
  /** The request may have been carried out. The caller must read before it sends the request again. */
  | 'once'

interface PoolOptions {
  readonly endpoints: readonly EtcdEndpoint[]
  readonly credentials: EtcdCredentials
  readonly clock: Clock
  readonly logger: Logger
  readonly times: ConnectionTimes
  readonly requestTimeoutMs: number
}

/** An endpoint with its connection, while it has one. */
interface Member {
  readonly endpoint: EtcdEndpoint
  server: Server | undefined
  opening: Promise<Server> | undefined
}

/**
 * The longest accepted answer, in bytes. A value has 1.5 MiB at most. The limit is necessary because the client
 * allocates the announced length of an answer before any of it has arrived.
 */
const READ_MAX_BYTES = 2 * 1024 * 1024

/** The pause before all servers are tried again, if one of them had no leader or refused for a similar reason. */
const ELECTION_PAUSE_MS = 200

/**
 * Sends each request to one of several endpoints, beginning with the one that answered last. If a server cannot be
 * reached, answers that it cannot serve, or does not answer in time, the next one is tried. If the caller aborts before
 * the answer, the next request begins with another endpoint. After a timeout or an abort the connection may be dead, so
 * it gets no more requests, and closes when its streams have ended.
 */
export class EndpointPool {
  readonly #options: PoolOptions
  readonly #members: readonly Member[]
  readonly #closing = new AbortController()
  /** All connections, including those that a server is closing. */
  readonly #connections = new Set<EtcdConnection>()
  /** All connections that are being opened, including those for which no request waits any more. */
  readonly #openings = new Set<Promise<unknown>>()
  /** The index of the endpoint to try first. */
  #first = 0
  /** The endpoint that answered last. */
  #serving: Member | undefined
  /** Why the first endpoint was last replaced by the next one. */
  #left: EtcdError | undefined

  constructor(options: PoolOptions) {
    this.#options = options
    this.#members = options.endpoints.map((endpoint) => ({ endpoint, server: undefined, opening: undefined }))
  }

  /** Aborted by `close`, with the error for every later call. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /**
   * Sends a request to the first endpoint that accepts it. No attempt begins later than two request timeouts after the
   * call; `send` must stop when its signal is aborted. Rejects with an EtcdError, or with the reason of `signal`.
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

  /** Makes the next request begin with another endpoint, if it would begin with `server`. */
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
      if (!electing || clock.monotonicMs() + ELECTION_PAUSE_MS >= lastTryMs) throw combined(failed)
      await sleep(clock, ELECTION_PAUSE_MS, signal)
    }
  }

  /**
   * The endpoints, beginning with the one to try first. An endpoint whose open connection turns out to be broken comes
   * once more at the end, with a new connection. That suffices after a restart of the only server.
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
    this.#left = error
  }

  /** Logs if another endpoint answers than before. Single failures are not logged. */
  #answered(member: Member): void {
    if (this.#members[this.#first] !== member || this.#serving === member) return
    if (this.#serving !== undefined) {
      const { text: endpoint } = member.endpoint
      this.#options.logger.info({ endpoint, error: this.#left }, 'switched to another etcd endpoint')
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
        // Two connections were opened, because the first caller stopped waiting for the first one.
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
