/** Runs one piece of work at a time, in the order in which they came. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve()

  /** Settles as `work` does. A failure does not keep the next one from running. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work)
    this.#last = result.catch(() => {})
    return result
  }
}
