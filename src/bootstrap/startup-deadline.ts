import { formatDuration } from '../documents/duration.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import type { ServersAvailability } from './servers-availability.ts'

/** How often a server that is away when the time is over is asked whether it is back. */
const AWAY_PERIOD_MS = 1_000

/** What a start may wait for, and for how long. */
export interface StartupWait {
  readonly monitor: ReadinessMonitor
  readonly clock: Clock
  /** In milliseconds. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * Resolves with `settled`. Rejects when the server has been ready for `timeoutMs` and still refuses what the start needs: admission
 * and RBAC that are not ready yet refuse at first, but this will not mend itself, and a program that only logs it would look alive.
 * A server that is away is waited for.
 */
export async function startedWithin(
  settled: Promise<void>,
  options: StartupWait & {
    /** Whose refusals count, as the availability of the servers knows them. */
    readonly sources: readonly string[]
    readonly availability: ServersAvailability
  },
): Promise<void> {
  const { sources, monitor, availability, clock, timeoutMs } = options
  await settledBefore(settled, options.signal, async (signal) => {
    await monitor.untilFirstReady(signal)
    for (;;) {
      await sleep(clock, timeoutMs, signal)
      const refusal = availability.refusalOf(...sources)
      if (refusal !== undefined) throw new Error(`still refused after ${formatDuration(timeoutMs)}: ${refusal}`)
    }
  })
}

/**
 * Resolves with `settled`. Rejects, with upstream's message, when that takes longer than `timeoutMs` from the server's first answer. Time counts
 * anew after a server that was away at its end, the API server or etcd, has come back.
 */
export async function repairedWithin(
  settled: Promise<void>,
  options: StartupWait & {
    /** Why it has not settled. */
    readonly reason: () => string
    /** Whether what the repairs need beside the API server is away. */
    readonly away: () => boolean
  },
): Promise<void> {
  const { monitor, clock, timeoutMs, reason, away } = options
  await settledBefore(settled, options.signal, async (signal) => {
    await monitor.firstAnswer(signal)
    // A server that refuses to tell what it does itself is waited for as one that is away: nothing is repaired beside it.
    const answers = async (): Promise<boolean> => {
      const answer = await monitor.probe(signal)
      return answer.answered && answer.refused === undefined && !away()
    }
    for (;;) {
      await sleep(clock, timeoutMs, signal)
      if (await answers()) break
      while (!(await answers())) await sleep(clock, AWAY_PERIOD_MS, signal)
    }
    throw new Error(
      `unable to perform initial IP and Port allocation check within ${formatDuration(timeoutMs)}: ${reason()}`,
    )
  })
}

/** Resolves with `settled`, or rejects with what `deadline` rejects with. */
async function settledBefore(
  settled: Promise<void>,
  signal: AbortSignal,
  deadline: (signal: AbortSignal) => Promise<never>,
): Promise<void> {
  const { controller: waiting, unlink } = linkedController(signal)
  try {
    await Promise.race([abortable(settled, signal), deadline(waiting.signal)])
  } finally {
    waiting.abort()
    unlink()
  }
}
