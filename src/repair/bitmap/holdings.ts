import type { Service } from '../../kube/resources.ts'
import type { Change } from '../../kube/store.ts'
import { Bitmap } from '../../net/bitmap.ts'
import type { Steps } from '../../runtime/steps.ts'
import type { Finding } from '../reporter.ts'
import { oldestFirst } from '../service-claims.ts'
import type { RangeClaims } from './claims.ts'

/** The numbers that Services hold, updated with each change, so that a check need not visit all Services. */
export class RangeHoldings {
  readonly #claims: RangeClaims
  readonly #held: readonly Bitmap[]
  /**
   * By number: how many holders it has beside the first. A number with one holder has no entry, because a counter for
   * each number of a /12 would take 4 MiB.
   */
  readonly #surplus: readonly Map<number, number>[]

  constructor(claims: RangeClaims) {
    this.#claims = claims
    this.#held = claims.ranges.map(({ size }) => new Bitmap(size))
    this.#surplus = claims.ranges.map(() => new Map())
  }

  /** The held numbers of a range. {@link apply} modifies the returned bitmap, so do not store it. */
  held(range: number): Bitmap {
    return this.#held[range] as Bitmap
  }

  /** Counts these Services. Call {@link apply} with later changes only after the count has ended. */
  *count(services: Iterable<Service>): Steps<void> {
    for (const service of services) {
      this.#claims.visit(service, this.#add)
      yield
    }
  }

  /** Call this with every change of a Service, in order. */
  apply(change: Change<Service>): void {
    if (change.type !== 'deleted') this.#claims.visit(change.object, this.#add)
    if (change.type !== 'added') this.#claims.visit(change.old, this.#remove)
  }

  readonly #add = (range: number, offset: number): void => {
    if (this.held(range).add(offset)) return
    const surplus = this.#surplus[range] as Map<number, number>
    surplus.set(offset, (surplus.get(offset) ?? 0) + 1)
  }

  readonly #remove = (range: number, offset: number): void => {
    const surplus = this.#surplus[range] as Map<number, number>
    const count = surplus.get(offset)
    if (count === undefined) this.held(range).delete(offset)
    else if (count === 1) surplus.delete(offset)
    else surplus.set(offset, count - 1)
  }
}

/** What {@link surveyServices} returns. `held` and `contested` are indexed by range. */
interface RangeSurvey {
  readonly held: readonly Bitmap[]
  /** The numbers that are held more than once. */
  readonly contested: readonly Bitmap[]
  /** A finding for each ClusterIP or NodePort that is malformed or in none of the ranges. */
  readonly faults: readonly Finding[]
}

/** Surveys the holdings of these Services, one Service in each step. Pure. */
export function* surveyServices(services: Iterable<Service>, claims: RangeClaims): Steps<RangeSurvey> {
  const held = claims.ranges.map(({ size }) => new Bitmap(size))
  const contested = claims.ranges.map(({ size }) => new Bitmap(size))
  const faults: Finding[] = []
  const hold = (range: number, offset: number): void => {
    if (held[range]?.add(offset) === false) contested[range]?.add(offset)
  }
  const fault = (finding: Finding): void => {
    faults.push(finding)
  }
  for (const service of services) {
    claims.visit(service, hold, fault)
    yield
  }
  return { held, contested, faults }
}

/**
 * The holders of each `wanted` number that is held, {@link oldestFirst}, by number. `wanted` and the result are indexed
 * by range. A Service that holds a number twice occurs twice.
 */
export function* claimantsOf(
  services: Iterable<Service>,
  claims: RangeClaims,
  wanted: readonly (Bitmap | undefined)[],
): Steps<readonly ReadonlyMap<number, readonly Service[]>[]> {
  const found = wanted.map(() => new Map<number, Service[]>())
  if (wanted.every((numbers) => numbers === undefined || numbers.count === 0)) return found
  for (const service of services) {
    claims.visit(service, (range, offset) => {
      if (wanted[range]?.has(offset) !== true) return
      const known = found[range]?.get(offset)
      if (known === undefined) found[range]?.set(offset, [service])
      else known.push(service)
    })
    yield
  }
  for (const claimants of found) for (const several of claimants.values()) several.sort(oldestFirst)
  return found
}
