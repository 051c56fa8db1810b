import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { MetricOptions, Metrics } from './metrics.ts'

interface Registration {
  readonly name: string
  readonly help: string
  readonly labelNames: string[]
  readonly registers: Registry[]
}

/** Metrics of prom-client in a registry of their own, so that two masters in one process do not share them. */
export function prometheusMetrics(): Metrics {
  const registry = new Registry()
  const collectors: (() => void)[] = []
  const registered = new Map<string, { readonly shape: string; readonly metric: unknown }>()

  /** `make` is called for a new name only; the shape check guarantees that one name is one metric. */
  const once = <Metric>(
    kind: 'counter' | 'gauge' | 'histogram',
    { name, help, labels = [] }: MetricOptions<string>,
    make: (options: Registration) => Metric,
  ): Metric => {
    const shape = `${kind}{${labels.join()}}`
    const known = registered.get(name)
    if (known === undefined) {
      const metric = make({ name, help, labelNames: [...labels], registers: [registry] })
      registered.set(name, { shape, metric })
      return metric
    }
    if (known.shape !== shape) throw new Error(`metric ${name} is already registered as ${known.shape}, not ${shape}`)
    return known.metric as Metric
  }

  return {
    counter(options) {
      return once('counter', options, (registration) => {
        const counter = new Counter(registration)
        return { add: (labels, by = 1) => counter.inc(labels, by) }
      })
    },
    gauge(options) {
      return once('gauge', options, (registration) => {
        const gauge = new Gauge(registration)
        return { set: (labels, value) => gauge.set(labels, value), remove: (labels) => gauge.remove(labels) }
      })
    },
    histogram(options) {
      return once('histogram', options, (registration) => {
        const histogram = new Histogram({ ...registration, buckets: [...options.buckets] })
        return { observe: (labels, value) => histogram.observe(labels, value) }
      })
    },
    onCollect(collect) {
      collectors.push(collect)
    },
    async expose() {
      for (const collect of collectors) collect()
      return registry.metrics()
    },
  }
}
