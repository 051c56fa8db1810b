import { messageOf } from '../runtime/errors.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'

/**
 * kube-apiserver's endpoints: whether the process is alive, whether it is ready for requests, and an older mix of both.
 */
export type HealthEndpoint = 'livez' | 'readyz' | 'healthz'

export const healthEndpoints: readonly HealthEndpoint[] = ['livez', 'readyz', 'healthz']

export interface HealthCheck {
  /** Such as `ping` or `poststarthook/bootstrap-controller`. */
  readonly name: string
  /** The fault in one line; undefined while there is none. A thrown error counts as a fault with its message. */
  readonly fault: () => string | undefined | Promise<string | undefined>
  /** What is still missing although the check passes, as one line that everybody may read. @default nothing */
  readonly remark?: (() => string | undefined) | undefined
}

/** Passes whenever the process can answer at all. */
export const ping: HealthCheck = { name: 'ping', fault: () => undefined }

interface HealthAnswer {
  readonly status: 200 | 500
  readonly text: string
  /** The failed checks and their faults: for the log, not for the public. */
  readonly faults: readonly { readonly name: string; readonly fault: string }[]
  readonly excluded: readonly string[]
}

/**
 * Runs all checks of an endpoint except the excluded ones and answers as kube-apiserver does
 * (k8s.io/apiserver/pkg/server/healthz): `ok`, or the list of checks if `verbose` is set or a check fails. The list has
 * no reasons for failures, because the list is public. The metrics `kubernetes_healthcheck` and
 * `kubernetes_healthchecks_total` record the results.
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
  // Without any check, an answer still shows that the process is alive.
  const checks = options.checks.length > 0 ? options.checks : [ping]
  const asked = checks.filter(({ name }) => !excluded.includes(name))
  const found = new Map(await Promise.all(asked.map(async (check) => [check.name, await faultOf(check)] as const)))
  for (const [name, fault] of found) count(endpoint, name, fault === undefined)
  const faults = [...found].flatMap(([name, fault]) => (fault === undefined ? [] : [{ name, fault }]))
  const lineOf = ({ name, remark }: HealthCheck): string => {
    if (!found.has(name)) return `[+]${name} excluded: ok\n`
    if (found.get(name) !== undefined) return `[-]${name} failed: reason withheld\n`
    const lack = remark?.()
    return lack === undefined ? `[+]${name} ok\n` : `[+]${name} ok, but: ${lack}\n`
  }
  let list = checks.map(lineOf).join('')
  const unknown = [...new Set(excluded)].filter((name) => !checks.some((check) => check.name === name)).sort()
  if (unknown.length > 0) {
    const quoted = unknown.map((name) => JSON.stringify(name)).join(',')
    list += `warn: some health checks cannot be excluded: no matches for ${quoted}\n`
  }

  const answer = { faults, excluded: checks.map(({ name }) => name).filter((name) => !found.has(name)) }
  if (faults.length > 0) return { status: 500, text: `${list}${endpoint} check failed\n`, ...answer }
  return { status: 200, text: options.verbose ? `${list}${endpoint} check passed\n` : 'ok', ...answer }
}

/** Runs a single check. The reason is only for authorized callers, because it names servers, files and objects. */
export async function answerHealthCheck(
  check: HealthCheck,
  { reason }: { readonly reason: 'shown' | 'withheld' },
): Promise<Pick<HealthAnswer, 'status' | 'text'>> {
  const fault = await faultOf(check)
  if (fault === undefined) return { status: 200, text: 'ok' }
  return { status: 500, text: `internal server error: ${reason === 'shown' ? fault : 'reason withheld'}\n` }
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

/**
 * Logs which checks of an endpoint fail, whenever these checks change. A check that a request excludes keeps its last
 * result, so that no caller can cause log lines, or hide failures, by excluding checks.
 */
export function healthFaultLog(logger: Logger): (endpoint: HealthEndpoint, answer: HealthAnswer) => void {
  const known = new Map<HealthEndpoint, HealthAnswer['faults']>()
  return (endpoint, answer) => {
    const before = known.get(endpoint) ?? []
    const faults = [...answer.faults, ...before.filter(({ name }) => answer.excluded.includes(name))]
    known.set(endpoint, faults)
    if (namesOf(faults) === namesOf(before)) return
    if (faults.length === 0) logger.info({ endpoint }, 'health checks pass again')
    else logger.warn({ endpoint, faults }, 'health checks fail')
  }
}

function namesOf(faults: HealthAnswer['faults']): string {
  return faults
    .map(({ name }) => name)
    .sort()
    .join()
}

/** The caller, as far as the connection and the request identify it. */
export interface HealthCaller {
  /** The IP address at the other end of the connection: perhaps that of a proxy. */
  readonly address: string
  /** From the `Authorization` header. */
  readonly bearerToken: string | undefined
  /** From a client certificate that the authorities have issued. */
  readonly certificate: { readonly user: string; readonly groups: readonly string[] } | undefined
}

/** 200 if a caller may have what it requests, else the HTTP status of the refusal. */
export type HealthVerdict =
  | 200
  /** Not authenticated. */
  | 401
  /** Authenticated, and not authorized. */
  | 403
  /** Too many unknown callers at the moment. */
  | 429
  /** Authenticated, but the authorization could not be checked. */
  | 500

/** Authorizes callers for what is not public: the metrics, and the reasons of failed checks. Never rejects. */
export interface HealthAccess {
  /** `verb` is the method in lower case, `path` is without the query. */
  authorize(caller: HealthCaller, request: { readonly verb: string; readonly path: string }): Promise<HealthVerdict>
}

/**
 * Whether a pattern equals the path, or is a prefix of the path followed by `*`, as in kube-apiserver's
 * `--authorization-always-allow-paths`.
 */
export function isAlwaysAllowed(path: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern))
}
