import type { Counter, Metrics } from '../telemetry/metrics.ts'

/** Counts what this master writes, by object and by what was found wrong. */
export class WriteRecorder {
  readonly #writes: Counter<'kind' | 'verb' | 'reason'>

  constructor(metrics: Metrics) {
    this.#writes = metrics.counter({
      name: 'apiserver_bootstrap_writes_total',
      help: 'Writes to the objects that are kept, by what was found wrong.',
      labels: ['kind', 'verb', 'reason'],
    })
  }

  wrote(kind: string, verb: 'create' | 'update', reasons: readonly string[]): void {
    for (const reason of reasons) this.#writes.add({ kind, verb, reason })
  }
}
