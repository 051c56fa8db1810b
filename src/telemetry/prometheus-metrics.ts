import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { MetricOptions, Metrics } from './metrics.ts'

type Kind = 'counter' | 'gauge' | 'histogram'

/** Metrics of prom-client in a registry of their own, so that two masters in one process do not share them. */
export function prometheusMetrics(): Metrics {
  const registry = new Registry()
  const collectors: (() => void)[] = []
  const registered = new Map<string, { readonly shape: string; readonly metric: unknown }>()

  /** `make` is called for a new name only; the shape check guarantees that one name is one metric. */
  const once = <Metric>(kind: Kind, options: MetricOptions<string>, make: (labelNames: string[]) => Metric): Metric => {
    const labelNames = [...(options.labels ?? [])]
    const shape = `${kind}{${labelNames.join()}}`
    const known = registered.get(options.name)
    if (known === undefined) {
      const metric = make(labelNames)
      registered.set(options.name, { shape, metric })
      return metric
    }
    if (known.shape !== shape) {
      throw new Error(`metric ${options.name} is already registered as ${known.shape}, not ${shape}`)
    }
    return known.metric as Metric
  }

  return {
    counter(options) {
      return once('counter', options, (labelNames) => {
        const counter = new Counter({ name: options.name, help: options.help, labelNames, registers: [registry] })
        return { add: (labels, by = 1) => counter.inc(labels, by) }
      })
    },
    gauge(options) {
      return once('gauge', options, (labelNames) => {
        const gauge = new Gauge({ name: options.name, help: options.help, labelNames, registers: [registry] })
        return { set: (labels, value) => gauge.set(labels, value), remove: (labels) => gauge.remove(labels) }
      })
    },
    histogram(options) {
      return once('histogram', options, (labelNames) => {
        const buckets = [...options.buckets]
        const histogram = new Histogram({
          name: options.name,
          help: options.help,
          labelNames,
          buckets,
          registers: [registry],
        })
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
