import { type HealthCheck, type HealthEndpoint, healthEndpoints, ping } from '../telemetry/health.ts'

const shutdownName = 'shutdown'

/**
 * The health checks of one program, by name: first `ping` and `log`, then those that are added, and on readyz
 * `shutdown` last.
 */
export class HealthChecks {
  readonly #entries: { readonly check: HealthCheck; readonly endpoints: readonly HealthEndpoint[] }[] = [
    { check: ping, endpoints: healthEndpoints },
    // Lines are written synchronously: a log that blocks blocks this answer too, which is what upstream's check tells.
    { check: { name: 'log', fault: () => undefined }, endpoints: healthEndpoints },
  ]
  readonly #shutdown: { readonly check: HealthCheck; readonly endpoints: readonly HealthEndpoint[] }

  /** `stopping` is asked at each check of `shutdown`. */
  constructor(stopping: () => boolean) {
    const fault = (): string | undefined => (stopping() ? 'process is shutting down' : undefined)
    this.#shutdown = { check: { name: shutdownName, fault }, endpoints: ['readyz'] }
  }

  has(name: string): boolean {
    return name === shutdownName || this.#entries.some(({ check }) => check.name === name)
  }

  /** Adds a check to some endpoints. A name may be added again for other endpoints only. */
  add(check: HealthCheck, endpoints: readonly HealthEndpoint[]): void {
    this.#entries.push({ check, endpoints })
  }

  /** The checks of an endpoint, in the order of being added. */
  of(endpoint: HealthEndpoint): readonly HealthCheck[] {
    return [...this.#entries, this.#shutdown]
      .filter(({ endpoints }) => endpoints.includes(endpoint))
      .map(({ check }) => check)
  }
}
