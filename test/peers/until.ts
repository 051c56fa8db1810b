import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Runs `check` until it does not throw, and resolves with its result. After `withinMs`, rejects with its last failure
 * and with `what`, the name of what it waits for.
 */
export async function untilPasses<T>(
  what: string,
  check: () => T | Promise<T>,
  { withinMs, everyMs = 50 }: { readonly withinMs: number; readonly everyMs?: number },
): Promise<T> {
  const deadline = performance.now() + withinMs
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (performance.now() >= deadline) {
        const last = error instanceof Error ? error.message : String(error)
        throw new Error(`${what}: not within ${withinMs} ms; last seen: ${last}`, { cause: error })
      }
    }
    await sleep(everyMs)
  }
}

/** Runs `check` again and again for `durationMs`; the first failure ends it. */
export async function throughout<T>(
  durationMs: number,
  check: () => T | Promise<T>,
  { everyMs = 50 }: { readonly everyMs?: number } = {},
): Promise<void> {
  const end = performance.now() + durationMs
  while (performance.now() < end) {
    await check()
    await sleep(everyMs)
  }
}
