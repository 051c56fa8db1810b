/**
 * Collects requests to reconcile until they are taken: any number of requests make one reconciliation. One waiter at a
 * time.
 */
export class Trigger<Reason extends string> {
  #reasons = new Set<Reason>()
  #wake: (() => void) | undefined

  /** Requests a reconciliation. A request during one asks for another after it. */
  fire(reason: Reason): void {
    this.#reasons.add(reason)
    this.#wake?.()
  }

  /** Resumes the waiter without a reason. */
  wake(): void {
    this.#wake?.()
  }

  /**
   * Resolves, at once if something is pending, with all reasons since the last call, and after {@link wake} with none;
   * rejects with the signal's reason.
   */
  async take(signal: AbortSignal): Promise<ReadonlySet<Reason>> {
    signal.throwIfAborted()
    if (this.#reasons.size === 0) {
      await new Promise<void>((resolve, reject) => {
        const done = (): void => {
          this.#wake = undefined
          signal.removeEventListener('abort', onAbort)
        }
        const onAbort = (): void => {
          done()
          reject(signal.reason)
        }
        this.#wake = () => {
          done()
          resolve()
        }
        signal.addEventListener('abort', onAbort, { once: true })
      })
    }
    const reasons = this.#reasons
    this.#reasons = new Set()
    return reasons
  }
}
