import { abortable } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { MasterOptions } from './master-options.ts'
import type { Repairs } from './repair-parts.ts'
import type { ServersAvailability } from './servers-availability.ts'
import { repairedWithin, type StartupWait } from './startup-deadline.ts'

/**
 * Resolves when every repair has had its first pass, or need not have one here. Rejects when that takes too long, unless the options say that
 * the program stays up nevertheless.
 */
export async function firstPasses(
  repairs: Pick<Repairs, 'reason'> & { readonly switches: readonly { readonly value: { settled(): Promise<void> } }[] },
  { repairDegraded, dryRun, startupTimeoutMs: timeoutMs }: MasterOptions,
  parts: Omit<StartupWait, 'timeoutMs'> & { readonly availability: ServersAvailability; readonly logger: Logger },
): Promise<void> {
  const { availability, logger, signal } = parts
  const settled = Promise.all(repairs.switches.map(({ value }) => value.settled())).then(() => {})
  // What a dry run does not write is never right.
  if (dryRun) return abortable(settled, signal)
  const away = (): boolean => !availability.etcdAvailable
  try {
    await repairedWithin(settled, { ...parts, timeoutMs, reason: () => repairs.reason(), away })
  } catch (error) {
    if (!repairDegraded || signal.aborted) throw error
    logger.warn(
      { reason: (error as Error).message },
      'the repairs have not started in time; they go on trying, and this program is unready',
    )
    await abortable(settled, signal)
  }
}
