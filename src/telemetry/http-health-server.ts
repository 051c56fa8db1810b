import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import { systemClock } from '../runtime/system-clock.ts'
import { expiryReporter } from './expiry.ts'
import {
  answerHealth,
  answerHealthCheck,
  type HealthAccess,
  type HealthCaller,
  type HealthCheck,
  type HealthEndpoint,
  type HealthVerdict,
  healthEndpoints,
  healthFaultLog,
  isAlwaysAllowed,
} from './health.ts'
import {
  type BoundedServer,
  type BoundedServerOptions,
  type HttpAnswer,
  serveBounded,
  textAnswer,
} from './http-bounded-server.ts'
import type { Metrics } from './metrics.ts'

export interface HealthServerOptions extends Pick<BoundedServerOptions, 'host' | 'port' | 'tls' | 'logger'> {
  /** The checks of an endpoint; called at each request. */
  readonly checks: (endpoint: HealthEndpoint) => readonly HealthCheck[]
  readonly metrics: Metrics
  /**
   * Authorizes requests outside `alwaysAllowPaths`. @default everybody may read everything except the reasons of failed
   * checks
   */
  readonly access?: HealthAccess | undefined
  /** Public paths; one that ends in `*` covers all paths with that prefix. @default the three endpoints */
  readonly alwaysAllowPaths?: readonly string[] | undefined
}

const RENDERING_MS = 1000

/**
 * Serves `/livez`, `/readyz` and `/healthz` in kube-apiserver's form (`?verbose`, `?exclude=NAME`, one check at
 * `/readyz/NAME`) and `/metrics`, which is at most a second old. A change of the failed checks is logged once, not at
 * each probe.
 * @throws ListenError, ServingCertificateError
 */
export function serveHealth(options: HealthServerOptions): Promise<BoundedServer> {
  const { host, port, tls, logger } = options
  const onExpiry = expiryReporter({ ...options, clock: systemClock })
  return serveBounded({ host, port, tls, logger, onExpiry, respond: healthResponder(options) })
}

function healthResponder(options: HealthServerOptions): (request: IncomingMessage) => Promise<HttpAnswer> {
  const { checks, metrics, access, alwaysAllowPaths = healthEndpoints.map((name) => `/${name}`) } = options
  const noteFaults = healthFaultLog(options.logger)
  const metricsPage = sharedPage(metrics)
  return async (request) => {
    const { method, headers } = request
    if (method !== 'GET' && method !== 'HEAD') {
      return { ...textAnswer(405, 'method not allowed\n'), headers: { allow: 'GET, HEAD', connection: 'close' } }
    }
    const url = URL.parse(request.url ?? '/', 'http://localhost')
    if (url === null) return textAnswer(400, 'bad request\n')
    const isProtected = access !== undefined && !isAlwaysAllowed(url.pathname, alwaysAllowPaths)
    if (isProtected) {
      const asked = { verb: method.toLowerCase(), path: url.pathname }
      const verdict = await access.authorize(callerOf(request.socket, headers.authorization), asked)
      if (verdict !== 200) return refusal(verdict)
    }
    if (url.pathname === '/metrics') return metricsPage()
    const endpoint = healthEndpoints.find((name) => url.pathname === `/${name}` || url.pathname.startsWith(`/${name}/`))
    if (endpoint === undefined) return textAnswer(404, '404 page not found\n')

    if (url.pathname === `/${endpoint}`) {
      const answer = await answerHealth({
        endpoint,
        checks: checks(endpoint),
        excluded: url.searchParams.getAll('exclude'),
        verbose: url.searchParams.has('verbose'),
        metrics,
      })
      noteFaults(endpoint, answer)
      return textAnswer(answer.status, answer.text)
    }
    const name = decoded(url.pathname.slice(endpoint.length + 2))
    const check = checks(endpoint).find((candidate) => candidate.name === name)
    if (check === undefined) return textAnswer(404, '404 page not found\n')
    const answer = await answerHealthCheck(check, { reason: isProtected ? 'shown' : 'withheld' })
    return textAnswer(answer.status, answer.text)
  }
}

/** Renders the metrics at most once a second. All requests within that second share the page and its bytes. */
function sharedPage(metrics: Metrics): () => Promise<HttpAnswer> {
  let page: Promise<HttpAnswer> | undefined
  let renderedAtMs = 0
  return () => {
    const nowMs = performance.now()
    if (page !== undefined && nowMs - renderedAtMs < RENDERING_MS) return page
    renderedAtMs = nowMs
    page = metrics.expose().then((body) => ({
      status: 200,
      contentType: 'text/plain; version=0.0.4; charset=utf-8',
      body: Buffer.from(body),
    }))
    return page
  }
}

function callerOf(socket: IncomingMessage['socket'], authorization: string | undefined): HealthCaller {
  const [, bearerToken] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? []
  const certificate = socket instanceof TLSSocket ? certificateOf(socket) : undefined
  return { address: socket.remoteAddress ?? '', bearerToken, certificate }
}

function certificateOf(socket: TLSSocket): HealthCaller['certificate'] {
  if (!socket.authorized) return undefined
  const { subject = {}, valid_to: ends } = socket.getPeerCertificate()
  // The certificate was valid when the connection was opened, but that may be long ago.
  if (Date.parse(ends) <= systemClock.wallMs()) return undefined
  // Names that occur more than once arrive as a list, contrary to the type.
  const { CN, O } = subject as Readonly<Record<string, string | string[] | undefined>>
  return typeof CN === 'string' && CN !== '' ? { user: CN, groups: [O ?? []].flat() } : undefined
}

function refusal(status: Exclude<HealthVerdict, 200>): HttpAnswer {
  const words = {
    401: 'unauthorized: a bearer token or a client certificate is required\n',
    403: 'forbidden\n',
    429: 'too many unknown callers; try again later\n',
    500: 'internal server error: cannot check authorization\n',
  }
  return { ...textAnswer(status, words[status]), ...(status === 401 && { headers: { 'www-authenticate': 'Bearer' } }) }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
