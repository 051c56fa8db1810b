import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, Agent as HttpsAgent, request, type Server } from 'node:https'
import type { Apiserver } from './apiserver.ts'
import type { Owner } from './owner.ts'
import { freePort } from './ports.ts'
import { startOnFreePorts } from './process.ts'

/** What the proxy does instead of asking the server. */
export type Fault =
  | { readonly answer: 'status'; readonly status: number; readonly retryAfterSeconds?: number }
  /** 200 and application/json, but the body is not JSON. */
  | { readonly answer: 'garbage' }
  /** The server's real answer up to its middle; then the connection ends. */
  | { readonly answer: 'torn' }

/** One request as the proxy saw it. */
export interface SeenRequest {
  readonly method: string
  /** Includes the query. */
  readonly path: string
  readonly atMs: number
}

/**
 * A TLS-terminating proxy in front of a test server, with a certificate of the same authority. It can misbehave as an
 * API server or a load balancer does.
 */
export class HttpProxy {
  readonly url: string
  /** Every request since the start. */
  readonly requests: SeenRequest[] = []
  /** How many requests were answered with a fault. */
  failed = 0
  readonly #watches = new Set<ServerResponse>()
  readonly #server: Server
  readonly #target: Apiserver
  readonly #agent: HttpsAgent
  #fault: { readonly matches: (path: string) => boolean; readonly fault: Fault } | undefined
  #token: string | undefined

  private constructor(port: number, server: Server, target: Apiserver) {
    this.url = `https://127.0.0.1:${port}`
    this.#server = server
    this.#target = target
    this.#agent = new HttpsAgent({ keepAlive: true, ca: target.authority.certificate })
    server.on('request', (incoming, outgoing) => this.#handle(incoming, outgoing))
  }

  static async start(owner: Owner, target: Apiserver): Promise<HttpProxy> {
    const { certificate, key } = target.authority.issue({ commonName: 'proxy', ips: ['127.0.0.1'] })
    const proxy = await startOnFreePorts(async () => {
      const port = await freePort()
      const server = createServer({ cert: certificate, key })
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      return new HttpProxy(port, server, target)
    })
    owner.after(() => proxy.close())
    return proxy
  }

  /** How many watches are open at this moment. */
  get watches(): number {
    return this.#watches.size
  }

  /** Answers with a fault every request whose path, including its query, matches, until `heal`. */
  fail(matches: (path: string) => boolean, fault: Fault): void {
    this.#fault = { matches, fault }
  }

  heal(): void {
    this.#fault = undefined
  }

  /**
   * From now on accepts only this bearer token, and answers 401 to all other requests. A request with this token acts
   * as the administrator. Open streams end, as on a server that checks tokens again.
   */
  acceptOnly(token: string): void {
    this.#token = token
    this.cut()
  }

  /** Closes every open connection. */
  cut(): void {
    this.#server.closeAllConnections()
  }

  /** Closes the connections of watches only, so that no other request is disturbed. */
  cutWatches(): void {
    for (const response of this.#watches) response.destroy()
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.cut()
    this.#agent.destroy()
    await closed
  }

  #handle(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const path = incoming.url ?? '/'
    this.requests.push({ method: incoming.method ?? 'GET', path, atMs: performance.now() })
    if (this.#token !== undefined && incoming.headers.authorization !== `Bearer ${this.#token}`) {
      this.#refuse(incoming, outgoing, 401)
      return
    }
    const fault = this.#fault?.matches(path) ? this.#fault.fault : undefined
    if (fault !== undefined) this.failed++
    switch (fault?.answer) {
      case 'status':
        this.#refuse(incoming, outgoing, fault.status, fault.retryAfterSeconds)
        return
      case 'garbage':
        incoming.resume()
        outgoing.writeHead(200, { 'content-type': 'application/json' }).end('{"kind":"Serv')
        return
      case 'torn':
      case undefined:
        this.#forward(incoming, outgoing, path, fault !== undefined)
    }
  }

  #forward(incoming: IncomingMessage, outgoing: ServerResponse, path: string, torn: boolean): void {
    const headers = { ...incoming.headers, authorization: `Bearer ${this.#target.token}` }
    const { method } = incoming
    const upstream = request(`${this.#target.url}${path}`, { method, headers, agent: this.#agent }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      outgoing.flushHeaders()
      if (!torn) {
        answer.pipe(outgoing)
        answer.on('error', () => outgoing.destroy())
        return
      }
      answer.once('data', (chunk: Buffer) => {
        outgoing.write(chunk.subarray(0, chunk.length >> 1), () => outgoing.socket?.end())
        answer.destroy()
      })
    })
    upstream.on('error', () => outgoing.destroy())
    if (path.includes('watch=')) this.#watches.add(outgoing)
    outgoing.on('close', () => {
      this.#watches.delete(outgoing)
      upstream.destroy()
    })
    incoming.pipe(upstream)
  }

  #refuse(incoming: IncomingMessage, outgoing: ServerResponse, code: number, retryAfterSeconds?: number): void {
    incoming.resume()
    const retryAfter = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
    const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message: 'injected', code }
    outgoing.writeHead(code, { 'content-type': 'application/json', ...retryAfter }).end(JSON.stringify(status))
  }
}
