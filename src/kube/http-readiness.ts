import { memoize } from '../runtime/memo.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import { noOutages, type Outages } from '../telemetry/outages.ts'
import { isKubeError } from './errors.ts'
import type { Readiness, ReadinessAnswer, ReadinessCheck } from './readiness.ts'
import { type ApiRequest, type ApiResponse, answerLimits, type Transport } from './transport.ts'

interface HttpReadinessOptions {
  readonly transport: Transport
  /** @default '/readyz' */
  readonly path?: string | undefined
  /** The server's name in messages, such as its URL. @default the path */
  readonly name?: string | undefined
  /**
   * How long one probe may take, in milliseconds. kube-apiserver makes its checks of etcd in turn, and each gives up
   * after two seconds. So a probe outlasts one check that hangs, but not two; {@link Readiness.answers} may then still
   * succeed.
   * @default 3000
   */
  readonly timeoutMs?: number | undefined
  /** Logs when the server begins to refuse probes, and when it ceases to. @default none */
  readonly logger?: Logger | undefined
  /** The outages of the server that is probed. @default no outage is known */
  readonly outages?: Outages | undefined
}

/**
 * This many answers in a row without a refusal end a series of refusals, so that occasional refusals cause one line.
 */
const ANSWERS_TO_RECOVER = 3
/** The first refusal of a series is not logged, because a starting server refuses until it has read its RBAC rules. */
const REFUSALS_TO_REPORT = 2

/**
 * Reads the readiness of an API server with GET /readyz?verbose.
 *
 * HTTP 200 means ready, 5xx not ready. If the path ends in /readyz, `answers` requests /livez?exclude=etcd with the
 * same prefix, to find out whether the server answers at all. While there are no credentials, both requests are
 * anonymous, because a server can be alive although we have no token. An answer of 3xx or 4xx does not show whether the
 * server is ready, and is `refused`: the configuration causes 401, 403, 404 and redirects, and the server sends 429
 * before it handles the request.
 */
export function httpReadiness(options: HttpReadinessOptions): Readiness {
  const {
    transport,
    path = '/readyz',
    name = path,
    timeoutMs = 3_000,
    logger = silentLogger,
    outages = noOutages,
  } = options
  const livez = path.endsWith('/readyz') ? path.replace(/readyz$/, 'livez') : undefined
  /** How many more answers end the series of refusals; 0 if there is no series. */
  let missing = 0
  let refusals = 0
  const refused = outages.symptom()
  const logRefusal = (reason: string): void => {
    missing = ANSWERS_TO_RECOVER
    refusals += 1
    if (refusals < REFUSALS_TO_REPORT) return
    const message =
      'the readiness of the API server is unknown; its last known readiness is used while the server responds'
    refused.present(logger, { reason }, message)
  }
  const logRecovered = (): void => {
    missing = Math.max(0, missing - 1)
    if (missing > 0) return
    refused.absent(logger, { path }, 'the readiness of the API server is known again')
    refusals = 0
  }
  const get = (asked: string, query: ApiRequest['query'], signal: AbortSignal): Promise<ApiResponse> =>
    transport.send(
      {
        method: 'GET',
        path: asked,
        query,
        headers: { accept: '*/*' },
        timeoutMs,
        maxBytes: answerLimits.text,
        mayBeAnonymous: true,
      },
      signal,
    )
  return {
    // We request no path such as /livez/ping, because API priority and fairness exempts only /livez itself.
    async answers(signal: AbortSignal): Promise<boolean> {
      if (livez === undefined) return false
      try {
        await get(livez, [['exclude', 'etcd']], signal)
        return true
      } catch (error) {
        if (signal.aborted || !isKubeError(error)) throw error
        return false
      }
    },
    async probe(signal: AbortSignal): Promise<ReadinessAnswer> {
      try {
        const response = await get(path, [['verbose', 'true']], signal)
        const { status } = response
        if (status >= 300 && status < 500) {
          const reason = `${name} cannot be read: HTTP status ${status}${hints[status] ?? ''}`
          logRefusal(reason)
          return { answered: true, ready: false, checks: [], refused: reason, ...(status === 429 && { passing: true }) }
        }
        logRecovered()
        const body = 'body' in response && typeof response.body === 'string' ? response.body : ''
        return { answered: true, ready: status === 200, checks: parseReadinessChecks(body) }
      } catch (error) {
        if (signal.aborted || !isKubeError(error)) throw error
        return { answered: false, reason: error.message }
      }
    },
  }
}

const hints: Readonly<Record<number, string>> = {
  401: '; neither the credentials nor anonymous requests are accepted',
  403: '; the user is not allowed to get it (see ClusterRole system:public-info-viewer)',
  404: '; the server does not serve this path',
  429: '; the server has too many requests',
}

/**
 * The checks in a verbose answer: lines `[+]name ok` and `[-]name failed: reason withheld`; other lines are ignored.
 * Results are cached, because each probe gets the same text until something changes.
 */
export const parseReadinessChecks = memoize((text): readonly ReadinessCheck[] => {
  const checks: ReadinessCheck[] = []
  for (const line of text.split('\n')) {
    const [, mark, name] = /^\[([+-])\](\S+)/.exec(line) ?? []
    if (name !== undefined) checks.push({ name, ok: mark === '+' })
  }
  return checks
}, 16)
