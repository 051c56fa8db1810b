import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { KV, Lease, Watch } from '../protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import { type ConnectionTimes, EtcdConnection } from './connect-connection.ts'
import type { EtcdCredentials, TlsMaterial } from './connect-credentials.ts'
import { combined, connectionError, type FailedTry, openingFailure, requestFailure } from './connect-failure.ts'
import type { EtcdEndpoint } from './endpoint.ts'
import { EtcdError } from './kv.ts'

/** The services of one server, over one connection. */
export interface Server {
  readonly endpoint: string
  readonly connection: EtcdConnection
  readonly kv: Client<typeof KV>
  readonly lease: Client<typeof Lease>
  readonly watch: Client<typeof Watch>
}

/** What may be done about a request that failed after it was sent. */
export type RequestKind =
  /** It changes nothing, or nothing that matters: it may be sent again, to another server as well. */
  | 'repeatable'
  /** It may have happened: whoever sent it must look before sending it again. */
  | 'once'

export interface PoolOptions {
  readonly endpoints: readonly EtcdEndpoint[]
  readonly credentials: EtcdCredentials
  readonly clock: Clock
  readonly logger: Logger
  readonly times: ConnectionTimes
  /** For the answer to one request from one server, in milliseconds. */
  readonly requestTimeoutMs: number
}

/** An endpoint with its connection, while it has one. */
interface Member {
  readonly endpoint: EtcdEndpoint
  server: Server | undefined
  opening: Promise<Server> | undefined
}

/**
 * The longest answer, in bytes. A value has 1.5 MiB at most; what is read here are leases and records of a few hundred bytes and bitmaps of
 * up to 128 KiB.
 */
const readMaxBytes = 8 * 1024 * 1024

/** Between two rounds over servers that all have no leader. */
const electionPauseMs = 200

/**
 * The endpoints, one of which is asked first: the one that answered last. A server that cannot be reached, or answers that it cannot
 * serve, hands over to the next one. So does one that gave no answer in time, or until whoever asked gave up; its connection takes no
 * more requests, because it may lead nowhere, and ends when the watches on it do.
 */
export class EndpointPool {
  readonly #options: PoolOptions
  readonly #members: readonly Member[]
  readonly #closing = new AbortController()
  /** Those that a server is about to end too. */
  readonly #connections = new Set<EtcdConnection>()
  /** Those that nobody waits for any more too. */
  readonly #openings = new Set<Promise<unknown>>()
  /** The one that is asked first, the one that it last was when it answered, and why another one was left. */
  #first = 0
  #serving: Member | undefined
  #left: EtcdError | undefined

  constructor(options: PoolOptions) {
    this.#options = options
    this.#members = options.endpoints.map((endpoint) => ({ endpoint, server: undefined, opening: undefined }))
  }

  /** Aborted by `close`, with the error that everything then fails with. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /**
   * Sends a request to the first endpoint that takes it. No try begins later than two request timeouts after the call; `send` must
   * give up when its signal is aborted. Rejects with an EtcdError, or with the reason of `signal`.
   */
  async ask<T>(
    kind: RequestKind,
    signal: AbortSignal,
    send: (server: Server, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    signal.throwIfAborted()
    this.closing.throwIfAborted()
    const { controller, unlink } = linkedController(signal, this.closing)
    try {
      return await this.#ask(kind, controller.signal, send)
    } finally {
      unlink()
    }
  }

  /** Has the next request begin with another endpoint, if `server` is the one that it would begin with. */
  leave(server: Server, error: EtcdError): void {
    const member = this.#members.find(({ endpoint }) => endpoint.text === server.endpoint)
    if (member !== undefined) this.#goOn(member, error)
  }

  /** Ends everything; resolves when no socket is left. */
  async close(): Promise<void> {
    const closed = new EtcdError('Unreachable', 'etcd: the connection was closed here')
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
      // While a leader is elected there is nothing wrong that the next second will not mend.
      const electing = failed.some(({ harmless, error }) => harmless && error.code === 'ServerError')
      if (!electing || clock.monotonicMs() + electionPauseMs >= lastTryMs) throw combined(failed)
      await sleep(clock, electionPauseMs, signal)
    }
  }

  /**
   * The endpoints from the first one on. One whose open connection turns out to be broken comes once more at the end, with a new
   * connection: after a restart of the only server that is all it takes.
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

  /** Said when another one answers, not for each that does not. */
  #answered(member: Member): void {
    if (this.#members[this.#first] !== member || this.#serving === member) return
    if (this.#serving !== undefined) {
      const { text: endpoint } = member.endpoint
      this.#options.logger.info({ endpoint, error: this.#left }, 'another etcd endpoint is in use now')
    }
    this.#serving = member
  }

  #serverOf(member: Member): Promise<Server> {
    if (member.server?.connection.usable) {
      if (member.endpoint.tls) this.#options.credentials.look()
      return Promise.resolve(member.server)
    }
    member.opening ??= this.#openFor(member)
    return member.opening
  }

  #openFor(member: Member): Promise<Server> {
    const opening = this.#open(member.endpoint)
      .then((server) => {
        if (!member.server?.connection.usable) member.server = server
        // Two were opened, because somebody gave up waiting for the first.
        else server.connection.retire()
        return member.server
      })
      .finally(() => {
        this.#openings.delete(opening)
        if (member.opening === opening) member.opening = undefined
      })
    opening.catch(() => {})
    this.#openings.add(opening)
    return opening
  }

  async #open(endpoint: EtcdEndpoint): Promise<Server> {
    const { credentials, clock, times, requestTimeoutMs } = this.#options
    let tls: TlsMaterial | undefined
    try {
      tls = endpoint.tls ? await credentials.load() : undefined
      const connection = await EtcdConnection.open(endpoint, tls, { clock, times, signal: this.closing })
      this.#connections.add(connection)
      void connection.closed.then(() => this.#connections.delete(connection))
      const transport = createGrpcTransport({
        baseUrl: connection.authority,
        sessionManager: connection,
        acceptCompression: [],
        readMaxBytes,
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
      throw this.closing.aborted ? this.closing.reason : connectionError(endpoint.text, tls, error)
    }
  }
}

function gaveUp({ text }: EtcdEndpoint): EtcdError {
  return new EtcdError('Timeout', `etcd ${text}: no answer before whoever asked gave up`)
}
