import type { Service } from '../kube/resources.ts'
import type { Bitmap } from '../net/bitmap.ts'
import type { Finding } from './finding.ts'
import { type LeakLedger, noLeaks, ripeLeaks, seenByPass } from './leak-ledger.ts'
import type { RangeClaims } from './range-claims.ts'
import type { RangeReading } from './range-reading.ts'
import { claimantsOf, surveyServices } from './range-survey.ts'

/** What becomes of one range. */
export type RangePlan =
  /** Nothing is stored, or it is left alone. */
  | { readonly type: 'none'; readonly ledger: LeakLedger }
  | {
      readonly type: 'range'
      /** What should be stored: all that is held, and what may yet be. */
      readonly taken: Bitmap
      /** Held, but not taken. */
      readonly missing: Bitmap
      /** Taken for long, but not held. */
      readonly leaked: Bitmap
      /** Whether anything must be written. */
      readonly changed: boolean
      /** The leaks as they stand after this pass, once what is planned was written. */
      readonly ledger: LeakLedger
    }

/** What the plan for one range rests on. */
export interface RangeState {
  /** Undefined for a range of which no bitmap is stored anywhere. */
  readonly reading: RangeReading | undefined
  /** What Services hold. */
  readonly held: Bitmap
  readonly ledger: LeakLedger
  /** On the monotonic clock. */
  readonly nowMs: number
}

/**
 * Plans what one more full pass does with a range: it must have what Services hold, and what has not yet been taken for so long that it must have
 * leaked. Pure; what it plans needs no further change. A number that is held is never planned to be freed.
 */
export function planRange({ reading, held, ledger, nowMs }: RangeState): RangePlan {
  if (reading?.type !== 'taken') return { type: 'none', ledger: noLeaks }
  const { set, origin } = reading
  const missing = held.minus(set)
  // What was not of this range until now was not watched.
  const seen = seenByPass(origin === 'kept' ? ledger : noLeaks, set.minus(held), nowMs)
  const leaked = ripeLeaks(seen, set.size, nowMs)
  return {
    type: 'range',
    taken: set.or(missing).minus(leaked),
    missing,
    leaked,
    changed: origin !== 'kept' || missing.count > 0 || leaked.count > 0,
    ledger: leaked.count === 0 ? seen : seen.filter(({ numbers }) => numbers.and(leaked).count === 0),
  }
}

/** What a full pass rests on; arrays are by range. */
export interface RangePassInput {
  readonly claims: RangeClaims
  readonly services: readonly Service[]
  readonly readings: readonly (RangeReading | undefined)[]
  readonly ledgers: readonly LeakLedger[]
  readonly nowMs: number
  /** Whether what is found will be repaired: notes say so. */
  readonly repairing: boolean
}

export interface RangePass {
  readonly ranges: readonly RangePlan[]
  /** All that is wrong. */
  readonly findings: readonly Finding[]
}

/** Plans a full pass over all ranges of a repair, and says all that is wrong. Pure. Upstream: `doRunOnce` in repair.go. */
export function planPass({ claims, services, readings, ledgers, nowMs, repairing }: RangePassInput): RangePass {
  const { held, contested, faults } = surveyServices(services, claims)
  const ranges = readings.map((reading, range) =>
    planRange({ reading, held: held[range] as Bitmap, ledger: ledgers[range] ?? noLeaks, nowMs }),
  )
  const wanted = ranges.map((plan, range) => {
    const several = contested[range] as Bitmap
    return plan.type === 'none' ? several : several.or(plan.missing)
  })
  const findings = [...faults]
  claimantsOf(services, claims, wanted).forEach((claimants, range) => {
    const plan = ranges[range] as RangePlan
    for (const offset of wanted[range] as Bitmap) {
      const [first, ...others] = claimants.get(offset) ?? []
      const missing = plan.type === 'range' && plan.missing.has(offset)
      if (missing && first !== undefined) findings.push(claims.notAllocated(first, range, offset, repairing))
      for (const other of others) findings.push(claims.duplicate(other, range, offset))
    }
    if (plan.type === 'range') {
      for (const offset of plan.leaked) findings.push(claims.leaked(range, offset, repairing))
    }
  })
  for (const reading of readings) if (reading?.type === 'withheld') findings.push(reading.finding)
  return { ranges, findings }
}
