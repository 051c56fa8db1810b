import type { Counter, Histogram, Metrics } from '../telemetry/metrics.ts'

/** The client's metrics under client-go's names (component-base `metrics/prometheus/restclient`), without its host label. */
export interface RestMetrics {
  readonly requests: Counter<'code' | 'method'>
  readonly duration: Histogram<'verb'>
  readonly limiter: Histogram<'verb'>
  readonly retries: Counter<'code' | 'verb'>
}

export function restMetrics(metrics: Metrics): RestMetrics {
  return {
    requests: metrics.counter({
      name: 'rest_client_requests_total',
      help: 'Number of HTTP requests, partitioned by status code and method.',
      labels: ['code', 'method'],
    }),
    duration: metrics.histogram({
      name: 'rest_client_request_duration_seconds',
      help: 'Request latency in seconds, until the answer (of a watch: its beginning), by method.',
      labels: ['verb'],
      buckets: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    }),
    limiter: metrics.histogram({
      name: 'rest_client_rate_limiter_duration_seconds',
      help: 'Time spent waiting for the client-side rate limiter in seconds, by method.',
      labels: ['verb'],
      buckets: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    }),
    retries: metrics.counter({
      name: 'rest_client_request_retries_total',
      help: 'Number of request retries, partitioned by status code and method.',
      labels: ['code', 'verb'],
    }),
  }
}
