import type { Counter, Histogram, Metrics } from '../../telemetry/metrics.ts'
import { countBuckets, ServiceTotals, totalsOf } from '../slice-metrics.ts'
import type { MirrorTally } from './mirror-plan.ts'

const none = {}
const prefix = 'endpoint_slice_mirroring_controller'
const secondsBuckets = Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power)

/**
 * The metrics of mirroring, under upstream's names: `endpoint_slice_mirroring_controller_*`
 * (pkg/controller/endpointslicemirroring/metrics). There is one instance per process. The gauges count only the
 * current term of leadership, which begins with `reset`.
 */
export class MirroringMetrics {
  readonly #perSync: Readonly<Record<'added' | 'updated' | 'removed' | 'skipped', Histogram<never>>>
  readonly #duration: Histogram<never>
  readonly #changes: Counter<'operation'>
  readonly #totals: ServiceTotals

  constructor(metrics: Metrics) {
    const named = (name: string, help: string) => ({ name: `${prefix}_${name}`, help })
    const perSync = (name: string, help: string) =>
      metrics.histogram({ ...named(`${name}_per_sync`, help), buckets: countBuckets })
    this.#perSync = {
      added: perSync('endpoints_added', 'Endpoints that were added when Endpoints were mirrored.'),
      updated: perSync('endpoints_updated', 'Endpoints that were changed when Endpoints were mirrored.'),
      removed: perSync('endpoints_removed', 'Endpoints that were removed when Endpoints were mirrored.'),
      skipped: perSync(
        'addresses_skipped',
        'Addresses that were not mirrored: they are invalid, or exceed the maximum.',
      ),
    }
    this.#duration = metrics.histogram({
      ...named('endpoints_sync_duration', 'How long it takes to mirror Endpoints, in seconds.'),
      buckets: secondsBuckets,
    })
    this.#totals = new ServiceTotals(metrics, prefix, {
      endpoints: 'Endpoints desired in mirrored EndpointSlices.',
      slices: 'Mirrored EndpointSlices.',
      desiredSlices: 'Mirrored EndpointSlices that would exist if each were as full as possible.',
    })
    this.#changes = metrics.counter({
      ...named('changes', 'Writes of mirrored EndpointSlices.'),
      labels: ['operation'],
    })
  }

  reset(): void {
    this.#totals.clear()
  }

  synced(seconds: number): void {
    this.#duration.observe(none, seconds)
  }

  written(operation: 'create' | 'update' | 'delete'): void {
    this.#changes.add({ operation })
  }

  /** Records the plan for a Service. `tally` has the plan's changes and its desired slices. */
  planned(serviceKey: string, tally: MirrorTally, maxEndpointsPerSubset: number): void {
    for (const count of ['added', 'updated', 'removed', 'skipped'] as const) {
      this.#perSync[count].observe(none, tally[count])
    }
    this.#totals.set(serviceKey, totalsOf(tally.groups, maxEndpointsPerSubset))
  }

  /** Whether the gauges include the Service. */
  knows(serviceKey: string): boolean {
    return this.#totals.has(serviceKey)
  }

  forget(serviceKey: string): void {
    this.#totals.set(serviceKey, undefined)
  }
}
