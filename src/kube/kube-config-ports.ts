import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { systemClock } from '../runtime/system-clock.ts'
import { systemRandom } from '../runtime/system-random.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'
import type { KubeApi } from './api.ts'
import { httpReadiness } from './http-readiness.ts'
import { type LoadKubeConfigOptions, loadKubeConfig } from './kube-config.ts'
import { fromKubeConfig } from './kube-config-transport.ts'
import type { Readiness } from './readiness.ts'
import { restKubeApi } from './rest-api.ts'

/** All that a master needs of the world, on the real clock. */
export interface Connection {
  readonly api: KubeApi
  /** /readyz of the kubeconfig's server, which must be the master's own. */
  readonly readiness: Readiness
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  /** Closes the pooled connections. */
  close(): Promise<void>
}

/** Connects to the server of a kubeconfig; contacts nobody yet. Rejects with a KubeConfigError of one line. */
export async function connect(
  options: LoadKubeConfigOptions & { readonly logger: Logger; readonly metrics?: Metrics },
): Promise<Connection> {
  const { logger, metrics = prometheusMetrics() } = options
  const clock = systemClock
  const random = systemRandom()
  const { config, access, reload } = await loadKubeConfig(options)
  const transport = fromKubeConfig(config, { access, reload, clock, logger, metrics })
  const api = restKubeApi({ transport, clock, random, logger, metrics })
  const readiness = httpReadiness({ transport, logger })
  return { api, readiness, clock, random, logger, metrics, close: () => transport.close() }
}
