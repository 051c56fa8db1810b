import { getOrMake } from '../../runtime/memo.ts'

/** Who chose the address or port. `static`: a client. `dynamic`: the server. */
export type AllocationScope = 'static' | 'dynamic'

type Labels = Readonly<Record<string, string>>

const definitions = {
  kube_apiserver_clusterip_allocator_allocated_ips: ['gauge', 'Number of allocated ClusterIPs.'],
  kube_apiserver_clusterip_allocator_available_ips: ['gauge', 'Number of free ClusterIPs.'],
  kube_apiserver_clusterip_allocator_allocation_total: ['counter', 'Number of allocations of ClusterIPs.'],
  kube_apiserver_clusterip_allocator_allocation_errors_total: [
    'counter',
    'Number of failed allocations of ClusterIPs.',
  ],
  kube_apiserver_nodeport_allocator_allocated_ports: ['gauge', 'Number of allocated NodePorts.'],
  kube_apiserver_nodeport_allocator_available_ports: ['gauge', 'Number of free NodePorts.'],
  kube_apiserver_nodeport_allocator_allocation_total: ['counter', 'Number of allocations of NodePorts.'],
  kube_apiserver_nodeport_allocator_allocation_errors_total: ['counter', 'Number of failed allocations of NodePorts.'],
} as const

type Metric = keyof typeof definitions

/**
 * The metrics of the allocators of one server, under upstream's names
 * (pkg/registry/core/service/{ipallocator,portallocator}/metrics.go).
 */
export class AllocatorMetrics {
  /** The values by metric and by labels as text. */
  readonly #values = new Map<Metric, Map<string, number>>()

  count(metric: Extract<Metric, `${string}_total`>, labels: Labels): void {
    const values = this.#of(metric)
    const text = textOf(labels)
    values.set(text, (values.get(text) ?? 0) + 1)
  }

  /** Replaces all samples of a gauge. */
  set(metric: Exclude<Metric, `${string}_total`>, values: readonly (readonly [labels: Labels, value: number])[]): void {
    this.#values.set(metric, new Map(values.map(([labels, value]) => [textOf(labels), value])))
  }

  /** The metrics, in the text format of Prometheus. */
  expose(): string {
    const metrics = Object.keys(definitions) as Metric[]
    return metrics
      .map((metric) => {
        const [type, help] = definitions[metric]
        const samples = [...this.#of(metric)].map(([labels, value]) => `${metric}${labels} ${value}\n`)
        return `# HELP ${metric} ${help}\n# TYPE ${metric} ${type}\n${samples.join('')}`
      })
      .join('')
  }

  #of(metric: Metric): Map<string, number> {
    return getOrMake(this.#values, metric, () => new Map())
  }
}

/** The labels in the text format. Their values are ranges and scopes, which need no escapes. */
function textOf(labels: Labels): string {
  const texts = Object.entries(labels).map(([name, value]) => `${name}="${value}"`)
  return texts.length === 0 ? '' : `{${texts.join()}}`
}
