import type { Service } from '../../kube/resources.ts'
import { Bitmap } from '../../net/bitmap.ts'
import type { Steps } from '../../runtime/steps.ts'
import type { StoredRange } from '../registries/range-registry.ts'
import { aboutRanges, type Finding } from '../reporter.ts'
import type { BitmapRange, RangeClaims } from './claims.ts'
import { claimantsOf, surveyServices } from './holdings.ts'

export type RangeReading =
  | { readonly type: 'withheld'; readonly reason: 'mismatch' | 'unreadable'; readonly finding: Finding }
  | {
      readonly type: 'taken'
      /**
       * `unnamed`: stored with an empty text as its range; upstream reads that as not yet initialized. `adopted`:
       * stored for another range; `set` has the items that both ranges contain. Every origin but `same-range` requires
       * a write, even if nothing is missing.
       */
      readonly origin: 'same-range' | 'absent' | 'unnamed' | 'adopted'
      /** The allocated numbers, as numbers of the managed range. */
      readonly set: Bitmap
    }

/**
 * Interprets the stored state of a range. `where` names its place in messages. `adopt`: whether to read the bitmap of
 * another range as `adopted`; without it, such a bitmap is withheld.
 */
export function readRange(
  range: BitmapRange,
  stored: StoredRange,
  { claims, where, adopt }: { readonly claims: RangeClaims; readonly where: string; readonly adopt: boolean },
): RangeReading {
  switch (stored.type) {
    case 'absent':
      return { type: 'taken', origin: 'absent', set: new Bitmap(range.size) }
    case 'unreadable':
      return unreadableRange(range, where, stored.reason)
    case 'range':
      break
  }
  const { range: text, data } = stored
  const named = text === '' || text === range.text ? range : claims.parse(text)
  if (named === undefined)
    return unreadableRange(range, where, `has the range ${JSON.stringify(text)}, which is not valid`)
  const set = Bitmap.fromBytes(named.size, data)
  if (set === undefined) return unreadableRange(range, where, `has more bits than its range allows (${named.size})`)
  if (text === range.text) return { type: 'taken', origin: 'same-range', set }
  if (text === '') return { type: 'taken', origin: 'unnamed', set }
  if (adopt) return { type: 'taken', origin: 'adopted', set: carriedOver(set, named, range) }
  const note = `${where} has the range ${text}, not ${range.text}; it is not changed, because a server that uses it would reject every new Service; set ${range.flagFor(text)}, or restart with --adopt-range to rewrite it`
  return withheld('mismatch', { reason: 'ServiceRangeMismatch', note, item: text })
}

/** `reason` ends a sentence that begins with `where`. */
export function unreadableRange(
  range: BitmapRange,
  where: string,
  reason: string,
): RangeReading & { readonly type: 'withheld' } {
  const note = `${where} ${reason}; it is not changed`
  return withheld('unreadable', { reason: 'ServiceRangeUnreadable', note, item: range.name })
}

function withheld(
  reason: 'mismatch' | 'unreadable',
  finding: Pick<Finding, 'reason' | 'note' | 'item'>,
): RangeReading & { readonly type: 'withheld' } {
  return { type: 'withheld', reason, finding: { ...finding, type: 'unknown', regarding: aboutRanges } }
}

/**
 * Finds each item of `set` in the range `to`, where it may have another number. Drops items that `to` does not contain.
 */
function carriedOver(set: Bitmap, from: Pick<BitmapRange, 'textAt'>, to: BitmapRange): Bitmap {
  const carried = new Bitmap(to.size)
  for (const number of set) {
    const offset = to.offsetOf(from.textAt(number))
    if (offset !== undefined) carried.add(offset)
  }
  return carried
}

/** A leak is freed in the third full pass that sees it or later. Upstream: `numRepairsBeforeLeakCleanup`. */
const PASSES_BEFORE_FREED = 3
/** A leak must also have been allocated without a break for this long, in milliseconds. See `RangeWriter.free`. */
const LEAK_MS = 120_000

/** Numbers without a holder. Either the same full pass was the first to see all of them, or all are due to be freed. */
interface LeakCohort {
  readonly numbers: Bitmap
  /** Since when, at least, the numbers have been allocated without a break, on the monotonic clock. */
  readonly sinceMs: number
  readonly passes: number
}

/**
 * The leaks of one range, whether due to be freed or not. The owner calls {@link stillTaken} with each state of the
 * range in turn, so that a number that is released and allocated again counts as a new leak. The owner drops the ledger
 * when states may have been missed.
 */
export type LeakLedger = readonly LeakCohort[]

export const noLeaks: LeakLedger = []

/** Retains only the numbers that are allocated in `taken`, a later state of the range. */
export function stillTaken(ledger: LeakLedger, taken: Bitmap): LeakLedger {
  return withNumbers(ledger, (numbers) => numbers.and(taken))
}

/**
 * The ledger after a full pass that saw the numbers `unheld` without a holder. All other numbers are dropped. `nowMs`
 * is on the monotonic clock.
 */
export function seenByPass(ledger: LeakLedger, unheld: Bitmap, nowMs: number): LeakLedger {
  if (unheld.count === 0) return noLeaks
  const known = withNumbers(ledger, (numbers) => numbers.and(unheld)).map((cohort) => ({
    ...cohort,
    passes: cohort.passes + 1,
  }))
  const fresh = known.reduce((rest, { numbers }) => rest.minus(numbers), unheld)
  const tooYoung = known.filter((cohort) => !isDue(cohort, nowMs))
  const due = dueLeaks(known, unheld.size, nowMs)
  return [
    // All due numbers form one cohort: they need no history any more.
    ...(due.count === 0 ? [] : [{ numbers: due, sinceMs: nowMs - LEAK_MS, passes: PASSES_BEFORE_FREED }]),
    ...tooYoung,
    ...(fresh.count === 0 ? [] : [{ numbers: fresh, sinceMs: nowMs, passes: 1 }]),
  ]
}

export function dueLeaks(ledger: LeakLedger, size: number, nowMs: number): Bitmap {
  return ledger.filter((cohort) => isDue(cohort, nowMs)).reduce((all, { numbers }) => all.or(numbers), new Bitmap(size))
}

function isDue({ passes, sinceMs }: LeakCohort, nowMs: number): boolean {
  return passes >= PASSES_BEFORE_FREED && nowMs - sinceMs >= LEAK_MS
}

/** The cohorts with changed numbers, without those that have none left. */
export function withNumbers<Cohort extends { readonly numbers: Bitmap }>(
  cohorts: readonly Cohort[],
  change: (numbers: Bitmap) => Bitmap,
): readonly Cohort[] {
  return cohorts
    .map((cohort) => ({ ...cohort, numbers: change(cohort.numbers) }))
    .filter(({ numbers }) => numbers.count > 0)
}

export type RangePlan =
  /** No state of the range was received, or the range is withheld. */
  | { readonly type: 'none'; readonly ledger: LeakLedger }
  | {
      readonly type: 'range'
      /** The desired state: all held numbers, and the allocated numbers that are not due to be freed. */
      readonly taken: Bitmap
      readonly missing: Bitmap
      readonly leaked: Bitmap
      readonly changed: boolean
      /** Includes the due leaks: a later pass tries again to free those that a write does not clear. */
      readonly ledger: LeakLedger
    }

interface RangeObservation {
  /** The last received state of the range; undefined if none was received, as without a registry. */
  readonly reading: RangeReading | undefined
  readonly held: Bitmap
  readonly ledger: LeakLedger
  /** On the monotonic clock. */
  readonly nowMs: number
}

/** Plans a full pass over one range. Never frees a held number. Pure and idempotent. */
export function planRange({ reading, held, ledger, nowMs }: RangeObservation): RangePlan {
  if (reading?.type !== 'taken') return { type: 'none', ledger: noLeaks }
  const { set, origin } = reading
  const missing = held.minus(set)
  // The ledger is about a bitmap of this range only.
  const seen = seenByPass(origin === 'same-range' ? ledger : noLeaks, set.minus(held), nowMs)
  const leaked = dueLeaks(seen, set.size, nowMs)
  return {
    type: 'range',
    taken: set.or(missing).minus(leaked),
    missing,
    leaked,
    changed: origin !== 'same-range' || missing.count > 0 || leaked.count > 0,
    ledger: seen,
  }
}

/**
 * The findings of a full pass about the Services of all ranges, except those that a write can correct. Pure. Upstream:
 * `doRunOnce` in repair.go, which also reports what it repairs.
 */
export function* passFindings(services: Iterable<Service>, claims: RangeClaims): Steps<readonly Finding[]> {
  const { contested, faults } = yield* surveyServices(services, claims)
  const claimants = yield* claimantsOf(services, claims, contested)
  const duplicates = contested.flatMap((numbers, range) =>
    [...numbers].flatMap((offset) => {
      const [, ...others] = claimants[range]?.get(offset) ?? []
      return others.map((other) => claims.duplicate(other, range, offset))
    }),
  )
  return [...faults, ...duplicates]
}
