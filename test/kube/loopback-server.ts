import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer, type ServerOptions } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Cleanup } from '../support/cleanup.ts'

/** An HTTP server of a test on its own loopback port, which counts connections and requests. */
export interface LoopbackServer {
  readonly url: URL
  /** The method and target of each request, in order. */
  readonly asked: string[]
  /** The number of connections that were ever made. */
  connections(): number
  /** The number of connections that are open now. */
  open(): number
  /** Resets all connections. */
  cut(): void
}

/** Starts a server that ends with the test; over TLS if `tls` is given. */
export async function startServer(
  t: Cleanup,
  listener: RequestListener,
  options: { readonly tls?: ServerOptions } = {},
): Promise<LoopbackServer> {
  const asked: string[] = []
  const record: RequestListener = (request, response) => {
    asked.push(`${request.method} ${request.url}`)
    listener(request, response)
  }
  const server: Server = options.tls === undefined ? createServer(record) : createTlsServer(options.tls, record)
  const sockets = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  t.after(async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of sockets) socket.destroy()
    await closed
  })
  const scheme = options.tls === undefined ? 'http' : 'https'
  const { port } = server.address() as AddressInfo
  return {
    url: new URL(`${scheme}://127.0.0.1:${port}`),
    asked,
    connections: () => connections,
    open: () => sockets.size,
    cut,
  }
}

/** The path of a file that certificates.sh makes. */
export function certificateFile(name: string): string {
  return new URL(`data/${name}`, import.meta.url).pathname
}

/** The text of such a file. */
export function certificate(name: string): string {
  return readFileSync(certificateFile(name), 'utf8')
}

/** The TLS options of a server, with the certificate for 127.0.0.1 or the one for cluster.example.test. */
export function serverTls(name: 'loopback' | 'cluster'): ServerOptions {
  return { cert: certificate(`${name}.crt`), key: certificate(`${name}.key`) }
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}
