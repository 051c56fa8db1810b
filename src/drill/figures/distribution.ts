import type { Distribution, Sample } from '../report.ts'

/** Samples and what they come to; those that never came about are counted apart. */
export function distribution(samples: readonly Sample[]): Distribution {
  const sorted = samples.flatMap(({ tookMs }) => (tookMs === undefined ? [] : [tookMs])).sort((a, b) => a - b)
  return {
    count: sorted.length,
    never: samples.length - sorted.length,
    p50Ms: percentile(sorted, 50),
    p99Ms: percentile(sorted, 99),
    maxMs: sorted.at(-1),
    samples,
  }
}

/** By nearest rank: the smallest of the values that at least `percent` of a hundred of them do not exceed. */
export function percentile(sorted: readonly number[], percent: number): number | undefined {
  return sorted[Math.max(Math.ceil((percent * sorted.length) / 100), 1) - 1]
}
