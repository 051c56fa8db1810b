import type { Cancel, Clock } from './clock.ts'
import { allEnded, linkedController } from './signals.ts'
import { TokenBucket } from './token-bucket.ts'

/** Observes a queue, for its metrics. */
export interface WorkQueueObserver<Key extends string = string> {
  /** The key became dirty: it waits, or will wait again when its current work is done. */
  added(key: Key): void
  started(key: Key): void
  finished(key: Key): void
  /** The key was added again for later, with or without rate limit. */
  retried(key: Key): void
}

interface WorkQueueOptions<Key extends string> {
  readonly clock: Clock
  readonly observer?: WorkQueueObserver<Key> | undefined
  /** The rate limit of `addRateLimited`. */
  readonly retry?: RetryRate | undefined
}

/**
 * Limits retries of each key and of all keys together. The longer of the two delays counts. The first retry of a key is
 * only limited by its own delay. Defaults are client-go's.
 */
export interface RetryRate {
  /** The first delay of a key in milliseconds; it doubles with each further retry. @default 5 */
  readonly firstMs?: number | undefined
  /** The longest delay of a key, in milliseconds. @default 1_000_000 */
  readonly maxMs?: number | undefined
  /** Retries a second over all keys. @default 10 */
  readonly qps?: number | undefined
  /** Retries at once over all keys. @default 100 */
  readonly burst?: number | undefined
}

interface RunOptions<Key extends string> {
  /** How many keys may be processed at the same time. */
  readonly workers: number
  readonly signal: AbortSignal
  /** If it rejects, the key is added again with rate limit; if it resolves, the key is forgotten. */
  readonly reconcile: (key: Key, signal: AbortSignal) => Promise<void>
  /** Called for each rejection before the key is added again, but not for rejections after the abort of `signal`. */
  readonly failed?: ((key: Key, error: unknown) => void) | undefined
  /** The longest delay of a key after this error, in milliseconds, if that is less than `maxMs` of the rate. */
  readonly longestDelayMs?: ((error: unknown) => number) | undefined
}

/**
 * A queue of keys that need work, with the guarantees of client-go's workqueue:
 *
 * - fair: keys are handed out in the order in which they were added;
 * - stingy: a key that is added again before it is handed out is worked on once;
 * - one worker per key: a key that is added while it is being worked on is handed out once more, after `done`, never in
 *   parallel;
 * - many producers, many consumers, and a shutdown that all of them observe.
 *
 * Not guaranteed: an order between a delayed key and one that is added when the delay ends.
 */
export class WorkQueue<Key extends string = string> {
  readonly #clock: Clock
  readonly #observer: WorkQueueObserver<Key> | undefined
  readonly #retry: { readonly firstMs: number; readonly maxMs: number; readonly bucket: TokenBucket }

  /** The waiting keys, in order, from `#head` on. Every key here is dirty and not in `#processing`. */
  #queue: Key[] = []
  #head = 0
  /** Keys that need work, including keys that were added again during their processing. */
  readonly #dirty = new Set<Key>()
  readonly #processing = new Set<Key>()
  readonly #delayed = new Map<Key, { readonly dueMs: number; readonly cancel: Cancel }>()
  /** The delayed keys that hold a reserved token of the overall rate. */
  readonly #reserved = new Set<Key>()
  /** How often each key was added with rate limit, and since when. */
  readonly #failures = new Map<Key, { readonly count: number; readonly sinceMs: number }>()
  /** The callers of `get` that wait for a key. Empty while a key is queued. */
  readonly #getters: ((key: Key | undefined) => void)[] = []
  #shuttingDown = false

  constructor(options: WorkQueueOptions<Key>) {
    const { firstMs = 5, maxMs = 1_000_000, qps = 10, burst = 100 } = options.retry ?? {}
    this.#clock = options.clock
    this.#observer = options.observer
    this.#retry = { firstMs, maxMs, bucket: new TokenBucket({ clock: options.clock, qps, burst }) }
  }

  /** How many keys are ready now. */
  get length(): number {
    return this.#queue.length - this.#head
  }

  /** Marks a key as dirty. Has no effect once the queue is shutting down. */
  add(key: Key): void {
    if (this.#shuttingDown || this.#dirty.has(key)) return
    this.#observer?.added(key)
    this.#dirty.add(key)
    if (!this.#processing.has(key)) this.#enqueue(key)
  }

  /** Adds a key `delayMs` from now. Of several delays for one key the one that ends first counts. */
  addAfter(key: Key, delayMs: number): void {
    if (this.#shuttingDown) return
    this.#observer?.retried(key)
    if (delayMs <= 0) {
      this.add(key)
      return
    }
    const dueMs = this.#clock.monotonicMs() + delayMs
    const known = this.#delayed.get(key)
    if (known !== undefined && known.dueMs <= dueMs) return
    known?.cancel()
    const cancel = this.#clock.schedule(delayMs, () => {
      this.#delayed.delete(key)
      this.#reserved.delete(key)
      this.add(key)
    })
    this.#delayed.set(key, { dueMs, cancel })
  }

  /**
   * Adds a key after a delay that doubles each time until `forget`, within the overall rate of retries. The key's own
   * delay is at most `longestMs`, and at most the time since its first failure after `forget`, plus `firstMs`: a key
   * that is also added for other reasons fails more often, but need not wait longer. client-go only counts failures, so
   * many changes during an outage of seconds can cause a delay of minutes.
   */
  addRateLimited(key: Key, longestMs = Number.POSITIVE_INFINITY): void {
    if (this.#shuttingDown) return
    const nowMs = this.#clock.monotonicMs()
    const { firstMs, maxMs, bucket } = this.#retry
    const { count, sinceMs } = this.#failures.get(key) ?? { count: 0, sinceMs: nowMs }
    this.#failures.set(key, { count: count + 1, sinceMs })
    const ownMs = Math.min(firstMs * 2 ** count, firstMs + nowMs - sinceMs, maxMs, longestMs)
    const dueMs = this.#delayed.get(key)?.dueMs ?? Number.POSITIVE_INFINITY
    // The first retry takes no token, so that one failure of a key does not wait for keys that fail all the time. A key
    // that is due sooner takes no token from other keys. A key that already waits for a retry first gives its token
    // back, so that it never holds two.
    if (count === 0 || dueMs <= nowMs + ownMs) {
      this.addAfter(key, ownMs)
      return
    }
    this.#giveBack(key)
    const delayMs = Math.max(ownMs, bucket.reserve())
    if (delayMs > 0) this.#reserved.add(key)
    this.addAfter(key, delayMs)
  }

  /** Adds a delayed key now, outside the overall rate. Returns false, without effect, if it is not delayed. */
  expedite(key: Key): boolean {
    const delayed = this.#delayed.get(key)
    if (delayed === undefined) return false
    delayed.cancel()
    this.#delayed.delete(key)
    this.#giveBack(key)
    this.add(key)
    return true
  }

  /**
   * Adds now every delayed key that was added with rate limit and not forgotten since. Call it when the cause of the
   * failures has ended: a key that then fails again, or is being processed and fails, starts with a short delay.
   */
  expediteFailed(): void {
    const sinceMs = this.#clock.monotonicMs()
    for (const [key, { count }] of this.#failures) {
      this.#failures.set(key, { count, sinceMs })
      this.expedite(key)
    }
  }

  /** Resets the delay of a key after a success, or when nobody will retry. The key stays in the queue. */
  forget(key: Key): void {
    this.#failures.delete(key)
    this.#giveBack(key)
  }

  /** How often a key was added with rate limit since it was last forgotten. */
  numRequeues(key: Key): number {
    return this.#failures.get(key)?.count ?? 0
  }

  /**
   * The next key, once there is one; undefined when the queue is shut down and empty. Pass the key to `done` after the
   * work.
   */
  get(): Promise<Key | undefined> {
    if (this.length > 0) return Promise.resolve(this.#dequeue())
    if (this.#shuttingDown) return Promise.resolve(undefined)
    return new Promise((resolve) => this.#getters.push(resolve))
  }

  /** Ends the processing of a key from `get`. @throws Error for any other key. */
  done(key: Key): void {
    if (!this.#processing.delete(key)) throw new Error(`done: no work on ${JSON.stringify(key)} is under way`)
    this.#observer?.finished(key)
    if (this.#dirty.has(key)) this.#enqueue(key)
  }

  /** Accepts no more keys and drops delayed ones. Waiting keys are still handed out. */
  shutDown(): void {
    this.#shuttingDown = true
    for (const { cancel } of this.#delayed.values()) cancel()
    this.#delayed.clear()
    for (const getter of this.#getters.splice(0)) getter(undefined)
  }

  /**
   * Processes keys until `signal` is aborted, or the queue is shut down and empty; resolves when the running work is
   * done. Keys that are queued at the abort are not processed. Rejects only with an error that `failed` throws, which
   * also ends the run.
   */
  async run(options: RunOptions<Key>): Promise<void> {
    const { controller, unlink } = linkedController(options.signal)
    const { signal } = controller
    if (signal.aborted) this.shutDown()
    else signal.addEventListener('abort', () => this.shutDown(), { once: true })
    const work = async (): Promise<void> => {
      while (!signal.aborted) {
        // Work that waits for nothing would otherwise empty a long queue in one turn of the event loop.
        const turn = this.#clock.turn?.()
        if (turn !== undefined) await turn
        const key = await this.get()
        if (key === undefined) return
        try {
          if (!signal.aborted) await this.#reconcile(key, options, signal)
        } catch (error) {
          controller.abort(error)
          throw error
        } finally {
          this.done(key)
        }
      }
    }
    await allEnded(Array.from({ length: options.workers }, work)).finally(unlink)
  }

  async #reconcile(key: Key, options: RunOptions<Key>, signal: AbortSignal): Promise<void> {
    try {
      await options.reconcile(key, signal)
      this.forget(key)
    } catch (error) {
      if (signal.aborted) return
      options.failed?.(key, error)
      this.addRateLimited(key, options.longestDelayMs?.(error))
    }
  }

  #giveBack(key: Key): void {
    if (this.#reserved.delete(key)) this.#retry.bucket.giveBack()
  }

  #enqueue(key: Key): void {
    this.#queue.push(key)
    const getter = this.#getters.shift()
    if (getter !== undefined) getter(this.#dequeue())
  }

  #dequeue(): Key {
    const key = this.#queue[this.#head++] as Key
    // `Array.shift` would move all remaining keys each time.
    if (this.#head > 1024 && this.#head * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head)
      this.#head = 0
    }
    this.#dirty.delete(key)
    this.#processing.add(key)
    this.#observer?.started(key)
    return key
  }
}
