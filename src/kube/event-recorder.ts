import { exponentialBackoff } from '../runtime/backoff.ts'
import { type Clock, every, sleep } from '../runtime/clock.ts'
import { putLast } from '../runtime/memo.ts'
import type { Random } from '../runtime/random.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import { TokenBucket } from '../runtime/token-bucket.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { KubeApi } from './api.ts'
import { isKubeError, type KubeError } from './errors.ts'
import { type EventToRecord, newEvent, type Reporter, seriesKey, spamKey } from './event-object.ts'
import { events, type KubeEvent } from './resources.ts'

interface EventRecorderOptions extends Reporter {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** A repetition of an Event within this time is counted in the same series. */
const SERIES_MS = 6 * 60_000
/**
 * A series that continues is written again when its last write is this old. Its beginning and its end are written too.
 */
const REFRESH_MS = 30 * 60_000
/** Per object and type: this many events at once, then one every five minutes. */
const SPAM_LIMIT = { burst: 25, qps: 1 / 300 }
const MAX_QUEUED = 1_000
const MAX_REMEMBERED = 4_096
const MAX_TRIES = 12
const DRAIN_MS = 1_000

/** One Event object in the cluster: the first occurrence, and the number of all occurrences. */
interface Series {
  readonly event: KubeEvent
  count: number
  lastWallMs: number
  lastMs: number
  /** The count that was last written or dropped; 0 while there is no object. */
  written: number
  writtenMs: number
  tries: number
}

/**
 * Writes Events (events.k8s.io/v1) in the background. Recording never waits and never fails; an Event that cannot be
 * written is dropped. Repetitions become a series. This is the behaviour of client-go's `tools/events`, with the spam
 * filter of `tools/record`.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions
  readonly #series = new Map<string, Series>()
  readonly #spam = new Map<string, TokenBucket>()
  /** Series whose stored object is out of date, in the order of writing. */
  readonly #queue = new Set<Series>()
  #wake: (() => void) | undefined

  constructor(options: EventRecorderOptions) {
    this.#options = options
  }

  get queued(): number {
    return this.#queue.size
  }

  record(event: EventToRecord): void {
    const { clock } = this.#options
    const key = seriesKey(event)
    const nowMs = clock.monotonicMs()
    let series = this.#series.get(key)
    if (series !== undefined && nowMs - series.lastMs <= SERIES_MS) {
      series.count++
      series.lastWallMs = clock.wallMs()
      series.lastMs = nowMs
      // From the third occurrence on only the count changes; `#sweep` writes it.
      if (series.count === 2) this.#enqueue(series)
      return
    }
    if (series !== undefined && series.count > series.written) this.#enqueue(series)
    if (!this.#mayRecord(event)) {
      this.#drop(event, 'too many events about this object')
      return
    }
    const lastWallMs = clock.wallMs()
    series = {
      event: newEvent(event, this.#options, clock, this.#options.random),
      count: 1,
      lastWallMs,
      lastMs: nowMs,
      written: 0,
      writtenMs: nowMs,
      tries: 0,
    }
    putLast(this.#series, key, series, MAX_REMEMBERED)
    this.#enqueue(series)
  }

  /** Writes recorded Events until `signal` is aborted, then the remaining ones for at most a second. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options
    const backoff = exponentialBackoff({ firstMs: 1_000, maxMs: 10_000, jitter: 0.25 }, random)
    const cancelSweep = every(clock, SERIES_MS, () => this.#sweep())
    const onAbort = (): void => this.#wake?.()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      while (!signal.aborted) {
        const [series] = this.#queue
        if (series === undefined) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
        } else if (await this.#write(series, signal)) {
          backoff.reset()
        } else {
          await sleep(clock, backoff.next(), signal).catch(() => {})
        }
      }
    } finally {
      cancelSweep()
      signal.removeEventListener('abort', onAbort)
    }
    await this.#drain()
  }

  async #drain(): Promise<void> {
    for (const series of this.#series.values()) if (series.count > series.written) this.#queue.add(series)
    const controller = new AbortController()
    const cancel = this.#options.clock.schedule(DRAIN_MS, () => controller.abort())
    try {
      for (const series of this.#queue) {
        if (controller.signal.aborted || !(await this.#write(series, controller.signal))) break
      }
    } finally {
      cancel()
    }
  }

  /** Ends quiet series, and queues the counts that are due. */
  #sweep(): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const [key, series] of this.#series) {
      const over = nowMs - series.lastMs >= SERIES_MS
      if (over) this.#series.delete(key)
      if (series.count > series.written && (over || nowMs - series.writtenMs >= REFRESH_MS)) this.#enqueue(series)
    }
  }

  #enqueue(series: Series): void {
    if (this.#queue.size >= MAX_QUEUED && !this.#queue.has(series)) {
      this.#drop(series.event, 'too many events are waiting')
      return
    }
    this.#queue.add(series)
    this.#wake?.()
  }

  /** Makes one attempt to write a series. Returns false if the attempt must be repeated later. */
  async #write(series: Series, signal: AbortSignal): Promise<boolean> {
    const count = series.count
    try {
      if (series.written === 0) await this.#create(series, signal)
      else await this.#patch(series, signal)
    } catch (error) {
      if (signal.aborted) return false
      if (!isKubeError(error)) throw error
      // If the Event exists already, the answer to an earlier, successful creation was lost.
      const made = error.code === 'AlreadyExists'
      if (made) series.written = 1
      if (!(made && count === 1)) {
        const tried = mayBeTheEvent(error) ? ++series.tries : 0
        if (isWorthAnotherTry(error) && tried < MAX_TRIES) return false
        this.#drop(series.event, error.message)
      }
    }
    series.written = count
    series.writtenMs = this.#options.clock.monotonicMs()
    series.tries = 0
    if (series.count === count) this.#queue.delete(series)
    return true
  }

  async #create(series: Series, signal: AbortSignal): Promise<void> {
    const event = series.count > 1 ? { ...series.event, series: asSeries(series) } : series.event
    await this.#options.api.create(events, event, { signal })
  }

  async #patch(series: Series, signal: AbortSignal): Promise<void> {
    const { namespace, name = '' } = series.event.metadata ?? {}
    try {
      await this.#options.api.patch(
        events,
        { namespace, name },
        { type: 'merge', body: { series: asSeries(series) } },
        { signal },
      )
    } catch (error) {
      if (!isKubeError(error, 'NotFound')) throw error
      // A long series outlives its object, because the server deletes Events after an hour.
      series.written = 0
      await this.#create(series, signal)
    }
  }

  #mayRecord(event: EventToRecord): boolean {
    const key = spamKey(event)
    const bucket = this.#spam.get(key) ?? new TokenBucket({ clock: this.#options.clock, ...SPAM_LIMIT })
    putLast(this.#spam, key, bucket, MAX_REMEMBERED)
    return bucket.tryTake()
  }

  #drop(event: Pick<EventToRecord, 'reason'> | KubeEvent, why: string): void {
    this.#options.logger.debug({ event: event.reason, reason: why }, 'dropped an Event')
  }
}

function asSeries(series: Series): NonNullable<KubeEvent['series']> {
  return { count: series.count, lastObservedTime: formatMicroTime(series.lastWallMs) }
}

function isWorthAnotherTry(error: KubeError): boolean {
  return mayBeTheEvent(error) || isKubeError(error, 'Unreachable', 'TooManyRequests', 'Unauthorized', 'NoCredentials')
}

/**
 * Whether the Event itself may be the cause of the error, because the server may have received it, or because its
 * namespace does not exist. Such an Event gets {@link MAX_TRIES} attempts, so that it does not delay other Events for
 * ever. A retry may help: this program may create the namespace.
 */
function mayBeTheEvent(error: KubeError): boolean {
  const lacksNamespace = error.code === 'NotFound' && error.status?.details?.kind === 'namespaces'
  return lacksNamespace || isKubeError(error, 'ServerError', 'Timeout', 'BadResponse', 'AlreadyExists')
}
