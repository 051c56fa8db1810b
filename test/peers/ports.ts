import { randomInt } from 'node:crypto'
import { createServer, type Server } from 'node:net'

// Below the ranges from which the kernel takes ports for outgoing connections and live drills take theirs, so that
// there are no conflicts.
const firstPort = 10_000
const blockCount = 200
const blockSize = 50

/** The ports of this process that are not given out yet. */
const own: number[] = []

/**
 * Returns a loopback TCP port that is free at this moment. No other caller of this function gets it, not even in
 * another process. An unrelated program may still take it before it is bound.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const port = own.shift()
    if (port === undefined) own.push(...(await takeBlock()))
    else if (await canBind(port)) return port
  }
  throw new Error(`no free port between ${firstPort} and ${firstPort + blockCount * blockSize - 1}`)
}

/** Reserves a block of ports for this process, which listens on the first of them until it ends. */
async function takeBlock(): Promise<readonly number[]> {
  for (let attempt = 0; attempt < 20 * blockCount; attempt++) {
    const first = firstPort + blockSize * randomInt(blockCount)
    const server = await listen(first)
    if (server === undefined) continue
    server.unref()
    return Array.from({ length: blockSize - 1 }, (_, index) => first + 1 + index)
  }
  throw new Error(`all ${blockCount} blocks of ports from ${firstPort} on are taken`)
}

async function canBind(port: number): Promise<boolean> {
  const server = await listen(port)
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)))
  return server !== undefined
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
