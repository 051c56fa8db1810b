import type { Readable } from 'node:stream'
import { JsonLines } from './http-json-lines.ts'

/**
 * The events of one watch, read from the body of its answer. `finish` is called exactly once: when the stream has ended, broke or
 * was left. Leaving it early, even before the first event was asked for, closes the connection.
 */
export class EventStream implements AsyncIterableIterator<unknown, undefined> {
  readonly #body: Readable
  readonly #chunks: AsyncIterator<Uint8Array>
  readonly #lines: JsonLines
  readonly #explain: (error: unknown) => unknown
  readonly #finish: () => void
  #values: Iterator<unknown> = [].values()
  #open = true

  constructor(
    body: Readable,
    options: {
      readonly maxEventBytes: number
      /** Turns what the body threw into what the caller shall see. */
      readonly explain: (error: unknown) => unknown
      readonly finish: () => void
    },
  ) {
    this.#body = body
    this.#chunks = body[Symbol.asyncIterator]()
    this.#lines = new JsonLines(options.maxEventBytes)
    this.#explain = options.explain
    this.#finish = options.finish
    // A body that is destroyed while nobody reads must not become an uncaught exception; the next read reports it.
    body.on('error', () => {})
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    try {
      while (this.#open) {
        const value = this.#values.next()
        if (!value.done) return value
        const chunk = await this.#chunks.next()
        if (!chunk.done) this.#values = this.#lines.push(chunk.value)
        else if (this.#open) {
          this.#lines.end()
          this.#close()
        }
      }
      return { done: true, value: undefined }
    } catch (error) {
      this.#close()
      throw this.#explain(error)
    }
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#close()
    return { done: true, value: undefined }
  }

  #close(): void {
    if (!this.#open) return
    this.#open = false
    this.#body.destroy()
    this.#finish()
  }
}
