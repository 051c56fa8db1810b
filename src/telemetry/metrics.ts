/** Label names and values of one sample. */
export type Labels<Name extends string = string> = Readonly<Record<Name, string>>

/** A number that only grows. */
export interface Counter<Name extends string> {
  /** Adds `by` (default 1, never negative). */
  add(labels: Labels<Name>, by?: number): void
}

/** A number that is set. */
export interface Gauge<Name extends string> {
  set(labels: Labels<Name>, value: number): void
  /** Forgets the sample of these labels: for things that have ceased to exist. */
  remove(labels: Labels<Name>): void
}

/** A distribution. Durations are in seconds, as Prometheus wants them. */
export interface Histogram<Name extends string> {
  observe(labels: Labels<Name>, value: number): void
}

/** What a metric is called and says. Asking twice for the same name gives the same metric. */
export interface MetricOptions<Name extends string> {
  readonly name: string
  readonly help: string
  readonly labels?: readonly Name[]
}

/**
 * The metrics of one master. Several masters in one process have one registry each.
 * Asking for a name again with other labels or another type is an error in the program and throws.
 */
export interface Metrics {
  counter<Name extends string = never>(options: MetricOptions<Name>): Counter<Name>
  gauge<Name extends string = never>(options: MetricOptions<Name>): Gauge<Name>
  histogram<Name extends string = never>(
    options: MetricOptions<Name> & { readonly buckets: readonly number[] },
  ): Histogram<Name>
  /** Registers a function called before each `expose`, for values that are cheaper to read than to keep. */
  onCollect(collect: () => void): void
  /** The text exposition format, version 0.0.4. */
  expose(): Promise<string>
}
