import { cpus } from 'node:os'

/** The part of the time of all processors that must be idle. */
const IDLE = 0.25
/** For how long they must be idle. The load of a server that a test starts shows within about this time. */
const WINDOW_MS = 3_000

interface Sample {
  readonly atMs: number
  readonly idleMs: number
}

/**
 * Measures whether this machine has processor time left. Not only the tests use it: also other processes, and other
 * machines on the same host.
 */
export class IdleProcessors {
  readonly #samples: Sample[] = [sample()]

  /** Whether the processors were partly idle for the last {@link WINDOW_MS}, which begin after the construction. */
  areIdle(): boolean {
    const now = sample()
    this.#samples.push(now)
    while ((this.#samples[1]?.atMs ?? Infinity) <= now.atMs - WINDOW_MS) this.#samples.shift()
    const { atMs, idleMs } = this.#samples[0] ?? now
    const passedMs = now.atMs - atMs
    return passedMs >= WINDOW_MS && now.idleMs - idleMs >= IDLE * passedMs * cpus().length
  }
}

function sample(): Sample {
  return { atMs: performance.now(), idleMs: cpus().reduce((sum, { times }) => sum + times.idle, 0) }
}
