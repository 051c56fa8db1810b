import type { Counter, Gauge, Histogram, Metrics } from '../telemetry/metrics.ts'
import type { AddressTypePlan, Packing } from './slices-plan.ts'

export interface EndpointSliceMetricsOptions {
  readonly metrics: Metrics
  readonly maxEndpointsPerSlice: number
}

const prefix = 'endpoint_slice_controller'
/** Buckets from 2 to 32,768. */
export const countBuckets = Array.from({ length: 15 }, (_, power) => 2 ** (power + 1))
/** Prometheus' default buckets, which upstream uses for `endpointslices_changed_per_sync`. */
const defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/**
 * The metrics of the endpointslice controller, under upstream's names. There is one instance per process. The gauges
 * count only the current term of leadership, which begins with `reset`. Unlike upstream, they count the slices of both
 * families of a dual-stack Service.
 */
export class EndpointSliceMetrics {
  readonly #max: number
  readonly #added: Histogram<never>
  readonly #removed: Histogram<never>
  readonly #changes: Counter<'operation'>
  readonly #changedPerSync: Histogram<'topology' | 'traffic_distribution'>
  readonly #syncs: Counter<'result'>
  readonly #distributed: Gauge<'traffic_distribution'>
  readonly #totals: ServiceTotals
  readonly #distributionOf = new Map<string, string>()
  readonly #servicesByDistribution = new Map<string, number>()

  constructor({ metrics, maxEndpointsPerSlice }: EndpointSliceMetricsOptions) {
    this.#max = maxEndpointsPerSlice
    this.#added = metrics.histogram({
      name: `${prefix}_endpoints_added_per_sync`,
      help: 'Endpoints added in a sync of a Service, counted for each of its address types.',
      buckets: countBuckets,
    })
    this.#removed = metrics.histogram({
      name: `${prefix}_endpoints_removed_per_sync`,
      help: 'Endpoints removed in a sync of a Service, counted for each of its address types.',
      buckets: countBuckets,
    })
    this.#changes = metrics.counter({
      name: `${prefix}_changes`,
      help: 'Writes of EndpointSlices that succeeded.',
      labels: ['operation'],
    })
    this.#changedPerSync = metrics.histogram({
      name: `${prefix}_endpointslices_changed_per_sync`,
      help: 'EndpointSlices that a sync of a Service wrote, counted for each of its address types.',
      labels: ['topology', 'traffic_distribution'],
      buckets: defaultBuckets,
    })
    this.#syncs = metrics.counter({
      name: `${prefix}_syncs`,
      help: 'Syncs of Services by their result; stale: the cache did not contain an earlier write yet.',
      labels: ['result'],
    })
    this.#distributed = metrics.gauge({
      name: `${prefix}_services_count_by_traffic_distribution`,
      help: 'Services whose hints follow their trafficDistribution.',
      labels: ['traffic_distribution'],
    })
    this.#totals = new ServiceTotals(metrics, prefix, {
      endpoints: 'Endpoints desired, over all Services.',
      slices: 'EndpointSlices that the Services have.',
      desiredSlices: 'EndpointSlices that the Services would have if each were as full as possible.',
    })
    metrics.onCollect(() => {
      for (const [distribution, count] of this.#servicesByDistribution) {
        this.#distributed.set({ traffic_distribution: distribution }, count)
      }
    })
  }

  /** Forgets all Services when a term of leadership begins. */
  reset(): void {
    this.#totals.clear()
    for (const key of [...this.#distributionOf.keys()]) this.#distribute(key, undefined)
  }

  synced(result: 'success' | 'stale' | 'error'): void {
    this.#syncs.add({ result })
  }

  /** Records the plan for a Service. `trafficDistribution`: the value that its hints follow, undefined without one. */
  planned(key: string, plans: readonly AddressTypePlan[], trafficDistribution: string | undefined): void {
    for (const { added, removed } of plans) {
      this.#added.observe({}, added)
      this.#removed.observe({}, removed)
    }
    const totals = plans.map(({ packings }) => {
      const sum = totalsOf(packings, this.#max)
      // A Service always has a slice of each address type, at least a placeholder.
      return { ...sum, desiredSlices: Math.max(1, sum.desiredSlices) }
    })
    this.#totals.set(key, sumOf(totals))
    this.#distribute(key, trafficDistribution)
  }

  changed(operation: 'create' | 'update' | 'delete'): void {
    this.#changes.add({ operation })
  }

  /**
   * Records that a plan for an address type of a Service was carried out. `slices`: how many slices it wrote or
   * deleted.
   */
  finished(slices: number, topology: 'Auto' | 'Disabled', trafficDistribution: string | undefined): void {
    this.#changedPerSync.observe({ topology, traffic_distribution: trafficDistribution ?? '' }, slices)
  }

  deleteService(key: string): void {
    this.#totals.set(key, undefined)
    this.#distribute(key, undefined)
  }

  #distribute(key: string, distribution: string | undefined): void {
    const former = this.#distributionOf.get(key)
    if (former === distribution) return
    const count = (value: string, by: number): void => {
      this.#servicesByDistribution.set(value, (this.#servicesByDistribution.get(value) ?? 0) + by)
    }
    if (former !== undefined) count(former, -1)
    if (distribution === undefined) this.#distributionOf.delete(key)
    else {
      count(distribution, 1)
      this.#distributionOf.set(key, distribution)
    }
  }
}

/** What a Service contributes to the gauges. */
interface Totals {
  readonly endpoints: number
  readonly slices: number
  readonly desiredSlices: number
}

const zero: Totals = { endpoints: 0, slices: 0, desiredSlices: 0 }

/** The totals of all Services. Their sum is shown in three gauges. */
export class ServiceTotals {
  readonly #services = new Map<string, Totals>()
  #sum = zero

  constructor(metrics: Metrics, prefix: string, help: Readonly<Record<keyof Totals, string>>) {
    const show = (name: string, field: keyof Totals): void => {
      const gauge = metrics.gauge({ name: `${prefix}_${name}`, help: help[field] })
      metrics.onCollect(() => gauge.set({}, this.#sum[field]))
    }
    show('endpoints_desired', 'endpoints')
    show('num_endpoint_slices', 'slices')
    show('desired_endpoint_slices', 'desiredSlices')
  }

  has(key: string): boolean {
    return this.#services.has(key)
  }

  /** Replaces the totals of a Service; undefined removes it. */
  set(key: string, totals: Totals | undefined): void {
    const former = this.#services.get(key)
    if (totals === undefined) this.#services.delete(key)
    else this.#services.set(key, totals)
    this.#sum = add(add(this.#sum, former ?? zero, -1), totals ?? zero)
  }

  clear(): void {
    this.#services.clear()
    this.#sum = zero
  }
}

/** The totals of one Service. `max`: how many endpoints a slice has at most. */
export function totalsOf(packings: readonly Packing[], max: number): Totals {
  return sumOf(packings.map((packing) => ({ ...packing, desiredSlices: Math.ceil(packing.endpoints / max) })))
}

function sumOf(all: readonly Totals[]): Totals {
  return all.reduce((a, b) => add(a, b), zero)
}

function add(a: Totals, b: Totals, sign = 1): Totals {
  return {
    endpoints: a.endpoints + sign * b.endpoints,
    slices: a.slices + sign * b.slices,
    desiredSlices: a.desiredSlices + sign * b.desiredSlices,
  }
}
