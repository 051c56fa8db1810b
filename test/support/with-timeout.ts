/**
 * Resolves or rejects as `promise` does, or rejects after `timeoutMs` with an error that names `what`. Leaves no timer
 * behind. The promise itself goes on: this bounds the wait, not the work.
 */
export async function withTimeout<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${timeoutMs} ms`)), timeoutMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Calls `condition` every `intervalMs` until its result is truthy, and returns that. Rejects after `timeoutMs` with an
 * error that names `what`.
 */
export async function eventually<T>(
  what: string,
  condition: () => T | Promise<T>,
  { timeoutMs = 20_000, intervalMs = 10 }: { readonly timeoutMs?: number; readonly intervalMs?: number } = {},
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const value = await condition()
    if (value) return value
    if (performance.now() >= deadline) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, intervalMs))
  }
}
