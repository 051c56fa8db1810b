import type { EventSink, EventToRecord } from '../../kube/event-object.ts'
import type { LogFields, Logger } from '../../telemetry/logger.ts'
import type { Counter, Gauge, Metrics } from '../../telemetry/metrics.ts'

/**
 * Up to `burst` corrections within `windowMs` count as repairs; an overwrite after that begins a fight. In a fight at
 * least `leastMs` pass between two corrections. The fight is over when the object has been in sync for `quietMs`.
 */
export const FIGHT = { burst: 10, windowMs: 10_000, leastMs: 250, quietMs: 10_000 } as const

/** Whether another writer keeps overwriting an object. Times are on a monotonic clock, in milliseconds. */
export type Contention =
  | {
      readonly phase: 'calm'
      /** The times of recent corrections, the latest last. */
      readonly corrections: readonly number[]
    }
  | {
      readonly phase: 'backing-off'
      /** The time of the first correction of this fight. */
      readonly sinceMs: number
      /** The time of the last write of the object. */
      readonly writtenMs: number
      /** How many corrections this fight has had so far. */
      readonly corrections: number
      /** Since when the object has been in sync; undefined while it is overwritten. */
      readonly inSyncSinceMs: number | undefined
    }

/**
 * - `undone`: another writer has overwritten the object.
 * - `corrected`: the overwrite was corrected.
 * - `written`: the object was written for another reason, such as a new list of masters.
 * - `in-sync`: the object is as desired.
 */
export type ContentionInput = 'undone' | 'corrected' | 'written' | 'in-sync'

export const calm: Contention = { phase: 'calm', corrections: [] }

const PATIENCE = 8

export function nextContention(state: Contention, input: ContentionInput, nowMs: number): Contention {
  if (state.phase === 'calm') {
    const corrections = state.corrections.filter((atMs) => atMs > nowMs - FIGHT.windowMs)
    if (input === 'corrected') return { phase: 'calm', corrections: [...corrections, nowMs] }
    const [sinceMs] = corrections
    const writtenMs = corrections.at(-1)
    if (input !== 'undone' || sinceMs === undefined || writtenMs === undefined || corrections.length < FIGHT.burst) {
      return state
    }
    return { phase: 'backing-off', sinceMs, writtenMs, corrections: corrections.length, inSyncSinceMs: undefined }
  }
  switch (input) {
    case 'undone':
      return { ...state, inSyncSinceMs: undefined }
    case 'corrected':
      return { ...state, writtenMs: nowMs, corrections: state.corrections + 1, inSyncSinceMs: nowMs }
    case 'written':
      return { ...state, writtenMs: nowMs, inSyncSinceMs: nowMs }
    case 'in-sync': {
      const inSyncSinceMs = state.inSyncSinceMs ?? nowMs
      return nowMs - inSyncSinceMs >= FIGHT.quietMs ? calm : { ...state, inSyncSinceMs }
    }
  }
}

/**
 * When the next correction may be made; negative infinity without a fight. The longer the fight, the longer the wait:
 * an eighth of its length, but at least 250 ms and at most `mostMs`. So when the other writer stops, the object is in
 * sync again within about an eighth of the fight's length. Pure.
 */
export function correctionDueMs(state: Contention, mostMs: number): number {
  if (state.phase === 'calm') return Number.NEGATIVE_INFINITY
  const gapMs = Math.round((state.writtenMs - state.sinceMs) / PATIENCE)
  return state.writtenMs + Math.min(Math.max(gapMs, FIGHT.leastMs), mostMs)
}

/**
 * When to check again without a change: a correction is due, or the fight may be over. Undefined without a fight. Pure.
 */
export function nextCheckMs(state: Contention, mostMs: number): number | undefined {
  if (state.phase === 'calm') return undefined
  return state.inSyncSinceMs === undefined ? correctionDueMs(state, mostMs) : state.inSyncSinceMs + FIGHT.quietMs
}

/** Clients choose their own field manager, so only this many have their own label value; the rest share `other`. */
const MAX_WRITERS = 20

export interface ContentionReportsOptions {
  readonly logger: Logger
  readonly metrics: Metrics
  readonly events: EventSink
}

/** A managed object, with the messages for the start and the end of a fight. */
export interface Contested {
  readonly kind: string
  readonly fields: LogFields
  readonly backingOff: string
  readonly calmAgain: string
  readonly event: (fight: { readonly corrections: number; readonly withinMs: number }) => EventToRecord
}

/** Reports foreign overwrites and the back-off from them: metrics, the log, and an Event when a fight begins. */
export class ContentionReports {
  readonly #options: ContentionReportsOptions
  readonly #overwrites: Counter<'kind' | 'writer'>
  readonly #backoffs: Counter<'kind'>
  readonly #backingOff: Gauge<'kind'>
  readonly #writers = new Set<string>()
  readonly #fights = new Map<string, number>()

  constructor(options: ContentionReportsOptions) {
    this.#options = options
    const { metrics } = options
    this.#overwrites = metrics.counter({
      name: 'apiserver_bootstrap_foreign_overwrites_total',
      help: "Corrections of managed objects after a foreign write, by the writer's field manager: unknown where it left no trace, other for all but the first 20 managers.",
      labels: ['kind', 'writer'],
    })
    this.#backoffs = metrics.counter({
      name: 'apiserver_bootstrap_backoffs_total',
      help: 'Back-offs that began because another writer overwrote a managed object repeatedly; kind is Lease if it deleted an own lease.',
      labels: ['kind'],
    })
    this.#backingOff = metrics.gauge({
      name: 'apiserver_bootstrap_backing_off',
      help: 'Whether corrections of managed objects back off (1), or are immediate (0).',
      labels: ['kind'],
    })
  }

  corrected(kind: string, writer: string | undefined): void {
    this.#overwrites.add({ kind, writer: writer === undefined ? 'unknown' : this.#known(writer) })
  }

  /** Called when the contention for an object may have changed from `before` to `now`. */
  changed(contested: Contested, before: Contention, now: Contention, nowMs: number): void {
    if (before.phase === now.phase) return
    const { logger, events } = this.#options
    const { kind, fields } = contested
    if (before.phase === 'backing-off') {
      this.ended(kind)
      const durationMs = Math.round(nowMs - before.sinceMs)
      logger.info({ ...fields, corrections: before.corrections, durationMs }, contested.calmAgain)
    }
    if (now.phase === 'backing-off') {
      this.#count(kind, 1)
      this.#backoffs.add({ kind })
      const fight = { corrections: now.corrections, withinMs: Math.round(nowMs - now.sinceMs) }
      logger.warn({ ...fields, ...fight }, contested.backingOff)
      events.record(contested.event(fight))
    }
  }

  /** Called when one object of this kind has left back-off. */
  ended(kind: string): void {
    this.#count(kind, -1)
  }

  #count(kind: string, by: 1 | -1): void {
    const fights = (this.#fights.get(kind) ?? 0) + by
    this.#fights.set(kind, fights)
    this.#backingOff.set({ kind }, fights > 0 ? 1 : 0)
  }

  #known(writer: string): string {
    if (this.#writers.has(writer)) return writer
    if (this.#writers.size >= MAX_WRITERS) return 'other'
    this.#writers.add(writer)
    return writer
  }
}
