import type { Configuration } from '../config/configuration.ts'
import { systemClock } from '../runtime/system-clock.ts'
import { systemRandom } from '../runtime/system-random.ts'
import { createPinoLogger } from '../telemetry/pino-logger.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'
import type { Surroundings } from './api-server.ts'

/** The real clock, randomness, log and metrics. A `terminal` takes the log lines, in the form for people, instead of standard error. */
export async function openSurroundings(
  configuration: Configuration,
  terminal?: { write(line: string): void },
): Promise<Surroundings> {
  const { logLevel: level, logFormat: format } = configuration
  const logger = await createPinoLogger(
    terminal === undefined ? { level, format } : { level, format: 'pretty', destination: terminal },
  )
  return { clock: systemClock, random: systemRandom(), logger, metrics: prometheusMetrics() }
}
