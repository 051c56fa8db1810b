import { exponentialBackoff } from '../runtime/backoff.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import { TokenBucket } from '../runtime/token-bucket.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { KubeApi } from './api.ts'
import { isKubeError, type KubeError } from './errors.ts'
import { type EventToRecord, newEvent, type Reporter, seriesKey, spamKey } from './event-object.ts'
import { events, type KubeEvent } from './resources.ts'

export interface EventRecorderOptions extends Reporter {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** The same event again within this time is counted, not told anew. */
const seriesMs = 6 * 60_000
/** A series that goes on is written this often, besides its begin and its end. */
const refreshMs = 30 * 60_000
/** Per object and type: this many events at once, then one every five minutes. */
const spamLimit = { burst: 25, qps: 1 / 300 }
const maxQueued = 1_000
const maxRemembered = 4_096
const maxTries = 12
/** What is still queued at the end is given this long. */
const drainMs = 1_000

/** One Event object in the cluster: what happened first, and how often it has happened since. */
interface Series {
  readonly event: KubeEvent
  count: number
  lastWallMs: number
  lastMs: number
  /** How many the object in the cluster tells of; 0 while there is none. */
  written: number
  writtenMs: number
  tries: number
}

/**
 * Writes Events (events.k8s.io/v1) in the background. Recording never waits and never fails; what cannot be written is dropped.
 *
 * The same event within six minutes becomes a series: its second occurrence, its end, and every half hour in between are written,
 * the others are counted. One object causes at most 25 new Events at once and one every five minutes after that. While the server
 * is away up to 1,000 Events wait. Behaviour as in client-go's `tools/events`, with the spam filter of `tools/record`.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions
  readonly #series = new Map<string, Series>()
  readonly #spam = new Map<string, TokenBucket>()
  /** Series whose object in the cluster is behind, in the order in which they are to be written. */
  readonly #queue = new Set<Series>()
  #wake: (() => void) | undefined

  constructor(options: EventRecorderOptions) {
    this.#options = options
  }

  /** Events that wait to be written. */
  get queued(): number {
    return this.#queue.size
  }

  record(event: EventToRecord): void {
    const { clock } = this.#options
    const key = seriesKey(event)
    const nowMs = clock.monotonicMs()
    let series = this.#series.get(key)
    if (series !== undefined && nowMs - series.lastMs <= seriesMs) {
      series.count++
      series.lastWallMs = clock.wallMs()
      series.lastMs = nowMs
      // From the third on they are only counted; `#sweep` writes the number.
      if (series.count === 2) this.#enqueue(series)
      return
    }
    if (series !== undefined && series.count > series.written) this.#enqueue(series)
    if (!this.#mayTell(event)) {
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
    remember(this.#series, key, series)
    this.#enqueue(series)
  }

  /** Writes what is recorded until `signal` is aborted, then what is still queued, for a second at most. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options
    const backoff = exponentialBackoff({ firstMs: 1_000, maxMs: 10_000, jitter: 0.25 }, random)
    let cancelSweep = (): void => {}
    const sweepLater = (): void => {
      cancelSweep = clock.schedule(seriesMs, () => {
        this.#sweep()
        sweepLater()
      })
    }
    sweepLater()
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
    const cancel = this.#options.clock.schedule(drainMs, () => controller.abort())
    try {
      for (const series of this.#queue) {
        if (controller.signal.aborted || !(await this.#write(series, controller.signal))) break
      }
    } finally {
      cancel()
    }
  }

  /** Ends the series that have been quiet, and writes how far those stand that go on. */
  #sweep(): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const [key, series] of this.#series) {
      const over = nowMs - series.lastMs >= seriesMs
      if (over) this.#series.delete(key)
      if (series.count > series.written && (over || nowMs - series.writtenMs >= refreshMs)) this.#enqueue(series)
    }
  }

  #enqueue(series: Series): void {
    if (this.#queue.size >= maxQueued && !this.#queue.has(series)) {
      this.#drop(series.event, 'too many events are waiting')
      return
    }
    this.#queue.add(series)
    this.#wake?.()
  }

  /** One attempt. False when the same is to be tried again later. */
  async #write(series: Series, signal: AbortSignal): Promise<boolean> {
    const count = series.count
    try {
      if (series.written === 0) await this.#create(series, signal)
      else await this.#patch(series, signal)
    } catch (error) {
      if (signal.aborted) return false
      if (!isKubeError(error)) throw error
      // Its answer was lost, but an earlier creation was successful.
      const made = error.code === 'AlreadyExists'
      if (made) series.written = 1
      if (!(made && count === 1)) {
        const tried = mayBeTheEvent(error) ? ++series.tries : 0
        if (isWorthAnotherTry(error) && tried < maxTries) return false
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
      // Events live for an hour only: a long series outlives its object.
      series.written = 0
      await this.#create(series, signal)
    }
  }

  #mayTell(event: EventToRecord): boolean {
    const key = spamKey(event)
    const bucket = this.#spam.get(key) ?? new TokenBucket({ clock: this.#options.clock, ...spamLimit })
    remember(this.#spam, key, bucket)
    return bucket.tryTake()
  }

  #drop(event: Pick<EventToRecord, 'reason'> | KubeEvent, why: string): void {
    this.#options.logger.debug({ event: event.reason, reason: why }, 'an event is dropped')
  }
}

function asSeries(series: Series): NonNullable<KubeEvent['series']> {
  return { count: series.count, lastObservedTime: formatMicroTime(series.lastWallMs) }
}

/** Puts an entry last; forgets the one that was used least recently where there are too many. */
function remember<Value>(entries: Map<string, Value>, key: string, value: Value): void {
  entries.delete(key)
  entries.set(key, value)
  if (entries.size <= maxRemembered) return
  for (const oldest of entries.keys()) {
    entries.delete(oldest)
    return
  }
}

function isWorthAnotherTry(error: KubeError): boolean {
  return mayBeTheEvent(error) || isKubeError(error, 'Unreachable', 'TooManyRequests', 'Unauthorized', 'NoCredentials')
}

/** The server got it and failed. That may be because of this very Event, which must not hold up the others for ever. */
function mayBeTheEvent(error: KubeError): boolean {
  return isKubeError(error, 'ServerError', 'Timeout', 'BadResponse', 'AlreadyExists')
}
