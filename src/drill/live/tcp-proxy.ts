import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Cancel, Clock } from '../../runtime/clock.ts'
import { systemClock } from '../../runtime/system-clock.ts'

/** The real address of a proxied server. */
export type TcpTarget = { readonly host: string; readonly port: number } | { readonly path: string }

interface Connection {
  readonly client: Socket
  readonly upstream: Socket
  readonly flows: readonly TcpFlow[]
}

/** Why nothing passes: the server is frozen, or the network loses everything. */
type Hold = 'frozen' | 'cut'

/**
 * Stands between a process and its server, on a port of 127.0.0.1 or a Unix socket, and imitates crashes and network
 * faults. It does not inspect the bytes, so TLS passes. Until {@link accept} it refuses.
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

  /** At a socket of this path, which must be unused. */
  static at(path: string, target: TcpTarget): TcpProxy {
    return new TcpProxy(newServer(), path, target, systemClock)
  }

  /** Throws where it is at a socket. */
  get port(): number {
    if (typeof this.#place !== 'number') throw new TypeError('a socket has no port')
    return this.#place
  }

  /** Accepts connections, as a server does that has started. */
  async accept(): Promise<void> {
    if (!this.#server.listening) await listenOn(this.#server, this.#place)
  }

  /** Resets every connection and refuses new ones, as the kernel does for an ended server. */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.reset()
    await closed
  }

  /**
   * While there is any hold the kernel accepts connections and data, and nothing is ever answered. Waiting data
   * continue when the last hold ends.
   */
  hold(reason: Hold): void {
    this.#holds.add(reason)
    this.#applyHolds()
  }

  release(reason: Hold): void {
    if (this.#holds.delete(reason)) this.#applyHolds()
  }

  /** Loses everything, or no longer: then open connections are reset. */
  setCut(cut: boolean): void {
    if (cut) this.hold('cut')
    else {
      this.release('cut')
      this.reset()
    }
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
    // A regular end follows the data sent before.
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
 * A connection whose end was already sent cannot be reset: Node would lose the handle, and never end for it. A Unix
 * socket, which has no remote address, knows no resets.
 */
function resetSocket(socket: Socket): void {
  if (socket.writableEnded || socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}

/** Data under way in one direction of a connection, with the earliest time of arrival. */
interface Parcel {
  readonly dueMs: number
  /** Undefined: the end. */
  readonly chunk: Buffer | undefined
}

/** One direction of a proxied connection: passes data on in order, late or held back for a while. */
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

  /** While it is held nothing is read and nothing arrives; data under way arrive afterwards. */
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

// Below the kernel's range of ports for outgoing connections: while nothing listens, none of those takes ours.
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

/** Makes a server listen on a port of 127.0.0.1, or on a Unix socket. Rejects with the reason when it cannot. */
async function listenOn(server: Server, place: number | string): Promise<void> {
  if (typeof place === 'number') server.listen(place, '127.0.0.1')
  else server.listen(place)
  await once(server, 'listening')
}
