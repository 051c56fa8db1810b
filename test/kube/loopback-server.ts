import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer, type ServerOptions } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Cleanup } from '../support/cleanup.ts'

/** An HTTP server of a test, on a loopback port of its own, that counts what reaches it. */
export interface LoopbackServer {
  readonly url: URL
  /** What was asked, in order: method and target. */
  readonly asked: string[]
  /** Connections that were ever made. */
  connections(): number
  /** Connections that are open now. */
  open(): number
  /** Cuts all connections, without a word. */
  cut(): void
}

/** Starts a server that ends with the test; over TLS when `tls` is given. */
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

/** The path of a file of certificates.sh. */
export function certificateFile(name: string): string {
  return new URL(`data/${name}`, import.meta.url).pathname
}

/** Its text. */
export function certificate(name: string): string {
  return readFileSync(certificateFile(name), 'utf8')
}

/** A server's end of TLS, with the certificate for 127.0.0.1 or the one for cluster.example.test. */
export function serverTls(name: 'loopback' | 'cluster'): ServerOptions {
  return { cert: certificate(`${name}.crt`), key: certificate(`${name}.key`) }
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}
