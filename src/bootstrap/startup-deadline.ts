import { formatDuration } from '../documents/duration.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable, linkedController } from '../runtime/signals.ts'

/**
 * Resolves with `settled`. Rejects when the server has been ready for `timeoutMs` and still refuses what the start needs: admission
 * and RBAC that are not ready yet refuse at first, but this will not mend itself, and a program that only logs it would look alive.
 * A server that is away is waited for.
 */
export async function startedWithin(
  settled: Promise<void>,
  options: {
    readonly monitor: Pick<ReadinessMonitor, 'untilFirstReady'>
    readonly clock: Clock
    readonly timeoutMs: number
    /** What is refused for good. */
    readonly refusal: () => string | undefined
    readonly signal: AbortSignal
  },
): Promise<void> {
  const { monitor, clock, timeoutMs, refusal } = options
  const { controller: waiting, unlink } = linkedController(options.signal)
  const deadline = async ({ signal }: AbortController): Promise<never> => {
    await monitor.untilFirstReady(signal)
    for (;;) {
      await sleep(clock, timeoutMs, signal)
      const reason = refusal()
      if (reason !== undefined) throw new Error(`still refused after ${formatDuration(timeoutMs)}: ${reason}`)
    }
  }
  try {
    await Promise.race([abortable(settled, options.signal), deadline(waiting)])
  } finally {
    waiting.abort()
    unlink()
  }
}
