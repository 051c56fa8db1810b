import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:net'

// Below the range from which the kernel takes ports for outgoing connections: while nobody listens, none of those takes ours.
const FIRST_PORT = 20_000
const PORTS = 10_000
const TRIES = 100

/** Has a server listen on a free port of 127.0.0.1; resolves with the port. */
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

/** Rejects with what keeps it from listening there. */
export async function listenOn(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
}
