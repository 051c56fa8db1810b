/** A place that somebody has until it is released. */
export interface Slot {
  /** To be called once. */
  release(): void
}

/** Lets so many in at a time; the others wait in the order in which they came. */
export class Semaphore {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(slots: number) {
    this.#free = slots
  }

  /** Rejects with the signal's reason when that is aborted before there is a slot. */
  async acquire(signal: AbortSignal): Promise<Slot> {
    signal.throwIfAborted()
    if (this.#free > 0) this.#free--
    else await this.#turn(signal)
    return { release: () => this.#release() }
  }

  #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const giveUp = (): void => {
      this.#waiting.splice(this.#waiting.indexOf(resolve), 1)
      reject(signal.reason)
    }
    signal.addEventListener('abort', giveUp, { once: true })
    this.#waiting.push(resolve)
    return promise.finally(() => signal.removeEventListener('abort', giveUp))
  }

  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free++
    else next()
  }
}
