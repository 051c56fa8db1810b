/**
 * Collects reasons to look again until somebody looks: any number of causes make one look.
 * One waiter at a time.
 */
export class Trigger<Reason extends string> {
  #reasons = new Set<Reason>()
  #wake: (() => void) | undefined

  /** Asks for a look. A cause that comes while one is under way asks for another one after it. */
  fire(reason: Reason): void {
    this.#reasons.add(reason)
    this.#wake?.()
  }

  /** Has whoever waits go on without any reason. */
  wake(): void {
    this.#wake?.()
  }

  /**
   * Resolves, at once if something is pending, with all reasons since the last call, and after {@link wake} with none; rejects with the signal's
   * reason.
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
