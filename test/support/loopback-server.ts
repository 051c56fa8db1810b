import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Cleanup } from './cleanup.ts'

export interface LoopbackServer {
  readonly port: number
  /** The connections that are open. */
  readonly sockets: ReadonlySet<Socket>
  /** Ends every connection. */
  cut(): void
}

/**
 * Lets a server, of HTTP or another protocol, listen on a free port of 127.0.0.1 until the test is over. Errors of its
 * connections fail no test.
 */
export async function listenOnLoopback(t: Cleanup, server: Server): Promise<LoopbackServer> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
  })
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    cut()
    server.close()
    await once(server, 'close')
  })
  return { port: (server.address() as AddressInfo).port, sockets, cut }
}
