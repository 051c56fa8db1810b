import { at, invariants, isWrite, type Moment, type ObservedRequest, type Successor } from './invariants.ts'
import type { Listing } from './listing.ts'
import { MemberHistory } from './member-history.ts'
import type { MemberState } from './member-state.ts'

/** How a fleet fares at one moment. */
export interface FleetTruth {
  /** True time, from any origin. */
  readonly nowMs: number
  /** Everybody who may be listed, the dead included. The same objects each time. */
  readonly members: readonly MemberState[]
  /** Nobody's lease can end, because what they are stored in does not run, or nobody reaches it. */
  readonly leasesStandStill: boolean
}

/** What was observed since the last look, in its order. */
export interface FleetNews {
  readonly listings: readonly Listing[]
  /** Empty where they are not seen. */
  readonly requests: readonly ObservedRequest[]
}

/** Something that must not happen, and did. */
export interface Violation {
  readonly atMs: number
  /** The invariant's sentence. */
  readonly invariant: string
  /** Where and of whom. */
  readonly detail: string
}

/** More are not kept: the first ones explain the rest. */
const MAX_VIOLATIONS = 10

/**
 * Looks whether what must hold of a fleet does. {@link note} takes in what is true before and after each change; {@link check} judges.
 * Pure: has no clock and asks nobody.
 */
export class FleetJudge {
  /** The first of them. */
  readonly violations: Violation[] = []
  readonly #histories = new Map<MemberState, MemberHistory>()
  readonly #undamaged: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #latest: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #since = { endpoints: new Map<string, number>(), slice: new Map<string, number>() }
  readonly #writes: { readonly atMs: number; readonly by: string }[] = []
  readonly #failed = new Set<unknown>()
  #lastWriteBesideLeases: ObservedRequest | undefined
  #damagedAtMs = 0
  #leasesSinceMs = 0
  #full: { readonly sinceMs: number; readonly lives: number } | undefined
  #wasDoubting = false

  /** Takes in how the fleet fares from now on. */
  note({ nowMs, members, leasesStandStill }: FleetTruth): void {
    if (leasesStandStill) this.#leasesSinceMs = nowMs
    const doubting = this.#doubting(nowMs, members)
    const forget = this.#wasDoubting && !doubting
    this.#wasDoubting = doubting
    for (const member of members) {
      const history = this.#histories.get(member) ?? new MemberHistory(member)
      this.#histories.set(member, history)
      history.note(nowMs, leasesStandStill || doubting)
      if (forget) history.forgetOutage()
    }
  }

  /** Judges what was observed since the last call, and how things are now. */
  check({ nowMs }: FleetTruth, { listings, requests }: FleetNews): void {
    const moment: Moment = {
      nowMs,
      histories: [...this.#histories.values()],
      listings: listings.map((listing) => this.#succeed(listing)),
      requests,
      writes: this.#countWrites(nowMs, requests),
      listed: this.#latest.slice?.addresses ?? [],
      damagedAtMs: this.#damagedAtMs,
      leasesSinceMs: this.#leasesSinceMs,
    }
    for (const [sentence, broken] of Object.entries(invariants)) {
      for (const where of broken(moment)) this.#violated(nowMs, sentence, where)
    }
    for (const { name, failure } of [...this.#histories.keys()]) {
      if (failure === undefined || this.#failed.has(failure)) continue
      this.#failed.add(failure)
      // A start that etcd refuses for a minute is given up.
      if (/still refused after .*database space exceeded/.test(`${failure}`)) continue
      this.#violated(nowMs, 'no member fails', `${name}: ${failure}`)
    }
  }

  /** At the end: exactly `members` are listed, in both objects; for `quietMs` nobody has written but to leases. */
  checkEnd({ nowMs, members }: Pick<FleetTruth, 'nowMs' | 'members'>, quietMs: number): void {
    const all = [...new Set(members.map(({ address }) => address))].sort()
    for (const object of ['endpoints', 'slice'] as const) {
      const listed = this.#latest[object]?.addresses
      if (JSON.stringify(listed) === JSON.stringify(all)) continue
      this.#violated(
        nowMs,
        'after the last fault everybody who lives is listed, and nobody else',
        `${object}: ${listed}`,
      )
    }
    const late = this.#lastWriteBesideLeases
    if (late !== undefined && late.atMs > nowMs - quietMs) {
      const { by, atMs, request } = late
      this.#violated(
        nowMs,
        'when all is right nothing is written',
        `${by}: ${request.method} ${request.path} at ${at(atMs)}`,
      )
    }
  }

  /**
   * Whether our masters keep those whose leases have ended, because etcd takes no writes. One that has started since, or slept, knows
   * nothing to keep; in a list that somebody spoils nobody has a place to be kept.
   */
  #doubting(nowMs: number, members: readonly MemberState[]): boolean {
    const full = members.some(({ storeFull }) => storeFull)
    if (!full || members.some(({ kind }) => kind === 'kube-apiserver')) {
      this.#full = undefined
      return false
    }
    const lives = members.reduce((sum, member) => sum + member.lifeCount, 0)
    this.#full ??= { sinceMs: nowMs, lives }
    const slept = members.some(({ frozen }) => frozen)
    const spoiled = this.#damagedAtMs >= this.#full.sinceMs && this.#damagedAtMs > 0
    return this.#full.lives === lives && !slept && !spoiled
  }

  #countWrites(nowMs: number, requests: readonly ObservedRequest[]): ReadonlyMap<string, number> {
    const writes = requests.filter(isWrite)
    this.#lastWriteBesideLeases =
      writes.findLast(({ request }) => !request.path.includes('/leases')) ?? this.#lastWriteBesideLeases
    this.#writes.push(...writes)
    while ((this.#writes[0]?.atMs ?? Number.POSITIVE_INFINITY) < nowMs - 10_000) this.#writes.shift()
    const counts = new Map<string, number>()
    for (const { by } of this.#writes) counts.set(by, (counts.get(by) ?? 0) + 1)
    return counts
  }

  #succeed(listing: Listing): Successor {
    const { object, addresses = [], atMs, byDamage } = listing
    const before = this.#undamaged[object]
    const since = new Map(this.#since[object])
    this.#latest[object] = listing
    if (byDamage) this.#damagedAtMs = atMs
    else {
      this.#undamaged[object] = listing
      this.#since[object] = new Map(addresses.map((address) => [address, since.get(address) ?? atMs]))
    }
    return { listing, before, since }
  }

  #violated(atMs: number, invariant: string, detail: string): void {
    if (this.violations.length < MAX_VIOLATIONS) this.violations.push({ atMs, invariant, detail })
  }
}
