import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Clock } from '../../runtime/clock.ts'
import { systemClock } from '../../runtime/system-clock.ts'
import { listenAnywhere, listenOn } from './free-port.ts'
import { TcpFlow } from './tcp-flow.ts'

/** Where a proxied server really is. */
export type TcpTarget = { readonly host: string; readonly port: number } | { readonly path: string }

interface Connection {
  readonly client: Socket
  readonly upstream: Socket
  readonly flows: readonly TcpFlow[]
}

/** Why nothing passes: the server sleeps, or the network loses everything. */
export type Hold = 'frozen' | 'cut'

/**
 * Stands between a process and its server, on a port of 127.0.0.1 or a Unix socket, and does to the way what crashes and networks do. It looks into
 * nothing, so TLS goes through. Until {@link accept} it refuses.
 */
export class TcpProxy {
  /** A port, or the path of a socket. */
  readonly #place: number | string
  readonly #server: Server
  readonly #target: TcpTarget
  readonly #clock: Clock
  readonly #connections = new Set<Connection>()
  readonly #holds = new Set<Hold>()
  #delayMs = 0

  private constructor(server: Server, place: number | string, target: TcpTarget, clock: Clock) {
    this.#server = server
    this.#place = place
    this.#target = target
    this.#clock = clock
    server.on('connection', (client) => this.#connect(client))
  }

  /** Takes a free port. Delays are counted by `clock`. */
  static async open(target: TcpTarget, clock: Clock = systemClock): Promise<TcpProxy> {
    const server = newServer()
    const port = await listenAnywhere(server)
    const proxy = new TcpProxy(server, port, target, clock)
    await proxy.refuse()
    return proxy
  }

  /** For whoever may use a socket of this path, which nobody has yet. */
  static at(path: string, target: TcpTarget): TcpProxy {
    return new TcpProxy(newServer(), path, target, systemClock)
  }

  /** Throws where it is at a socket. */
  get port(): number {
    if (typeof this.#place !== 'number') throw new TypeError('a socket has no port')
    return this.#place
  }

  /** Takes connections, as a server does that has started. */
  async accept(): Promise<void> {
    if (!this.#server.listening) await listenOn(this.#server, this.#place)
  }

  /** Resets every connection and refuses new ones, as the kernel does for a server that has ended. */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.reset()
    await closed
  }

  /**
   * While there is any hold the kernel takes connections and what is sent on them, and nothing is ever answered. What waited when the last
   * one ends goes on its way.
   */
  hold(reason: Hold): void {
    this.#holds.add(reason)
    this.#applyHolds()
  }

  release(reason: Hold): void {
    if (this.#holds.delete(reason)) this.#applyHolds()
  }

  /** How much longer everything takes from now on, each way. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs
  }

  /** Resets every connection that is open. */
  reset(): void {
    for (const { client, upstream } of this.#connections) {
      resetSocket(client)
      upstream.destroy()
    }
  }

  close(): Promise<void> {
    return this.refuse()
  }

  #connect(client: Socket): void {
    const upstream = connect({ ...this.#target, allowHalfOpen: true } as Parameters<typeof connect>[0] & object)
    const pace = { clock: this.#clock, delayMs: () => this.#delayMs }
    const flows = [new TcpFlow(client, upstream, pace), new TcpFlow(upstream, client, pace)]
    const connection = { client, upstream, flows }
    this.#connections.add(connection)
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true)
      // A close follows.
      socket.on('error', () => {})
    }
    client.on('close', () => {
      this.#connections.delete(connection)
      for (const flow of flows) flow.close()
      upstream.destroy()
    })
    // One that ends in order is followed by what was sent before, and by its end.
    upstream.on('close', (failed) => {
      if (failed) resetSocket(client)
    })
    if (this.#holds.size > 0) for (const flow of flows) flow.hold(true)
  }

  #applyHolds(): void {
    for (const { flows } of this.#connections) for (const flow of flows) flow.hold(this.#holds.size > 0)
  }
}

function newServer(): Server {
  return createServer({ allowHalfOpen: true })
}

/**
 * One whose end is on its way cannot be reset any more: Node would lose the handle, and never end for it. A Unix socket, which has no remote address, knows no
 * resets.
 */
function resetSocket(socket: Socket): void {
  if (socket.writableEnded || socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
