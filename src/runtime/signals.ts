/**
 * A controller that is aborted as soon as one of `signals` is, with the same reason; at once if one already is. Call
 * `unlink` when the work is over: it removes the listeners, which `AbortSignal.any` leaves to the garbage collector.
 */
export function linkedController(...signals: readonly (AbortSignal | undefined)[]): {
  readonly controller: AbortController
  /** After this call `signals` have no effect on the controller. May be called twice. */
  readonly unlink: () => void
} {
  const controller = new AbortController()
  const early = signals.find((signal) => signal?.aborted)
  if (early !== undefined) {
    controller.abort(early.reason)
    return { controller, unlink() {} }
  }
  const onAbort = ({ target }: Event): void => {
    unlink()
    controller.abort((target as AbortSignal).reason)
  }
  const unlink = (): void => {
    for (const signal of signals) signal?.removeEventListener('abort', onAbort)
  }
  for (const signal of signals) signal?.addEventListener('abort', onAbort, { once: true })
  return { controller, unlink }
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

/** Work that its caller may give up, or that ends with the caller's own signal. */
export interface Abandonable {
  /** For the work: aborted with the reason of {@link abandon} or of the caller's signal. */
  readonly signal: AbortSignal
  /** Aborts {@link signal}, and makes {@link settled} reject with `reason`. */
  abandon(reason: unknown): void
  /** As {@link abortable}, with {@link signal}. May be called once. */
  settled<T>(work: Promise<T>): Promise<T>
  /** Call this when the work is over: the caller's signal then has no effect. */
  unlink(): void
}

/** {@link linkedController} and {@link abortable} in one, with half of their listeners: each request needs both. */
export function abandonable(outer: AbortSignal | undefined): Abandonable {
  const controller = new AbortController()
  const { signal } = controller
  let reject = (_reason: unknown): void => {}
  const abandon = (reason: unknown): void => {
    controller.abort(reason)
    reject(signal.reason)
  }
  const onAbort = (): void => abandon(outer?.reason)
  if (outer?.aborted) onAbort()
  else outer?.addEventListener('abort', onAbort, { once: true })
  return {
    signal,
    abandon,
    settled: (work) =>
      new Promise((resolve, rejectWork) => {
        reject = rejectWork
        work.then(resolve, rejectWork)
        if (signal.aborted) rejectWork(signal.reason)
      }),
    unlink: () => outer?.removeEventListener('abort', onAbort),
  }
}

/** Resolves when `signal` is aborted. Never rejects. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/**
 * Runs several functions until `signal` is aborted; resolves when all have ended. If one fails, the others are aborted
 * and the promise rejects with that error. A function that rejects with the reason of its signal has ended normally.
 */
export async function together(
  signal: AbortSignal,
  parts: readonly ((signal: AbortSignal) => Promise<unknown>)[],
): Promise<void> {
  const { controller, unlink } = linkedController(signal)
  await allEnded(
    parts.map(async (part) => {
      try {
        await part(controller.signal)
      } catch (error) {
        const ended = controller.signal.aborted && error === controller.signal.reason
        controller.abort(error)
        if (!ended) throw error
      }
    }),
  ).finally(unlink)
}

/** Waits for all promises, even if some reject; then rejects with the first rejection in the order of `work`. */
export async function allEnded(work: readonly (Promise<unknown> | undefined)[]): Promise<void> {
  const ends = await Promise.allSettled(work)
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}
