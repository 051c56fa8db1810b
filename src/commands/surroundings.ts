import { userInfo } from 'node:os'
import type { Configuration } from '../config/configuration.ts'
import type { AuditUser } from '../kube/audit.ts'
import { systemClock } from '../runtime/system-clock.ts'
import { systemRandom } from '../runtime/system-random.ts'
import { createPinoLogger } from '../telemetry/pino-logger.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'
import type { ApiServer, Surroundings } from './api-server.ts'

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

/** Who this process is to the servers that were opened, and on this machine. */
export function auditUser(
  server: Pick<ApiServer, 'user'> | undefined,
  etcd: { readonly user?: string | undefined } | undefined,
): Omit<AuditUser, 'host'> {
  const { SUDO_USER: sudoUser } = process.env
  return { kubeconfigUser: server?.user, etcdUser: etcd?.user, localUser: localUser(), sudoUser }
}

/** By its number where no directory knows its name, as in most containers. */
function localUser(): string | undefined {
  try {
    return userInfo().username
  } catch {
    return process.getuid?.().toString()
  }
}
