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

/** Has a server listen on a port of 127.0.0.1, or on a Unix socket. Rejects with what keeps it from listening there. */
export async function listenOn(server: Server, place: number | string): Promise<void> {
  if (typeof place === 'number') server.listen(place, '127.0.0.1')
  else server.listen(place)
  await once(server, 'listening')
}
