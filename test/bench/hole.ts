import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { CertificateAuthority } from '../peers/certificates.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { type Owner, temporaryDirectory } from '../peers/owner.ts'
import { freePort } from '../peers/ports.ts'

/**
 * A server that accepts connections and never answers. A program that uses it starts, loads its code, reads its
 * kubeconfig, connects and waits. The moment of the connection shows how long everything before it took; nothing after
 * it is measured.
 */
export interface Hole {
  readonly kubeconfig: string
  readonly port: number
  /** Resolves at the next connection to its time, on the clock of `performance.now()`. */
  nextConnection(): Promise<number>
}

export async function startHole(owner: Owner): Promise<Hole> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  const port = await freePort()
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  owner.after(async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
  })
  const content = { server: `https://127.0.0.1:${port}`, ca: new CertificateAuthority().certificate, token: 'none' }
  return {
    port,
    kubeconfig: writeKubeconfig(join(temporaryDirectory(owner, 'hole'), 'kubeconfig'), content),
    async nextConnection() {
      await once(server, 'connection')
      return performance.now()
    },
  }
}
