import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  answerHealth,
  answerHealthCheck,
  type HealthAnswer,
  type HealthCheck,
  type HealthEndpoint,
  healthEndpoints,
} from './health.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'

export interface HealthServerOptions {
  /** An address of this machine, or a name for one. */
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** The checks of an endpoint, asked for at each request. */
  readonly checks: (endpoint: HealthEndpoint) => readonly HealthCheck[]
  readonly metrics: Metrics
  readonly logger: Logger
}

export interface HealthServer {
  /** The port in use, also where a free one was asked for. */
  readonly port: number
  /** `HOST:PORT`, an IPv6 host in brackets. */
  readonly address: string
  /** Takes no more requests; resolves when those under way are answered, cutting them off after a second. */
  close(): Promise<void>
}

/** The server cannot have the address it was given. The message is one line and names it; `cause` is the system's error. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
  readonly code = 'CannotListen'

  constructor(host: string, port: number, cause: NodeJS.ErrnoException) {
    const reason = listenFaults[cause.code ?? ''] ?? cause.message
    super(`cannot listen on ${hostPort(host, port)}: ${reason}`, { cause })
  }
}

const listenFaults: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EADDRNOTAVAIL: 'the address is not one of this machine',
  EACCES: 'not permitted',
  ENOTFOUND: 'no such host',
}

/**
 * Serves `/livez`, `/readyz` and `/healthz` in kube-apiserver's form (`?verbose`, `?exclude=NAME`, one check at
 * `/readyz/NAME`) and `/metrics`, over plain HTTP. A change of what fails is logged once, not each probe.
 * @throws ListenError
 */
export async function serveHealth(options: HealthServerOptions): Promise<HealthServer> {
  const respond = healthResponder(options)
  const server = createServer((request, response) => {
    respond(request).then(
      (answer) => send(response, answer),
      (error: unknown) => {
        options.logger.error({ error, path: request.url }, 'a health request failed')
        send(response, text(500, 'internal server error\n'))
      },
    )
  })
  const { port } = await listen(server, options.host, options.port)
  return { port, address: hostPort(options.host, port), close: () => closeServer(server) }
}

interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: string
  readonly allow?: string
}

function healthResponder(options: HealthServerOptions): (request: IncomingMessage) => Promise<Answer> {
  const { checks, metrics } = options
  const noteFaults = faultLog(options.logger)
  return async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return { ...text(405, 'method not allowed\n'), allow: 'GET, HEAD' }
    }
    const url = URL.parse(request.url ?? '/', 'http://localhost')
    if (url === null) return text(400, 'bad request\n')
    if (url.pathname === '/metrics') {
      return { status: 200, contentType: 'text/plain; version=0.0.4; charset=utf-8', body: await metrics.expose() }
    }
    const endpoint = healthEndpoints.find((name) => url.pathname === `/${name}` || url.pathname.startsWith(`/${name}/`))
    if (endpoint === undefined) return text(404, '404 page not found\n')

    if (url.pathname === `/${endpoint}`) {
      const answer = await answerHealth({
        endpoint,
        checks: checks(endpoint),
        excluded: url.searchParams.getAll('exclude'),
        verbose: url.searchParams.has('verbose'),
        metrics,
      })
      noteFaults(endpoint, answer)
      return text(answer.status, answer.text)
    }
    const name = decoded(url.pathname.slice(endpoint.length + 2))
    const check = checks(endpoint).find((candidate) => candidate.name === name)
    if (check === undefined) return text(404, '404 page not found\n')
    const answer = await answerHealthCheck(check)
    return text(answer.status, answer.text)
  }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

function faultLog(logger: Logger): (endpoint: HealthEndpoint, answer: HealthAnswer) => void {
  const failing = new Map<HealthEndpoint, string>()
  return (endpoint, { faults }) => {
    const names = faults.map(({ name }) => name).join()
    if (names === (failing.get(endpoint) ?? '')) return
    failing.set(endpoint, names)
    if (faults.length === 0) logger.info({ endpoint }, 'health checks pass again')
    else logger.warn({ endpoint, faults }, 'health checks fail')
  }
}

function text(status: number, body: string): Answer {
  return { status, contentType: 'text/plain; charset=utf-8', body }
}

function send(response: ServerResponse, answer: Answer): void {
  response.writeHead(answer.status, {
    'content-type': answer.contentType,
    'content-length': Buffer.byteLength(answer.body),
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-cache, private',
    ...(answer.allow === undefined ? {} : { allow: answer.allow }),
  })
  response.end(answer.body)
}

function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(new ListenError(host, port, error))
    server.once('error', onError)
    server.listen({ host, port, exclusive: true }, () => {
      server.removeListener('error', onError)
      resolve(server.address() as AddressInfo)
    })
  })
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const impatience = setTimeout(() => server.closeAllConnections(), 1000)
    server.close(() => {
      clearTimeout(impatience)
      resolve()
    })
  })
}

function hostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
