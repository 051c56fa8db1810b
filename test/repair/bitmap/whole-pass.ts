import type { Service } from '../../../src/kube/resources.ts'
import type { Bitmap } from '../../../src/net/bitmap.ts'
import type { RangeClaims } from '../../../src/repair/bitmap/claims.ts'
import { surveyServices } from '../../../src/repair/bitmap/holdings.ts'
import {
  type LeakLedger,
  noLeaks,
  passFindings,
  planRange,
  type RangePlan,
  type RangeReading,
} from '../../../src/repair/bitmap/plan.ts'
import type { Finding } from '../../../src/repair/reporter.ts'
import { atOnce } from '../../../src/runtime/steps.ts'

/** A full pass over all ranges at one moment. A repair plans one range after another. */
export function wholePass(input: {
  readonly claims: RangeClaims
  readonly services: readonly Service[]
  readonly readings: readonly RangeReading[]
  readonly ledgers: readonly LeakLedger[]
  readonly nowMs: number
}): { readonly ranges: readonly RangePlan[]; readonly findings: readonly Finding[] } {
  const { claims, services, readings, ledgers, nowMs } = input
  const { held } = atOnce(surveyServices(services, claims))
  const ranges = readings.map((reading, range) =>
    planRange({ reading, held: held[range] as Bitmap, ledger: ledgers[range] ?? noLeaks, nowMs }),
  )
  return { ranges, findings: atOnce(passFindings(services, claims)) }
}
