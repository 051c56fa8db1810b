import { messageOf } from '../runtime/message-of.ts'
import type { Metrics } from './metrics.ts'

/** kube-apiserver's three: is it alive, may it be sent work, and the older mix of both. */
export type HealthEndpoint = 'livez' | 'readyz' | 'healthz'

export const healthEndpoints: readonly HealthEndpoint[] = ['livez', 'readyz', 'healthz']

/** One named thing that can be wrong. */
export interface HealthCheck {
  /** Such as `ping` or `poststarthook/bootstrap-controller`. */
  readonly name: string
  /**
   * What is wrong, in one line; undefined while nothing is. Throwing means the same as answering with the error's
   * message.
   */
  readonly fault: () => string | undefined | Promise<string | undefined>
}

/** Passes whenever the process can answer at all. */
export const ping: HealthCheck = { name: 'ping', fault: () => undefined }

export interface HealthAnswer {
  readonly status: 200 | 500
  readonly text: string
  /** The checks that failed, and why: for the log, not for the public. */
  readonly faults: readonly { readonly name: string; readonly fault: string }[]
  /** The checks that were not asked, because the caller has excluded them. */
  readonly excluded: readonly string[]
}

/**
 * Runs all checks of an endpoint but the excluded ones and answers as kube-apiserver does
 * (k8s.io/apiserver/pkg/server/healthz): `ok`, the list of checks with `verbose`, and the list in any case when one
 * fails. Reasons are withheld from the list, because anyone may read it. The results are counted as
 * `kubernetes_healthcheck`.
 */
export async function answerHealth(options: {
  readonly endpoint: HealthEndpoint
  readonly checks: readonly HealthCheck[]
  readonly excluded?: readonly string[]
  readonly verbose?: boolean
  readonly metrics: Metrics
}): Promise<HealthAnswer> {
  const { endpoint, excluded = [] } = options
  const count = healthCounter(options.metrics)
  // With nothing to ask, an answer is still worth something.
  const checks = options.checks.length > 0 ? options.checks : [ping]
  const results = await Promise.all(
    checks.map(async (check) => ({
      name: check.name,
      outcome: excluded.includes(check.name) ? ('excluded' as const) : { fault: await faultOf(check) },
    })),
  )

  const faults: { name: string; fault: string }[] = []
  const unasked: string[] = []
  let list = ''
  for (const { name, outcome } of results) {
    if (outcome === 'excluded') {
      list += `[+]${name} excluded: ok\n`
      unasked.push(name)
      continue
    }
    count(endpoint, name, outcome.fault === undefined)
    if (outcome.fault === undefined) {
      list += `[+]${name} ok\n`
    } else {
      list += `[-]${name} failed: reason withheld\n`
      faults.push({ name, fault: outcome.fault })
    }
  }
  const unknown = [...new Set(excluded)].filter((name) => !checks.some((check) => check.name === name)).sort()
  if (unknown.length > 0) {
    const quoted = unknown.map((name) => JSON.stringify(name)).join(',')
    list += `warn: some health checks cannot be excluded: no matches for ${quoted}\n`
  }

  const found = { faults, excluded: unasked }
  if (faults.length > 0) return { status: 500, text: `${list}${endpoint} check failed\n`, ...found }
  return { status: 200, text: options.verbose ? `${list}${endpoint} check passed\n` : 'ok', ...found }
}

/** Runs one check by itself. The reason is for those who may see it: it names servers, files and objects. */
export async function answerHealthCheck(
  check: HealthCheck,
  { reason }: { readonly reason: 'told' | 'withheld' },
): Promise<Pick<HealthAnswer, 'status' | 'text'>> {
  const fault = await faultOf(check)
  if (fault === undefined) return { status: 200, text: 'ok' }
  return { status: 500, text: `internal server error: ${reason === 'told' ? fault : 'reason withheld'}\n` }
}

async function faultOf(check: HealthCheck): Promise<string | undefined> {
  try {
    return await check.fault()
  } catch (error) {
    return messageOf(error)
  }
}

function healthCounter(metrics: Metrics): (type: HealthEndpoint, name: string, ok: boolean) => void {
  const latest = metrics.gauge({
    name: 'kubernetes_healthcheck',
    help: 'The latest result of each health check: 1 passed, 0 failed.',
    labels: ['name', 'type'],
  })
  const total = metrics.counter({
    name: 'kubernetes_healthchecks_total',
    help: 'Results of health checks.',
    labels: ['name', 'type', 'status'],
  })
  return (type, name, ok) => {
    latest.set({ name, type }, ok ? 1 : 0)
    total.add({ name, type, status: ok ? 'success' : 'error' })
  }
}
