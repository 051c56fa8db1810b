/** How often things happened, in equal parts of the time from 0. */
export interface Bins<Kind extends string = string> {
  readonly widthMs: number
  /** Of each part of the time, how often each kind happened. */
  readonly counts: readonly Readonly<Record<Kind, number>>[]
}

const widths = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000]
const MOST_BINS = 120

/** Parts as short as leaves them to be told apart; none is longer than what `untilMs` needs. */
export function binWidth(untilMs: number): number {
  const fits = (widthMs: number): boolean => untilMs / widthMs <= MOST_BINS
  return widths.find(fits) ?? Math.ceil(untilMs / MOST_BINS / 60_000) * 60_000
}

/** What happened before time 0 is not counted; what happened later than `untilMs` counts as of the end. */
export function binned<Kind extends string>(
  kinds: readonly Kind[],
  happenings: readonly { readonly atMs: number; readonly kind: Kind; readonly times?: number }[],
  untilMs: number,
): Bins<Kind> {
  const widthMs = binWidth(untilMs)
  const length = Math.max(1, Math.ceil(untilMs / widthMs))
  const nothing = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<Kind, number>
  const counts = Array.from({ length }, () => ({ ...nothing }))
  for (const { atMs, kind, times = 1 } of happenings) {
    const bin = counts[Math.min(Math.floor(atMs / widthMs), length - 1)]
    if (bin !== undefined) bin[kind] += times
  }
  return { widthMs, counts }
}

/** The most of all kinds together in one part, a second. */
export function mostPerSecond({ widthMs, counts }: Bins): number {
  return (Math.max(0, ...counts.map(total)) / widthMs) * 1000
}

export function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, one) => sum + one, 0)
}
