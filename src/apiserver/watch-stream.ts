/** One event of a watch, as it is on the wire. */
export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: object
}

/** The events of a watch, queued for its one reader. A reader that falls too far behind is disconnected. */
export class WatchStream implements AsyncIterableIterator<WatchEvent, undefined> {
  readonly #limit: number
  readonly #events: WatchEvent[]
  readonly #cleanups: (() => void)[] = []
  #waiting: ((result: IteratorResult<WatchEvent, undefined>) => void) | undefined
  #ended = false

  /** `first` is what there is to tell at once; beyond that, up to `limit` events may wait. */
  constructor(first: readonly WatchEvent[], limit: number) {
    this.#events = [...first]
    this.#limit = limit + first.length
  }

  push(event: WatchEvent): void {
    if (this.#ended) return
    if (this.#waiting !== undefined) {
      const resolve = this.#waiting
      this.#waiting = undefined
      resolve({ done: false, value: event })
    } else if (this.#events.length >= this.#limit) {
      this.close()
    } else {
      this.#events.push(event)
    }
  }

  /** Nothing more will come; what is queued is still delivered. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const cleanup of this.#cleanups.splice(0)) cleanup()
    this.#waiting?.({ done: true, value: undefined })
    this.#waiting = undefined
  }

  /** Ends at once. */
  close(): void {
    this.#events.length = 0
    this.end()
  }

  /** Registers what to undo when the stream is over. */
  onEnd(cleanup: () => void): void {
    if (this.#ended) cleanup()
    else this.#cleanups.push(cleanup)
  }

  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    const value = this.#events.shift()
    if (value !== undefined) return Promise.resolve({ done: false, value })
    if (this.#ended) return Promise.resolve({ done: true, value: undefined })
    if (this.#waiting !== undefined) return Promise.reject(new Error('a watch has one reader'))
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  return(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.close()
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
