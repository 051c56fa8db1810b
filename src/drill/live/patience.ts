import { type Clock, sleep } from '../../runtime/clock.ts'

/** Between two tries, in milliseconds. */
const PAUSE_MS = 1_000

/**
 * Tries until it succeeds, or has failed at the end of `limitMs`: then with the last failure. `say` hears of the first one only, since the
 * others as a rule are the same.
 */
export async function patiently(
  attempt: () => Promise<void>,
  options: { readonly clock: Clock; readonly limitMs: number; readonly say: (failure: unknown) => void },
): Promise<void> {
  const { clock, limitMs, say } = options
  const endMs = clock.monotonicMs() + limitMs
  for (let tries = 1; ; tries++) {
    try {
      return await attempt()
    } catch (error) {
      if (clock.monotonicMs() + PAUSE_MS > endMs) throw error
      if (tries === 1) say(error)
    }
    await sleep(clock, PAUSE_MS)
  }
}
