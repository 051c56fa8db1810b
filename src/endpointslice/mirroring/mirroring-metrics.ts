import type { Counter, Gauge, Histogram, Metrics } from '../../telemetry/metrics.ts'
import { countBuckets, ServiceTotals, sumOf } from '../slice-metrics.ts'
import type { MirrorTally } from './mirror-plan.ts'

const none = {}
const secondsBuckets = Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power)

/**
 * The metrics of mirroring, under upstream's names: `endpoint_slice_mirroring_controller_*`
 * (pkg/controller/endpointslicemirroring/metrics). There is one instance per process. The gauges count only the
 * current term of leadership, which begins with `reset`.
 */
export class MirroringMetrics {
  readonly #perSync: Readonly<Record<'added' | 'updated' | 'removed' | 'skipped', Histogram<never>>>
  readonly #duration: Histogram<never>
  readonly #endpoints: Gauge<never>
  readonly #slices: Gauge<never>
  readonly #desiredSlices: Gauge<never>
  readonly #changes: Counter<'operation'>
  readonly #totals = new ServiceTotals()

  constructor(metrics: Metrics) {
    const named = (name: string, help: string) => ({ name: `endpoint_slice_mirroring_controller_${name}`, help })
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
    this.#endpoints = metrics.gauge(named('endpoints_desired', 'Endpoints desired in mirrored EndpointSlices.'))
    this.#slices = metrics.gauge(named('num_endpoint_slices', 'Mirrored EndpointSlices.'))
    this.#desiredSlices = metrics.gauge(
      named('desired_endpoint_slices', 'Mirrored EndpointSlices that would exist if each were as full as possible.'),
    )
    this.#changes = metrics.counter({
      ...named('changes', 'Writes of mirrored EndpointSlices.'),
      labels: ['operation'],
    })
  }

  reset(): void {
    this.#totals.clear()
    this.#show()
  }

  synced(seconds: number): void {
    this.#duration.observe(none, seconds)
  }

  written(operation: 'create' | 'update' | 'delete'): void {
    this.#changes.add({ operation })
  }

  /** Records the plan for a Service. `tally` has its changes and its desired slices. */
  planned(serviceKey: string, tally: MirrorTally, maxEndpointsPerSubset: number): void {
    for (const count of ['added', 'updated', 'removed', 'skipped'] as const) {
      this.#perSync[count].observe(none, tally[count])
    }
    const groups = tally.groups.map(({ endpoints, slices }) => {
      return { endpoints, slices, desiredSlices: Math.ceil(endpoints / maxEndpointsPerSubset) }
    })
    this.#totals.set(serviceKey, sumOf(groups))
    this.#show()
  }

  /** Whether the gauges include the Service. */
  knows(serviceKey: string): boolean {
    return this.#totals.has(serviceKey)
  }

  forget(serviceKey: string): void {
    if (!this.#totals.has(serviceKey)) return
    this.#totals.set(serviceKey, undefined)
    this.#show()
  }

  #show(): void {
    const { sum } = this.#totals
    this.#endpoints.set(none, sum.endpoints)
    this.#slices.set(none, sum.slices)
    this.#desiredSlices.set(none, sum.desiredSlices)
  }
}
