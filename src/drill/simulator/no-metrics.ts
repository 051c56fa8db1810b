import type { Metrics } from '../../telemetry/metrics.ts'

/** Metrics that nobody reads: a registry for each life of each master would cost more than what it measures. */
export const noMetrics: Metrics = {
  counter: () => ({ add: () => {} }),
  gauge: () => ({ set: () => {}, remove: () => {} }),
  histogram: () => ({ observe: () => {} }),
  onCollect: () => {},
  expose: async () => '',
}
