import type { Clock } from './clock.ts'
import { RemoteError } from './remote-error.ts'
import { abortable, linkedController } from './signals.ts'

/** So many requests in a row are given up at the limit; those after them get twice the time, then four times, up to {@link MOST}. */
const PATIENT_REQUESTS = 4
const MOST = 16

/** A request was not answered in time. A write may or may not have happened. */
export class RequestTimeout extends RemoteError {
  override readonly name = 'RequestTimeout'
  readonly code = 'RequestTimeout'
  readonly nature = 'away'
  constructor(limitMs: number) {
    super(`no answer within ${Math.round(limitMs)} ms`)
  }
}

/** Settles as `call` does, or rejects with {@link RequestTimeout} after `limitMs`, at once with the reason of `signal` when that is aborted. */
export async function within<T>(
  clock: Clock,
  limitMs: number,
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { controller, unlink } = linkedController(signal)
  const cancel = clock.schedule(limitMs, () => controller.abort(new RequestTimeout(limitMs)))
  try {
    return await abortable(call(controller.signal), controller.signal)
  } finally {
    cancel()
    unlink()
  }
}

/**
 * Gives up each request of a store that takes too long, so that a lost one costs only a part of a lease. A store that is slow all the
 * time gets more time after a few.
 */
export class RequestLimit {
  readonly #clock: Clock
  readonly #limitMs: number
  #givenUp = 0

  constructor(options: { readonly clock: Clock; readonly limitMs: number }) {
    this.#clock = options.clock
    this.#limitMs = options.limitMs
  }

  async run<T>(signal: AbortSignal | undefined, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const factor = Math.min(2 ** Math.max(0, this.#givenUp - PATIENT_REQUESTS + 1), MOST)
    const sentMs = this.#clock.monotonicMs()
    try {
      const answer = await within(this.#clock, this.#limitMs * factor, signal, call)
      // Once it was slow it may be slow again: what helped is kept until the limit itself is enough.
      if (this.#clock.monotonicMs() - sentMs <= this.#limitMs) this.#givenUp = Math.max(0, this.#givenUp - 1)
      return answer
    } catch (error) {
      if (error instanceof RequestTimeout) this.#givenUp += 1
      throw error
    }
  }
}
