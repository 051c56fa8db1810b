import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

// Below the range from which the kernel takes ports for outgoing connections, so that none of those can be in the way.
const firstPort = 20_000
const portCount = 10_000

/** A loopback TCP port that is free at this moment. Whoever binds it must still be ready to find it taken. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = firstPort + randomInt(portCount)
    if (await canBind(port)) return port
  }
  throw new Error(`no free port between ${firstPort} and ${firstPort + portCount - 1}`)
}

function canBind(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
