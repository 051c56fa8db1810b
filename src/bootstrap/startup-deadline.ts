import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import type { ServersAvailability } from './servers-availability.ts'

/** How long a server that answers may refuse what a start needs: admission and RBAC that are not ready yet refuse at first. */
export const STARTUP_TIMEOUT_MS = 60_000

/**
 * Resolves with `settled`. Rejects when the server has been ready for {@link STARTUP_TIMEOUT_MS} and still refuses what the start
 * needs: that will not mend itself, and a program that only logs it would look alive. A server that is away is waited for.
 */
export async function startedWithin(
  settled: Promise<void>,
  options: {
    /** Whose refusals count, as the availability of the servers knows them. */
    readonly sources: readonly string[]
    readonly monitor: ReadinessMonitor
    readonly availability: ServersAvailability
    readonly clock: Clock
    readonly signal: AbortSignal
  },
): Promise<void> {
  const { sources, monitor, availability, clock, signal } = options
  const { controller: waiting, unlink } = linkedController(signal)
  const deadline = async (): Promise<void> => {
    await monitor.untilFirstReady(waiting.signal)
    for (;;) {
      await sleep(clock, STARTUP_TIMEOUT_MS, waiting.signal)
      const refusal = availability.refusalOf(...sources)
      if (refusal !== undefined) {
        throw new Error(`still refused after ${STARTUP_TIMEOUT_MS / 1000}s: ${refusal}`)
      }
    }
  }
  try {
    await Promise.race([abortable(settled, signal), deadline()])
  } finally {
    waiting.abort()
    unlink()
  }
}
