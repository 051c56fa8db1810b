import { exponentialBackoff } from '../runtime/backoff.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import type { DutyHealth, DutyTerm } from './duty-health.ts'

/** Between a failure and the next term. */
const waits = { firstMs: 1_000, maxMs: 60_000, jitter: 0.25 }
/** After a term that lasted so long the waits begin again with the first. */
const STEADY_MS = 60_000

export interface SupervisedOptions {
  /** Makes a term anew. */
  readonly make: () => DutyTerm
  readonly health: Pick<DutyHealth, 'begun' | 'crashed'>
  readonly clock: Clock
  readonly random: Random
}

/**
 * Does a duty, term after term, until the signal is aborted; never rejects. A term that fails, which is a mistake in the program since servers that fail are its
 * own business, degrades this duty alone, and the next one begins after a wait.
 */
export async function supervised(
  { make, health, clock, random }: SupervisedOptions,
  signal: AbortSignal,
): Promise<void> {
  const backoff = exponentialBackoff(waits, random)
  while (!signal.aborted) {
    const begunMs = clock.monotonicMs()
    try {
      const term = make()
      health.begun(term)
      await term.run(signal)
      if (!signal.aborted) throw new Error('it ended by itself')
    } catch (error) {
      // What it throws after it was told to end is the echo of that.
      if (!signal.aborted) health.crashed(error)
    }
    if (clock.monotonicMs() - begunMs >= STEADY_MS) backoff.reset()
    await sleep(clock, backoff.next(), signal).catch(() => {})
  }
}
