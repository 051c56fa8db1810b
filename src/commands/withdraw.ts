import { hostname } from 'node:os'
import pRetry from 'p-retry'
import { withdrawMaster } from '../bootstrap/master.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags } from '../config/resolve.ts'
import { isKubeError } from '../kube/errors.ts'
import { systemClock } from '../runtime/system-clock.ts'
import { systemRandom } from '../runtime/system-random.ts'
import { createPinoLogger } from '../telemetry/pino-logger.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'
import { openApiServer } from './api-server.ts'
import { masterOptionsOf } from './master-options.ts'
import { dieOfUnhandled, stopSignals } from './stop-signals.ts'

/**
 * Takes this master's address out and returns when it is out, or when it is clear that it must stay: both end with 0 and one line.
 * Bounded by twice the reconcile interval, as a shutdown is; failures of the server are tried again within that.
 */
export async function execute(flags: Flags): Promise<number> {
  const { configuration } = await loadConfiguration(flags)
  const stop = stopSignals()
  const logger = await createPinoLogger({ level: configuration.logLevel, format: configuration.logFormat })
  dieOfUnhandled((error) => logger.error({ error }, 'unhandled error'))
  const ports = { clock: systemClock, random: systemRandom(), logger, metrics: prometheusMetrics() }
  const { api, readiness, close } = await openApiServer(configuration, ports)
  const limitMs = 2 * configuration.reconcileInterval
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)])
  try {
    const options = masterOptionsOf(configuration, hostname())
    const { removed, reason } = await pRetry(() => withdrawMaster(options, { ...ports, api, readiness }, signal), {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 100,
      maxTimeout: 1000,
      signal,
      shouldRetry: ({ error }) =>
        isKubeError(error, 'Unreachable', 'Timeout', 'ServerError', 'TooManyRequests', 'Conflict'),
    })
    process.stdout.write(`${removed ? 'withdrawn' : 'kept'}: ${reason}\n`)
    return 0
  } finally {
    await close()
    stop.release()
  }
}
