import type { Clock } from '../runtime/clock.ts'
import type { Counter, Gauge, Metrics } from '../telemetry/metrics.ts'
import type { Finding, FindingType } from './finding.ts'

export type RepairKind = 'cluster-ip' | 'node-port'

/** Upstream's names: metrics.go beside each repair, and ipallocator/metrics.go and portallocator/metrics.go for the allocators. */
const upstream = {
  'cluster-ip': {
    errors: 'apiserver_clusterip_repair_ip_errors_total',
    failures: 'apiserver_clusterip_repair_reconcile_errors_total',
    allocated: 'kube_apiserver_clusterip_allocator_allocated_ips',
    available: 'kube_apiserver_clusterip_allocator_available_ips',
    items: 'ClusterIPs',
  },
  'node-port': {
    errors: 'apiserver_nodeport_repair_port_errors_total',
    failures: 'apiserver_nodeport_repair_reconcile_errors_total',
    allocated: 'kube_apiserver_nodeport_allocator_allocated_ports',
    available: 'kube_apiserver_nodeport_allocator_available_ports',
    items: 'NodePorts',
  },
} as const

/** The metrics of one repair. */
export class RepairMetrics {
  readonly #kind: RepairKind
  readonly #clock: Clock
  readonly #errors: Counter<'type'>
  readonly #failures: Counter<never>
  readonly #repairs: Counter<'repair' | 'reason'>
  readonly #allocated: Gauge<'cidr'> | Gauge<never>
  readonly #available: Gauge<'cidr'> | Gauge<never>
  readonly #withheld: Gauge<'range' | 'reason'>
  #lastPassMs: number | undefined
  #tell: (() => void) | undefined

  constructor({
    kind,
    metrics,
    clock,
  }: { readonly kind: RepairKind; readonly metrics: Metrics; readonly clock: Clock }) {
    const names = upstream[kind]
    const { items } = names
    this.#kind = kind
    this.#clock = clock
    this.#errors = metrics.counter({
      name: names.errors,
      help: `What the repair found wrong with ${items}, each in every full pass that finds it.`,
      labels: ['type'],
    })
    this.#failures = metrics.counter({ name: names.failures, help: `Passes of the repair of ${items} that failed.` })
    this.#repairs = metrics.counter({
      name: 'apiserver_bootstrap_repairs_total',
      help: 'Allocations repaired, by the reason that is given in events.',
      labels: ['repair', 'reason'],
    })
    const labels = kind === 'cluster-ip' ? (['cidr'] as const) : []
    this.#allocated = metrics.gauge({ name: names.allocated, help: `${items} that are taken.`, labels })
    this.#available = metrics.gauge({ name: names.available, help: `${items} that are free.`, labels })
    this.#withheld = metrics.gauge({
      name: 'apiserver_bootstrap_range_withheld',
      help: 'Whether a stored range is left alone (1), because it is another than the flag says (mismatch) or cannot be read (unreadable).',
      labels: ['range', 'reason'],
    })
    const age = metrics.gauge({
      name: 'apiserver_bootstrap_repair_last_pass_age_seconds',
      help: 'Time since the last full pass of a repair that succeeded; absent before the first.',
      labels: ['repair'],
    })
    metrics.onCollect(() => {
      if (this.#lastPassMs !== undefined)
        age.set({ repair: kind }, (this.#clock.monotonicMs() - this.#lastPassMs) / 1000)
      this.#tell?.()
    })
  }

  found({ type }: { readonly type: FindingType }): void {
    this.#errors.add({ type })
  }

  repaired({ reason }: Pick<Finding, 'reason'>): void {
    this.#repairs.add({ repair: this.#kind, reason })
  }

  /** A full pass succeeded. */
  passed(): void {
    this.#lastPassMs = this.#clock.monotonicMs()
  }

  /** A pass failed. */
  failed(): void {
    this.#failures.add({})
  }

  /** Has `tell`, and no longer the one that was given before, called before each scrape, to say by {@link usage} what would be dear to say at every change. */
  onCollect(tell: () => void): void {
    this.#tell = tell
  }

  /** How full a range is; `range` as text. */
  usage(range: string, { allocated, size }: { readonly allocated: number; readonly size: number }): void {
    const labels = (this.#kind === 'cluster-ip' ? { cidr: range } : {}) as { readonly cidr: string }
    ;(this.#allocated as Gauge<'cidr'>).set(labels, allocated)
    ;(this.#available as Gauge<'cidr'>).set(labels, size - allocated)
  }

  /** Whether a stored range is left alone, and why. `range` is its name: `servicenodeports`. */
  withheld(range: string, reason: 'mismatch' | 'unreadable' | undefined): void {
    for (const one of ['mismatch', 'unreadable'] as const)
      this.#withheld.set({ range, reason: one }, reason === one ? 1 : 0)
  }
}
