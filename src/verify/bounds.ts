/** Within which time what must come about does. Every margin of every invariant is made of these. Durations are in milliseconds. */
export interface Bounds {
  /** How much later than its lease's end a dead master may still be listed. */
  readonly removalMarginMs: number
  /** Until a master that has become well is listed. */
  readonly listedMs: number
  /** How long Endpoints and EndpointSlice may differ. */
  readonly agreementMs: number
  /** After the last fault, from the API server's own first successful write, until everything is right. */
  readonly recoveryMs: number
  /** What one master may write in ten seconds. */
  readonly writesPerTenSeconds: number
}

/** Times of what masters do under faults of their own servers, in milliseconds. */
export const faultTimes = {
  /** A failure of a server that is shorter may not be noticed: a probe that hangs takes 3 s, and may be answered well in the end. */
  noticedMs: 3_500,
  /** What it asked may hang for so long after a fault of its requests is over, or a lost event be missed. */
  requestMs: 10_000,
} as const

export const defaultBounds: Bounds = {
  removalMarginMs: 2_000,
  listedMs: 6_000,
  agreementMs: 2_000,
  recoveryMs: 20_000,
  writesPerTenSeconds: 40,
}
