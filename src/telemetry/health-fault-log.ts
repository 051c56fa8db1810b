import type { HealthAnswer, HealthEndpoint } from './health.ts'
import type { Logger } from './logger.ts'

/**
 * Logs which checks of an endpoint fail, whenever that changes. A check that a request has excluded counts as it was when it was last asked, so
 * that nobody makes lines, or hides what fails, by what they exclude.
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
