import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isLoopbackName } from '../../net/address.ts'
import { formatHostPort, type HostPort } from '../../net/host-port.ts'
import { listen } from '../../telemetry/http-bounded-server.ts'
import { contentSecurityPolicy, statusDocument, statusSections } from './status-html.ts'
import type { StatusSource } from './status-source.ts'

const limits = {
  /** A further connection is closed. */
  connections: 64,
  /** Pages that are open; a further one gets 503. */
  viewers: 32,
  headersMs: 5000,
  requestMs: 10_000,
  /** Changes within this time are sent together. */
  gatherMs: 50,
  /** A comment that shows the viewer, and this server, that the connection lives. */
  heartbeatMs: 15_000,
} as const

type Source = Pick<StatusSource, 'status' | 'subscribe'>

export interface StatusPage {
  readonly url: string
  close(): Promise<void>
}

/**
 * Serves the page at `/` and its changes at `/events` (server-sent events), to browsers on this machine alone.
 * @param address - on loopback; port 0 selects a free one.
 * @param source - requests wait for it.
 * @throws ListenError
 */
export async function serveStatusPage({ host, port }: HostPort, source: Promise<Source>): Promise<StatusPage> {
  const viewing = source.then((opened) => new Viewers(opened))
  let viewers: Viewers | undefined
  void viewing.then((opened) => {
    viewers = opened
  })
  const server = createServer(
    { headersTimeout: limits.headersMs, requestTimeout: limits.requestMs, connectionsCheckingInterval: 1000 },
    (request, response) => void viewing.then((opened) => respond(request, response, opened)),
  )
  server.maxConnections = limits.connections
  const { port: taken } = await listen(server, host, port)
  return {
    url: `http://${formatHostPort({ host, port: taken })}/`,
    close() {
      viewers?.close()
      return new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
    },
  }
}

function respond(request: IncomingMessage, response: ServerResponse, viewers: Viewers): void {
  response.on('error', () => {})
  response.setHeader('content-security-policy', contentSecurityPolicy)
  response.setHeader('x-content-type-options', 'nosniff')
  response.setHeader('referrer-policy', 'no-referrer')
  response.setHeader('cache-control', 'no-store')
  const end = (status: number, text: string, type = 'text/plain'): void => {
    response.writeHead(status, {
      'content-type': `${type}; charset=utf-8`,
      ...(status === 200 ? {} : { connection: 'close' }),
    })
    response.end(text)
  }
  // A site elsewhere whose name resolves to this machine would be allowed to read the answer.
  const host = URL.parse(`http://${request.headers.host ?? ''}`)?.hostname.replaceAll(/[[\]]/g, '') ?? ''
  const path = request.url?.split('?')[0]
  if (request.method !== 'GET') end(405, 'method not allowed\n')
  else if (!isLoopbackName(host)) end(403, 'this page is for this machine alone: open it by a loopback address\n')
  else if (path === '/') end(200, statusDocument(viewers.source.status), 'text/html')
  else if (path !== '/events') end(404, 'not found\n')
  else if (!viewers.add(response)) end(503, 'too many pages are open\n')
}

/** The open pages. A slow one misses states in between, never the latest. */
class Viewers {
  readonly source: Source
  /** With the message that each has not taken yet. */
  readonly #waiting = new Map<ServerResponse, string | undefined>()
  readonly #heartbeat: NodeJS.Timeout
  readonly #unsubscribe: () => void
  #gathering: NodeJS.Timeout | undefined

  constructor(source: Source) {
    this.source = source
    this.#unsubscribe = source.subscribe(() => {
      if (this.#waiting.size > 0) this.#gathering ??= setTimeout(() => this.#sendAll(), limits.gatherMs)
    })
    this.#heartbeat = setInterval(() => {
      for (const viewer of this.#waiting.keys()) if (!viewer.writableNeedDrain) viewer.write(':\n\n')
    }, limits.heartbeatMs)
  }

  /** Returns whether there is room for another. */
  add(viewer: ServerResponse): boolean {
    if (this.#waiting.size >= limits.viewers) return false
    this.#waiting.set(viewer, undefined)
    viewer.once('close', () => this.#waiting.delete(viewer))
    viewer.on('drain', () => {
      const message = this.#waiting.get(viewer)
      this.#waiting.set(viewer, undefined)
      if (message !== undefined) viewer.write(message)
    })
    viewer.writeHead(200, { 'content-type': 'text/event-stream' })
    viewer.write(messageOf(this.source.status))
    return true
  }

  close(): void {
    this.#unsubscribe()
    clearInterval(this.#heartbeat)
    clearTimeout(this.#gathering)
    for (const viewer of this.#waiting.keys()) viewer.end()
  }

  #sendAll(): void {
    this.#gathering = undefined
    const message = messageOf(this.source.status)
    for (const viewer of this.#waiting.keys()) {
      if (viewer.writableNeedDrain) this.#waiting.set(viewer, message)
      else viewer.write(message)
    }
  }
}

function messageOf(status: StatusSource['status']): string {
  return `data: ${JSON.stringify(statusSections(status))}\n\n`
}
