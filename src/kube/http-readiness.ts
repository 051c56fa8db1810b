import { type Logger, silentLogger } from '../telemetry/logger.ts'
import { answerLimits } from './answer-limits.ts'
import { isKubeError } from './errors.ts'
import type { Readiness, ReadinessAnswer, ReadinessCheck } from './readiness.ts'
import type { ApiRequest, ApiResponse, Transport } from './transport.ts'

export interface HttpReadinessOptions {
  /** The way to the API server that is asked. */
  readonly transport: Transport
  /** @default '/readyz' */
  readonly path?: string | undefined
  /** What messages call it, such as its URL. @default the path */
  readonly name?: string | undefined
  /**
   * How long one probe may take, in milliseconds: longer than the two seconds after which kube-apiserver's own check of etcd gives up,
   * so that a hung etcd is told from a hung server. @default 3000
   */
  readonly timeoutMs?: number | undefined
  /** Hears when the answers begin and cease to say nothing about the server. @default none */
  readonly logger?: Logger | undefined
}

/** So many answers in a row that tell something end a time of refusals. */
const JUDGED_AGAIN = 3
/** So many refusals are said: a server that has just started refuses once, until it has read its RBAC rules. */
const REFUSALS_SAID = 2

/**
 * Asks an API server for its readiness with GET /readyz?verbose.
 *
 * HTTP 200 is ready, 5xx is not. Where the path ends in /readyz, GET /livez?exclude=etcd beside it tells whether the server answers at all.
 * An answer that says nothing about the server (401, 403, 404, a redirect, for which the configuration is to blame, or 429, given without
 * looking at the request) is `refused`. The log has one line at the second refusal and one when the server
 * has told three times in a row: what refuses now and then is said once.
 */
export function httpReadiness(options: HttpReadinessOptions): Readiness {
  const { transport, path = '/readyz', name = path, timeoutMs = 3_000, logger = silentLogger } = options
  const livez = path.endsWith('/readyz') ? path.replace(/readyz$/, 'livez') : undefined
  /** How many answers are still missing until refusals count as over; 0 while there are none. */
  let missing = 0
  let refusals = 0
  const logRefusal = (reason: string): void => {
    missing = JUDGED_AGAIN
    refusals += 1
    if (refusals !== REFUSALS_SAID) return
    logger.warn(
      { reason },
      'the readiness of the API server cannot be judged: it counts as before as long as it answers',
    )
  }
  const logJudged = (): void => {
    missing = Math.max(0, missing - 1)
    if (missing > 0) return
    if (refusals >= REFUSALS_SAID) logger.info({ path }, 'the readiness of the API server can be judged again')
    refusals = 0
  }
  const get = (asked: string, query: ApiRequest['query'], signal: AbortSignal): Promise<ApiResponse> =>
    transport.send(
      { method: 'GET', path: asked, query, headers: { accept: '*/*' }, timeoutMs, maxBytes: answerLimits.text },
      signal,
    )
  return {
    // /livez itself needs no seat of API priority and fairness, which a path below it would.
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
          const refused = `${name} cannot be asked: HTTP status ${status}${hints[status] ?? ''}`
          logRefusal(refused)
          return { answered: true, ready: false, checks: [], refused }
        }
        logJudged()
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
  401: '; the credentials are not accepted, and anonymous requests neither',
  403: '; the user may not get it (ClusterRole system:public-info-viewer)',
  404: '; there is no such path on this server',
  429: '; the server takes no more requests',
}

/** The checks in a verbose answer: lines `[+]name ok` and `[-]name failed: reason withheld`; other lines are passed over. */
export function parseReadinessChecks(text: string): ReadinessCheck[] {
  const checks: ReadinessCheck[] = []
  for (const line of text.split('\n')) {
    const [, mark, name] = /^\[([+-])\](\S+)/.exec(line) ?? []
    if (name !== undefined) checks.push({ name, ok: mark === '+' })
  }
  return checks
}
