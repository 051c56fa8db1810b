import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Agent, createServer, request, type Server } from 'node:https'
import { join } from 'node:path'
import type { CertificateAuthority } from './certificates.ts'
import {
  concerns,
  type Fault,
  type FaultRule,
  FaultRules,
  type FaultyRequest,
  type PlacedFault,
} from './fault-rules.ts'
import { writeKubeconfig } from './kubeconfig.ts'
import { type Owner, temporaryDirectory } from './owner.ts'
import { freePort } from './ports.ts'
import { startOnFreePorts } from './process.ts'

/** A kube-apiserver, or another server with TLS on this port. */
interface Target {
  readonly port: number
  readonly authority: CertificateAuthority
  readonly token: string
}

/** What may be answered in protobuf: all, nothing, or all but watches. Only events in JSON can be lost one by one. */
type Protobuf = 'all' | 'none' | 'no-watches'

interface OpenWatch {
  readonly request: FaultyRequest
  cut(): void
}

/**
 * A proxy in front of a real kube-apiserver. It terminates TLS, so it can do to single requests what gateways, webhooks
 * and lost permissions do. It passes on the credentials of its clients.
 */
export class FaultProxy {
  readonly port: number
  /** The administrator's, through this proxy. */
  readonly kubeconfig: string
  readonly #server: Server
  readonly #agent: Agent
  readonly #target: number
  readonly #protobuf: Protobuf
  readonly #rules: FaultRules
  readonly #watches = new Set<OpenWatch>()

  private constructor(owner: Owner, server: Server, port: number, target: Target, protobuf: Protobuf) {
    const { authority, token } = target
    this.port = port
    this.#server = server
    this.#target = target.port
    this.#protobuf = protobuf
    this.#agent = new Agent({ keepAlive: true, ca: authority.certificate })
    this.kubeconfig = writeKubeconfig(join(temporaryDirectory(owner, 'proxy'), 'kubeconfig'), {
      server: `https://127.0.0.1:${port}`,
      ca: authority.certificate,
      token,
    })
    this.#rules = new FaultRules((rule) => {
      for (const watch of this.#watches) if (concerns(rule, watch.request)) watch.cut()
    })
    server.on('request', (incoming, outgoing) => this.#serve(incoming, outgoing))
    // Clients may disconnect at any time.
    server.on('tlsClientError', () => {})
  }

  static start(owner: Owner, target: Target, protobuf: Protobuf = 'no-watches'): Promise<FaultProxy> {
    return startOnFreePorts(async () => {
      const { certificate: cert, key } = target.authority.issue({ commonName: 'proxy', ips: ['127.0.0.1'] })
      const server = createServer({ cert, key, ALPNProtocols: ['http/1.1'] })
      const port = await freePort()
      const proxy = new FaultProxy(owner, server, port, target, protobuf)
      await proxy.accept()
      owner.after(() => proxy.#close())
      return proxy
    })
  }

  /** Injects a fault from now on. */
  place(rule: FaultRule): PlacedFault {
    return this.#rules.place(rule)
  }

  /** Refuses connections, and closes the open ones, until `accept`: for its client the server is dead. */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async accept(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async #close(): Promise<void> {
    this.#rules.clear()
    await this.refuse()
    this.#agent.destroy()
  }

  #serve(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const asked = requestOf(incoming.method ?? 'GET', incoming.url ?? '/')
    this.#rules.treat(asked, {
      answer: (fault) => answer(asked, outgoing, fault),
      forward: (whenAnswered) => this.#forward(asked, incoming, outgoing, whenAnswered),
      close: () => outgoing.destroy(),
    })
  }

  #forward(
    asked: FaultyRequest,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    whenAnswered: (pass: () => void) => void,
  ): void {
    if (outgoing.destroyed) return
    const { method, url } = incoming
    const isWatch = asked.verb === 'watch'
    const inJson = this.#protobuf === 'none' || (isWatch && this.#protobuf === 'no-watches')
    const headers = inJson ? { ...incoming.headers, accept: 'application/json' } : incoming.headers
    const upstream = request({ host: '127.0.0.1', port: this.#target, agent: this.#agent, method, path: url, headers })
    const cut = (): void => {
      upstream.destroy()
      outgoing.destroy()
    }
    upstream.on('error', cut)
    outgoing.on('close', () => upstream.destroy())
    incoming.pipe(upstream)
    upstream.on('response', (response) => {
      response.on('error', cut)
      whenAnswered(() => {
        if (outgoing.destroyed) return
        const { connection: _, 'transfer-encoding': __, ...rest } = response.headers
        outgoing.writeHead(response.statusCode as number, rest)
        if (isWatch) this.#remember({ request: asked, cut }, outgoing)
        if (isWatch && inJson) this.#passEvents(asked, response, outgoing)
        else response.pipe(outgoing)
      })
    })
  }

  #remember(watch: OpenWatch, outgoing: ServerResponse): void {
    this.#watches.add(watch)
    outgoing.on('close', () => this.#watches.delete(watch))
    outgoing.flushHeaders()
  }

  #passEvents(asked: FaultyRequest, response: IncomingMessage, outgoing: ServerResponse): void {
    let rest = ''
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() as string
      for (const line of lines) {
        const isBookmark = line.includes('"type":"BOOKMARK"')
        if (isBookmark || !this.#rules.losesEvent(asked)) outgoing.write(`${line}\n`)
      }
    })
    response.on('end', () => outgoing.end(rest))
  }
}

const verbs = { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' } as const

/** The resource and verb of a request. If the path has no resource, its first word stands for it (`readyz`). Pure. */
export function requestOf(method: string, url: string): FaultyRequest {
  const { pathname, searchParams } = new URL(url, 'https://server')
  const [root = '', ...path] = pathname.split('/').filter((word) => word !== '')
  const inGroup = path.slice(root === 'api' ? 1 : 2)
  if ((root !== 'api' && root !== 'apis') || inGroup.length === 0) return { resource: root, verb: 'get' }
  const [resource = '', name] = inGroup[0] === 'namespaces' && inGroup.length > 2 ? inGroup.slice(2) : inGroup
  const written = verbs[method as keyof typeof verbs]
  if (written !== undefined) return { resource, verb: written }
  if (searchParams.get('watch') === 'true') return { resource, verb: 'watch' }
  return { resource, verb: name === undefined ? 'list' : 'get' }
}

const reasons: Readonly<Record<number, string>> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
}

function answer(asked: FaultyRequest, outgoing: ServerResponse, fault: Extract<Fault, { type: 'answer' }>): void {
  const { status, retryAfterSeconds, failing } = fault
  if (asked.resource === 'readyz' && failing !== undefined) {
    outgoing.writeHead(status, { 'content-type': 'text/plain' })
    const checks = failing.map((check) => `[-]${check} failed: reason withheld\n`)
    outgoing.end(`[+]ping ok\n${checks.join('')}readyz check failed\n`)
    return
  }
  outgoing.writeHead(status, {
    'content-type': 'application/json',
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
  })
  const message = `the fault proxy answers ${status}`
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status, reason: reasons[status], message }
  outgoing.end(JSON.stringify(body))
}
