import { type Logger, silentLogger } from '../telemetry/logger.ts'
import { answerLimits } from './answer-limits.ts'
import { isKubeError } from './errors.ts'
import type { Readiness, ReadinessAnswer, ReadinessCheck } from './readiness.ts'
import type { Transport } from './transport.ts'

export interface HttpReadinessOptions {
  /** The way to the API server that is asked. */
  readonly transport: Transport
  /** @default '/readyz' */
  readonly path?: string | undefined
  /**
   * How long one probe may take, in milliseconds: longer than the two seconds after which kube-apiserver's own check of etcd gives up,
   * so that a hung etcd is told from a hung server. @default 3000
   */
  readonly timeoutMs?: number | undefined
  /** Hears when the answers begin and cease to say nothing about the server. @default none */
  readonly logger?: Logger | undefined
}

/**
 * Asks an API server for its readiness with GET /readyz?verbose.
 *
 * HTTP 200 is ready, 5xx is not. An answer that says nothing about the server (401, 403, 404, a redirect, for which the configuration
 * is to blame, or 429, given without looking at the request) is `refused`. The log has one line when refusals begin and one when the server
 * tells again.
 */
export function httpReadiness(options: HttpReadinessOptions): Readiness {
  const { transport, path = '/readyz', timeoutMs = 3_000, logger = silentLogger } = options
  let refusedBefore = false
  const logRefusal = (reason: string): void => {
    if (!refusedBefore) {
      logger.warn(
        { reason },
        'the readiness of the API server cannot be judged: it counts as before as long as it answers',
      )
    }
    refusedBefore = true
  }
  const logJudged = (): void => {
    if (refusedBefore) logger.info({ path }, 'the readiness of the API server can be judged again')
    refusedBefore = false
  }
  return {
    async probe(signal: AbortSignal): Promise<ReadinessAnswer> {
      try {
        const response = await transport.send(
          {
            method: 'GET',
            path,
            query: [['verbose', 'true']],
            headers: { accept: '*/*' },
            timeoutMs,
            maxBytes: answerLimits.text,
          },
          signal,
        )
        const { status } = response
        if (status >= 300 && status < 500) {
          const refused = `${path} cannot be asked: HTTP status ${status}${hints[status] ?? ''}`
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
