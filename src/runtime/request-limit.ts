import type { Clock } from './clock.ts'
import { RemoteError } from './errors.ts'
import { type Abandonable, abandonable } from './signals.ts'

/**
 * The limit doubles at this many timeouts, and again at each further one. An answer in time takes one off the count.
 */
const FIRST_DOUBLING = 4
/**
 * Further timeouts do not count. The limit is then 16 times the normal one; four answers in time make it normal again.
 */
const MOST_TIMEOUTS = FIRST_DOUBLING + 3

/** A request got no answer in time. A write may or may not have happened. */
export class RequestTimeout extends RemoteError {
  override readonly name = 'RequestTimeout'
  readonly code = 'RequestTimeout'
  readonly nature = 'away'
  constructor(limitMs: number) {
    super(`no answer within ${Math.round(limitMs)} ms`)
  }
}

/** Settles as `call` does. Rejects with {@link RequestTimeout} after `limitMs`, or with the signal's reason. */
export async function within<T>(
  clock: Clock,
  limitMs: number,
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const request = abandonable(signal)
  const cancel = clock.schedule(limitMs, () => request.abandon(new RequestTimeout(limitMs)))
  try {
    return await request.settled(call(request.signal))
  } finally {
    cancel()
    request.unlink()
  }
}

/** Whether a request changes the store. */
export type RequestKind = 'read' | 'write'

interface PendingRequest {
  readonly kind: RequestKind
  readonly sentMs: number
  readonly abandon: Abandonable['abandon']
  cancel: () => void
  /**
   * Whether the first answer in time after a timeout came while this request was pending. Then this request gets only
   * the normal limit, and its timeout does not count.
   */
  isOvertaken: boolean
}

/** What is known about the requests of one kind. */
interface Answers {
  /** The timeouts that count: from 0 to {@link MOST_TIMEOUTS}. */
  givenUp: number
  /** When a timeout last counted. */
  givenUpMs: number
  /** Whether a request timed out since the last one that was answered in time. */
  isSilent: boolean
}

/**
 * Aborts each request that a store does not answer in time, so that a lost request costs only a part of the lease's
 * TTL. A store that is always slow gets more time after a few timeouts. Reads and writes are counted separately: behind
 * a slow webhook or a slow disk only writes are slow, and the reads between them must not shorten their limit.
 *
 * Once a kind of requests that had timed out is answered in time again, all requests that were lost meanwhile get only
 * the normal limit. Otherwise one of them could delay a withdrawal by 16 times the normal limit.
 */
export class RequestLimit {
  readonly #clock: Clock
  readonly #limitMs: number
  readonly #pending = new Set<PendingRequest>()
  readonly #answers: Readonly<Record<RequestKind, Answers>> = {
    read: { givenUp: 0, givenUpMs: Number.NEGATIVE_INFINITY, isSilent: false },
    write: { givenUp: 0, givenUpMs: Number.NEGATIVE_INFINITY, isSilent: false },
  }

  constructor(options: { readonly clock: Clock; readonly limitMs: number }) {
    this.#clock = options.clock
    this.#limitMs = options.limitMs
  }

  /** As {@link within}, with the present limit. */
  async run<T>(
    kind: RequestKind,
    signal: AbortSignal | undefined,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const factor = 2 ** Math.max(0, this.#answers[kind].givenUp - FIRST_DOUBLING + 1)
    const { abandon, settled, unlink, signal: own } = abandonable(signal)
    const sentMs = this.#clock.monotonicMs()
    const request: PendingRequest = { kind, sentMs, abandon, cancel: () => undefined, isOvertaken: false }
    this.#giveUpAfter(request, this.#limitMs * factor)
    this.#pending.add(request)
    try {
      const answer = await settled(call(own))
      if (this.#clock.monotonicMs() - sentMs <= this.#limitMs) this.#answeredInTime(request)
      return answer
    } catch (error) {
      if (error instanceof RequestTimeout && !request.isOvertaken) this.#timedOut(request)
      throw error
    } finally {
      this.#pending.delete(request)
      request.cancel()
      unlink()
    }
  }

  #timedOut({ kind, sentMs }: PendingRequest): void {
    const answers = this.#answers[kind]
    answers.isSilent = true
    // Requests that hang at the same time do not show that the store is slow all the time, so they count as one.
    if (sentMs < answers.givenUpMs) return
    answers.givenUpMs = this.#clock.monotonicMs()
    answers.givenUp = Math.min(answers.givenUp + 1, MOST_TIMEOUTS)
  }

  #answeredInTime(answered: PendingRequest): void {
    const answers = this.#answers[answered.kind]
    // Shortens a longer limit by at most one step per answer, because a store that was slow may be slow again.
    answers.givenUp = Math.max(0, answers.givenUp - 1)
    // Only the first answer after a timeout limits the pending requests: a long list may be slower than other requests.
    if (!answers.isSilent) return
    answers.isSilent = false
    for (const request of this.#pending) {
      if (request === answered) continue
      request.cancel()
      request.isOvertaken = true
      this.#giveUpAfter(request, Math.max(0, request.sentMs + this.#limitMs - this.#clock.monotonicMs()))
    }
  }

  #giveUpAfter(request: PendingRequest, ms: number): void {
    const waitedMs = this.#clock.monotonicMs() - request.sentMs + ms
    request.cancel = this.#clock.schedule(ms, () => request.abandon(new RequestTimeout(waitedMs)))
  }
}

/** Limits how many callers run at a time; the others wait in the order of their calls. */
export class Semaphore {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(slots: number) {
    this.#free = slots
  }

  /** Waits for a slot; call the result once to release it. Rejects with the signal's reason if aborted first. */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#free > 0) this.#free--
    else await this.#turn(signal)
    return () => {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1)
        reject(signal.reason)
      }
      const enter = (): void => {
        // The listener is removed at once: otherwise an abort just after this caller's turn would take another caller
        // off the list.
        signal.removeEventListener('abort', giveUp)
        resolve()
      }
      signal.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(enter)
    })
  }
}
