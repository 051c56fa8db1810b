import type { Counter, Gauge, Histogram, Metrics } from '../../telemetry/metrics.ts'
import type { MirrorTally } from './mirror-plan.ts'

const none = {}
const countBuckets = Array.from({ length: 15 }, (_, power) => 2 ** (power + 1))
const secondsBuckets = Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power)

/** What one Service adds to the gauges. */
interface Share {
  readonly endpoints: number
  readonly slices: number
  readonly desiredSlices: number
}

/**
 * What mirroring does, under upstream's names: `endpoint_slice_mirroring_controller_*` (pkg/controller/endpointslicemirroring/metrics). Made once per process;
 * whoever begins a term of leadership calls `reset`.
 */
export class MirroringMetrics {
  readonly #perSync: Readonly<Record<'added' | 'updated' | 'removed' | 'skipped', Histogram<never>>>
  readonly #duration: Histogram<never>
  readonly #endpoints: Gauge<never>
  readonly #slices: Gauge<never>
  readonly #desiredSlices: Gauge<never>
  readonly #changes: Counter<'operation'>
  readonly #shares = new Map<string, Share>()
  #total: Share = { endpoints: 0, slices: 0, desiredSlices: 0 }

  constructor(metrics: Metrics) {
    const named = (name: string, help: string) => ({ name: `endpoint_slice_mirroring_controller_${name}`, help })
    const perSync = (name: string, help: string) =>
      metrics.histogram({ ...named(`${name}_per_sync`, help), buckets: countBuckets })
    this.#perSync = {
      added: perSync('endpoints_added', 'Endpoints that were added when Endpoints were mirrored.'),
      updated: perSync('endpoints_updated', 'Endpoints that were changed when Endpoints were mirrored.'),
      removed: perSync('endpoints_removed', 'Endpoints that were removed when Endpoints were mirrored.'),
      skipped: perSync('addresses_skipped', 'Addresses that were not mirrored: they are none, or beyond the maximum.'),
    }
    this.#duration = metrics.histogram({
      ...named('endpoints_sync_duration', 'How long it takes to mirror Endpoints, in seconds.'),
      buckets: secondsBuckets,
    })
    this.#endpoints = metrics.gauge(named('endpoints_desired', 'Endpoints that are to be in mirrored EndpointSlices.'))
    this.#slices = metrics.gauge(named('num_endpoint_slices', 'Mirrored EndpointSlices.'))
    this.#desiredSlices = metrics.gauge(
      named('desired_endpoint_slices', 'Mirrored EndpointSlices that there would be if each were as full as can be.'),
    )
    this.#changes = metrics.counter({
      ...named('changes', 'Writes of mirrored EndpointSlices.'),
      labels: ['operation'],
    })
  }

  /** Forgets all Services. */
  reset(): void {
    this.#shares.clear()
    this.#total = { endpoints: 0, slices: 0, desiredSlices: 0 }
    this.#show()
  }

  synced(seconds: number): void {
    this.#duration.observe(none, seconds)
  }

  written(operation: 'create' | 'update' | 'delete'): void {
    this.#changes.add({ operation })
  }

  /** A Service was looked at, and its slices shall be as `tally` says. */
  planned(serviceKey: string, tally: MirrorTally, maxEndpointsPerSubset: number): void {
    for (const count of ['added', 'updated', 'removed', 'skipped'] as const) {
      this.#perSync[count].observe(none, tally[count])
    }
    let share: Share = { endpoints: 0, slices: 0, desiredSlices: 0 }
    for (const { endpoints, slices } of tally.groups) {
      share = sum(share, { endpoints, slices, desiredSlices: Math.ceil(endpoints / maxEndpointsPerSubset) })
    }
    this.#replace(serviceKey, share)
  }

  /** Whether the Service has a part in the gauges. */
  knows(serviceKey: string): boolean {
    return this.#shares.has(serviceKey)
  }

  /** The Service is mirrored no more. */
  forget(serviceKey: string): void {
    this.#replace(serviceKey, undefined)
  }

  #replace(serviceKey: string, share: Share | undefined): void {
    const former = this.#shares.get(serviceKey)
    if (former === undefined && share === undefined) return
    if (share === undefined) this.#shares.delete(serviceKey)
    else this.#shares.set(serviceKey, share)
    if (former !== undefined) this.#total = sum(this.#total, former, -1)
    if (share !== undefined) this.#total = sum(this.#total, share)
    this.#show()
  }

  #show(): void {
    this.#endpoints.set(none, this.#total.endpoints)
    this.#slices.set(none, this.#total.slices)
    this.#desiredSlices.set(none, this.#total.desiredSlices)
  }
}

function sum(a: Share, b: Share, sign = 1): Share {
  return {
    endpoints: a.endpoints + sign * b.endpoints,
    slices: a.slices + sign * b.slices,
    desiredSlices: a.desiredSlices + sign * b.desiredSlices,
  }
}
