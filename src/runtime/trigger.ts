/** Merges requests to reconcile until they are taken. Only one caller may wait at a time. */
export class Trigger<Reason extends string> {
  #reasons = new Set<Reason>()
  #wake: (() => void) | undefined

  /** Adds a request. A request during a reconciliation causes another reconciliation after it. */
  fire(reason: Reason): void {
    this.#reasons.add(reason)
    this.#wake?.()
  }

  /** Makes the waiting {@link take} resolve, even without a reason. */
  wake(): void {
    this.#wake?.()
  }

  /** Resolves with all reasons since the last call; with none after {@link wake}. Rejects with the signal's reason. */
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
