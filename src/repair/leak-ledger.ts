import { Bitmap } from '../net/bitmap.ts'

/** Freed in the third full pass that sees it, as upstream does (`numRepairsBeforeLeakCleanup`). */
const passesBeforeFreed = 3
/**
 * And not before this time. kube-apiserver takes a number before it stores the Service, and gives up a request after 60 s: what has been
 * taken without a break for longer, and is in no Service, is in no request either.
 */
const leakMs = 120_000

/** Numbers that are taken though no Service holds them, and were first seen so in the same full pass. */
export interface LeakCohort {
  readonly numbers: Bitmap
  /** Since when they are known to have been taken without a break, on the monotonic clock. */
  readonly sinceMs: number
  /** How many full passes have seen them. */
  readonly passes: number
}

/**
 * The leaks of one range that are not ripe yet, and those that are.
 *
 * It holds only as far as sight was continuous. Whoever keeps it calls {@link stillTaken} with each state of the range in turn, so that a number
 * that was given back and taken anew begins anew, and drops all of it where states may have been missed.
 */
export type LeakLedger = readonly LeakCohort[]

export const noLeaks: LeakLedger = []

/** Only what is in a state of the range goes on. */
export function stillTaken(ledger: LeakLedger, taken: Bitmap): LeakLedger {
  return withNumbers(ledger, (numbers) => numbers.and(taken))
}

/** A full pass has seen these numbers taken and held by no Service: those that are known have been seen once more, and nothing else goes on. */
export function seenByPass(ledger: LeakLedger, unheld: Bitmap, nowMs: number): LeakLedger {
  if (unheld.count === 0) return noLeaks
  const known = withNumbers(ledger, (numbers) => numbers.and(unheld)).map((cohort) => ({
    ...cohort,
    passes: cohort.passes + 1,
  }))
  const fresh = known.reduce((rest, { numbers }) => rest.minus(numbers), unheld)
  const unripe = known.filter((cohort) => !isRipe(cohort, nowMs))
  const ripe = ripeLeaks(known, unheld.size, nowMs)
  return [
    // As one, or there would be more with each pass where nobody may free them.
    ...(ripe.count === 0 ? [] : [{ numbers: ripe, sinceMs: nowMs - leakMs, passes: passesBeforeFreed }]),
    ...unripe,
    ...(fresh.count === 0 ? [] : [{ numbers: fresh, sinceMs: nowMs, passes: 1 }]),
  ]
}

/** What may be freed now. */
export function ripeLeaks(ledger: LeakLedger, size: number, nowMs: number): Bitmap {
  return ledger
    .filter((cohort) => isRipe(cohort, nowMs))
    .reduce((all, { numbers }) => all.or(numbers), new Bitmap(size))
}

function isRipe({ passes, sinceMs }: LeakCohort, nowMs: number): boolean {
  return passes >= passesBeforeFreed && nowMs - sinceMs >= leakMs
}

function withNumbers(ledger: LeakLedger, change: (numbers: Bitmap) => Bitmap): LeakLedger {
  return ledger
    .map((cohort) => ({ ...cohort, numbers: change(cohort.numbers) }))
    .filter(({ numbers }) => numbers.count > 0)
}
