import type { Counter, Gauge, Metrics } from '../telemetry/metrics.ts'

/** Field managers are chosen by whoever writes: only so many are told apart. */
const MAX_WRITERS = 20

/** Counts what others undo, and tells what is being backed off from. */
export class OverwriteMetrics {
  readonly #overwrites: Counter<'kind' | 'writer'>
  readonly #backoffs: Counter<'kind'>
  readonly #backingOff: Gauge<'kind'>
  readonly #writers = new Set<string>()

  constructor(metrics: Metrics) {
    this.#overwrites = metrics.counter({
      name: 'apiserver_bootstrap_foreign_overwrites_total',
      help: "Times that somebody else undid what is kept and it was put right, by the writer's field manager: unknown where it left no trace, other beyond 20 of them.",
      labels: ['kind', 'writer'],
    })
    this.#backoffs = metrics.counter({
      name: 'apiserver_bootstrap_backoffs_total',
      help: 'Times that a back-off began because somebody else kept undoing what is kept; kind is Lease for own leases that are taken away.',
      labels: ['kind'],
    })
    this.#backingOff = metrics.gauge({
      name: 'apiserver_bootstrap_backing_off',
      help: 'Whether what is kept is put right at growing intervals only (1), or at once (0).',
      labels: ['kind'],
    })
  }

  overwritten(kind: string, writer: string | undefined): void {
    this.#overwrites.add({ kind, writer: writer === undefined ? 'unknown' : this.#known(writer) })
  }

  backedOff(kind: string): void {
    this.#backoffs.add({ kind })
  }

  backsOff(kind: string, isBackingOff: boolean): void {
    this.#backingOff.set({ kind }, isBackingOff ? 1 : 0)
  }

  #known(writer: string): string {
    if (this.#writers.has(writer)) return writer
    if (this.#writers.size >= MAX_WRITERS) return 'other'
    this.#writers.add(writer)
    return writer
  }
}
