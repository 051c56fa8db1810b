import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Cancel, Clock } from '../../runtime/clock.ts'
import { systemClock } from '../../runtime/system-clock.ts'

export type TcpTarget = { readonly host: string; readonly port: number } | { readonly path: string }

interface Connection {
  readonly client: Socket
  readonly upstream: Socket
  readonly flows: readonly TcpFlow[]
}

/** Why no traffic passes: the server is frozen, or the network loses all packets. */
type Hold = 'frozen' | 'cut'

/**
 * A proxy in front of a server. It listens on a port of 127.0.0.1 or on a Unix socket, and imitates crashes and network
 * faults. It does not inspect the bytes, so TLS passes. Before {@link accept} it refuses connections.
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

  /** Opens a proxy on a free port. Delays are measured with `clock`. */
  static async open(target: TcpTarget, clock: Clock = systemClock): Promise<TcpProxy> {
    const server = newServer()
    const port = await listenAnywhere(server)
    const proxy = new TcpProxy(server, port, target, clock)
    await proxy.refuse()
    return proxy
  }

  /** Creates a proxy on a Unix socket with this path, which must be unused. */
  static at(path: string, target: TcpTarget): TcpProxy {
    return new TcpProxy(newServer(), path, target, systemClock)
  }

  /** The port on 127.0.0.1. Throws a TypeError if the proxy is on a socket. */
  get port(): number {
    if (typeof this.#place !== 'number') throw new TypeError('a socket has no port')
    return this.#place
  }

  /** Accepts connections, as a started server does. */
  async accept(): Promise<void> {
    if (!this.#server.listening) await listenOn(this.#server, this.#place)
  }

  /** Resets every connection, and refuses new connections, as the kernel does for an ended server. */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.reset()
    await closed
  }

  /**
   * Stops all traffic, or lets it pass again if no other hold remains. During a hold the kernel accepts connections and
   * data, but no request is answered. Waiting data are delivered when the last hold ends.
   */
  setHold(reason: Hold, isHeld: boolean): void {
    if (isHeld) this.#holds.add(reason)
    else if (!this.#holds.delete(reason)) return
    for (const { flows } of this.#connections) for (const flow of flows) flow.hold(this.#holds.size > 0)
  }

  /** Black-holes all traffic; or lets traffic pass again, and resets open connections. */
  setCut(cut: boolean): void {
    this.setHold('cut', cut)
    if (!cut) this.reset()
  }

  /** Delays all data by `delayMs` in each direction, from now on. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs
  }

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
      // A `close` event follows, and ends the connection.
      socket.on('error', () => {})
    }
    client.on('close', () => {
      this.#connections.delete(connection)
      for (const flow of flows) flow.close()
      upstream.destroy()
    })
    // A flow passes on a regular end after the data before it, so only failures are passed on here.
    upstream.on('close', (failed) => {
      if (failed) resetSocket(client)
    })
    if (this.#holds.size > 0) for (const flow of flows) flow.hold(true)
  }
}

function newServer(): Server {
  return createServer({ allowHalfOpen: true })
}

/**
 * Resets a connection, or destroys a connection that cannot be reset. If this side has already ended the connection, a
 * reset would make Node lose the handle and never exit. A Unix socket has no remote address and cannot be reset.
 */
function resetSocket(socket: Socket): void {
  if (socket.writableEnded || socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}

/** Data under way in one direction of a connection, with the earliest time of arrival. */
interface Parcel {
  readonly dueMs: number
  /** Undefined for the end of the data. */
  readonly chunk: Buffer | undefined
}

/** Passes on the data of one direction of a connection in order, with delays and holds. */
class TcpFlow {
  readonly #from: Socket
  readonly #to: Socket
  readonly #delayMs: () => number
  readonly #waiting: Parcel[] = []
  #held = false
  readonly #clock: Clock
  #cancel: Cancel = () => {}

  constructor(from: Socket, to: Socket, { clock, delayMs }: { readonly clock: Clock; readonly delayMs: () => number }) {
    this.#clock = clock
    this.#from = from
    this.#to = to
    this.#delayMs = delayMs
    from.on('data', (chunk) => this.#take(chunk))
    from.on('end', () => this.#take(undefined))
    to.on('drain', () => {
      if (!this.#held) from.resume()
    })
  }

  /** Stops this direction, or resumes it. Data under way arrive after the hold. */
  hold(held: boolean): void {
    this.#held = held
    if (held) this.#from.pause()
    else {
      this.#from.resume()
      this.#pass()
    }
  }

  close(): void {
    this.#cancel()
    this.#waiting.length = 0
  }

  #take(chunk: Buffer | undefined): void {
    this.#waiting.push({ dueMs: this.#clock.monotonicMs() + this.#delayMs(), chunk })
    this.#pass()
  }

  #pass(): void {
    this.#cancel()
    while (!this.#held) {
      const [next] = this.#waiting
      if (next === undefined) return
      // Data stay in order, even when the delay is removed.
      const leftMs = next.dueMs - this.#clock.monotonicMs()
      if (leftMs > 0) {
        this.#cancel = this.#clock.schedule(Math.ceil(leftMs), () => this.#pass())
        return
      }
      this.#waiting.shift()
      if (next.chunk === undefined) this.#to.end()
      else if (this.#to.writable && !this.#to.write(next.chunk)) this.#from.pause()
    }
  }
}

// These ports are below the kernel's range for outgoing connections. Otherwise an outgoing connection could take the
// port of a proxy that refuses connections.
const FIRST_PORT = 20_000
const PORTS = 10_000
const TRIES = 100

/** Makes a server listen on a free port of 127.0.0.1; resolves with the port. */
export async function listenAnywhere(server: Server): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = FIRST_PORT + randomInt(PORTS)
    try {
      await listenOn(server, port)
      return port
    } catch (error) {
      if (tries === TRIES || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
}

async function listenOn(server: Server, place: number | string): Promise<void> {
  if (typeof place === 'number') server.listen(place, '127.0.0.1')
  else server.listen(place)
  await once(server, 'listening')
}
