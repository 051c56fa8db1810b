import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Owner } from './owner.ts'
import { freePort } from './ports.ts'
import { startOnFreePorts } from './process.ts'

interface Connection {
  readonly client: Socket
  readonly upstream: Socket
  lost: boolean
}

/** A loopback TCP proxy that can do to a client what networks do. */
export class TcpProxy {
  readonly port: number
  readonly #server: Server
  readonly #target: number
  readonly #connections = new Set<Connection>()
  #delayMs = 0
  #blackHole = false
  #held = false

  private constructor(port: number, server: Server, target: number) {
    this.port = port
    this.#server = server
    this.#target = target
    server.on('connection', (client) => this.#accept(client))
  }

  static async start(owner: Owner, { target }: { readonly target: number }): Promise<TcpProxy> {
    const proxy = await startOnFreePorts(async () => {
      const port = await freePort()
      const server = createServer({ allowHalfOpen: true })
      await listen(server, port)
      return new TcpProxy(port, server, target)
    })
    owner.after(() => proxy.close())
    return proxy
  }

  /** How many connections are open at this moment. */
  get connections(): number {
    return this.#connections.size
  }

  /** Resets every open connection; new ones are accepted. */
  cut(): void {
    for (const { client, upstream } of this.#connections) for (const socket of [client, upstream]) reset(socket)
  }

  /** Ends the server's direction of every open connection and leaves the client's open. */
  halfClose(): void {
    for (const { client } of this.#connections) client.end()
  }

  /** Drops everything in both directions, on old and new connections, until called with `false`. */
  blackHole(on: boolean): void {
    this.#blackHole = on
  }

  /** Drops everything in both directions on the connections that are open now, permanently. New ones pass. */
  lose(): void {
    for (const connection of this.#connections) connection.lost = true
  }

  /**
   * Reads nothing from either side, on old and new connections, until called with `false`, and then passes on all that
   * waits: like a network that loses every packet for a while. A side that sends too much meanwhile must wait.
   */
  hold(on: boolean): void {
    this.#held = on
    for (const { client, upstream } of this.#connections) {
      for (const socket of [client, upstream]) on ? socket.pause() : socket.resume()
    }
  }

  /** Delays every chunk from the server by this time. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs
  }

  /** Refuses connections, and resets the open ones, until `accept`. */
  async refuse(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.cut()
    await closed
  }

  accept(): Promise<void> {
    return listen(this.#server, this.port)
  }

  async close(): Promise<void> {
    if (this.#server.listening) await this.refuse()
  }

  #accept(client: Socket): void {
    const upstream = connect({ host: '127.0.0.1', port: this.#target, allowHalfOpen: true })
    const connection: Connection = { client, upstream, lost: false }
    this.#connections.add(connection)
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      socket.setNoDelay(true)
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        other.destroy()
        this.#connections.delete(connection)
      })
    }
    client.on('data', (chunk) => {
      if (!this.#blackHole && !connection.lost && upstream.writable) upstream.write(chunk)
    })
    upstream.on('data', (chunk) => this.#deliver(connection, chunk))
    client.on('end', () => upstream.end())
    upstream.on('end', () => client.end())
    if (this.#held) for (const socket of [client, upstream]) socket.pause()
  }

  #deliver(connection: Connection, chunk: Buffer): void {
    const { client } = connection
    const write = (): void => {
      if (!this.#blackHole && !connection.lost && client.writable) client.write(chunk)
    }
    if (this.#delayMs === 0) write()
    else setTimeout(write, this.#delayMs)
  }
}

/** A socket that is about to end cannot be reset: libuv refuses that, and its handle would then stay open for ever. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
}
