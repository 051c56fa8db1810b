/**
 * Collects requests to reconcile until they are taken, so that any number of them cause one reconciliation. Only one
 * caller may wait at a time.
 */
export class Trigger<Reason extends string> {
  #reasons = new Set<Reason>()
  #wake: (() => void) | undefined

  /** Requests a reconciliation. A request during a reconciliation causes another one after it. */
  fire(reason: Reason): void {
    this.#reasons.add(reason)
    this.#wake?.()
  }

  /** Makes the waiting {@link take} resolve, even without a reason. */
  wake(): void {
    this.#wake?.()
  }

  /**
   * Resolves with all reasons since the last call, as soon as there is one. {@link wake} makes it resolve with none.
   * Rejects with the signal's reason when the signal is aborted.
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
