/**
 * A controller that is aborted, with the same reason, as soon as one of `signals` is; at once, if one already was.
 * Unlike `AbortSignal.any` it is settled by nothing but its sources and leaves nothing behind: call `unlink` when the
 * work is over.
 */
export function linkedController(...signals: readonly (AbortSignal | undefined)[]): {
  readonly controller: AbortController
  /** Removes the listeners from the sources; afterwards only the controller itself aborts. May be called twice. */
  readonly unlink: () => void
} {
  const controller = new AbortController()
  const removals: (() => void)[] = []
  const unlink = (): void => {
    for (const remove of removals.splice(0)) remove()
  }
  for (const signal of signals) {
    if (signal === undefined) continue
    if (signal.aborted) {
      unlink()
      controller.abort(signal.reason)
      break
    }
    const onAbort = (): void => {
      unlink()
      controller.abort(signal.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    removals.push(() => signal.removeEventListener('abort', onAbort))
  }
  return { controller, unlink }
}

/** Throws the reason of `signal` if it is aborted. No signal is never aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  signal?.throwIfAborted()
}

/**
 * Settles as `promise` does, or rejects with the reason of `signal` when that is aborted first. The work behind
 * `promise` goes on; its late rejection is not reported as unhandled. No listener is left on the signal.
 */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    promise.then(
      (value) => {
        signal.removeEventListener('abort', onAbort)
        resolve(value)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort)
        reject(error)
      },
    )
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** Resolves when `signal` is aborted; at once if it already is. It never rejects. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
