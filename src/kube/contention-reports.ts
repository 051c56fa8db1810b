import type { Contention } from '../runtime/contention.ts'
import type { LogFields, Logger } from '../telemetry/logger.ts'
import type { Counter, Gauge, Metrics } from '../telemetry/metrics.ts'
import type { EventSink, EventToRecord } from './event-object.ts'

/** Field managers are chosen by whoever writes: only so many are told apart. */
const MAX_WRITERS = 20

export interface ContentionReportsOptions {
  readonly logger: Logger
  readonly metrics: Metrics
  readonly events: EventSink
}

/** Something that is kept, and what is said of it when somebody keeps undoing it and when nobody does any more. */
export interface Contested {
  readonly kind: string
  readonly fields: LogFields
  readonly backingOff: string
  readonly calmAgain: string
  readonly event: (fight: { readonly corrections: number; readonly withinMs: number }) => EventToRecord
}

/** Tells what others undo and what is backed off from: metrics, the log, and an event when a fight begins. */
export class ContentionReports {
  readonly #options: ContentionReportsOptions
  readonly #overwrites: Counter<'kind' | 'writer'>
  readonly #backoffs: Counter<'kind'>
  readonly #backingOff: Gauge<'kind'>
  readonly #writers = new Set<string>()
  /** How many things of a kind are backed off from. */
  readonly #fights = new Map<string, number>()

  constructor(options: ContentionReportsOptions) {
    this.#options = options
    const { metrics } = options
    this.#overwrites = metrics.counter({
      name: 'apiserver_bootstrap_foreign_overwrites_total',
      help: "Corrections of managed objects after a foreign write, by the writer's field manager: unknown where it left no trace, other beyond 20 of them.",
      labels: ['kind', 'writer'],
    })
    this.#backoffs = metrics.counter({
      name: 'apiserver_bootstrap_backoffs_total',
      help: 'Back-offs that began because a foreign writer overwrote a managed object again and again; kind is Lease for own leases that are taken away.',
      labels: ['kind'],
    })
    this.#backingOff = metrics.gauge({
      name: 'apiserver_bootstrap_backing_off',
      help: 'Whether managed objects are corrected at growing intervals only (1), or at once (0).',
      labels: ['kind'],
    })
  }

  /** What somebody had undone was put right. */
  corrected(kind: string, writer: string | undefined): void {
    this.#overwrites.add({ kind, writer: writer === undefined ? 'unknown' : this.#known(writer) })
  }

  /** How the contention for something has changed by now. */
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

  /** One thing of this kind is backed off from no more. */
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
