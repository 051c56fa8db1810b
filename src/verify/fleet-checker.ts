import { SYSTEM_NAMESPACES } from '../namespaces/controller.ts'
import { deadWithoutJudge } from './dead-listed.ts'
import { type InvariantName, invariantNames, invariants } from './invariants.ts'
import { MemberHistory } from './member-history.ts'
import type { MemberState } from './member-state.ts'
import type { Moment, Successor } from './moment.ts'
import {
  type Bounds,
  defaultBounds,
  isWrite,
  type Listing,
  type ObservedObjects,
  type ObservedRequest,
} from './observation.ts'

export interface FleetTruth {
  /** The true time, in milliseconds from any origin. */
  readonly nowMs: number
  /** All masters, dead ones included. Each call must pass the same object for a master. */
  readonly members: readonly MemberState[]
  /** Whether no lease can expire at present, because the lease store is down, or no master reaches it. */
  readonly leasesCannotExpire: boolean
}

/** The observations since the last call of `check` or `learn`, in the order of time. */
export interface FleetObservations {
  readonly listings: readonly Listing[]
  /** Empty if requests are not observed. */
  readonly requests: readonly ObservedRequest[]
  /** The Service and the namespaces, at each change; left out if they are not observed. */
  readonly objects?: readonly ObservedObjects[]
}

export interface Violation {
  readonly atMs: number
  /** The name of the invariant, such as `never-empty`. Its sentence is in {@link invariants}. */
  readonly invariant: string
  readonly detail: string
}

/** The most violations that are recorded. Later ones are dropped, because the first ones explain the rest. */
const MAX_VIOLATIONS = 50
const WRITES_WITHIN_MS = 10_000

/**
 * Checks the invariants of a fleet. Call {@link note} before and after each change, and {@link check} at any moment. A
 * breach that continues is one violation. Pure: has no clock and no I/O.
 */
export class FleetChecker {
  readonly violations: Violation[] = []
  readonly #bounds: Bounds
  readonly #present = new Map<MemberState, MemberHistory>()
  /** The histories of present members, and of addresses that members had before. */
  #histories: readonly MemberHistory[] = []
  readonly #undamaged: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #latest: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #damaged: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #since = { endpoints: new Map<string, number>(), slice: new Map<string, number>() }
  readonly #writes: ObservedRequest[] = []
  readonly #writeCounts = new Map<string, number>()
  readonly #broken = new Map<InvariantName, ReadonlySet<string>>()
  #objects: ObservedObjects | undefined
  #missing: Moment['missing'] = { namespaces: [], sinceMs: 0 }
  #differSinceMs: number | undefined
  #damagedAtMs = 0
  #objectsDamagedAtMs = Number.NEGATIVE_INFINITY
  #leasesSinceMs = 0
  #unrenewed: Moment['unrenewed'] = { sinceMs: Number.NEGATIVE_INFINITY, untilMs: Number.NEGATIVE_INFINITY }
  #somebodyRenews = true
  #changedAtMs = 0
  #isChecking = false
  #full: { readonly sinceMs: number; readonly lives: number; readonly allKnow: boolean } | undefined
  #wasExpirySuspected = false

  constructor({ bounds = defaultBounds }: { readonly bounds?: Bounds } = {}) {
    this.#bounds = bounds
  }

  /** Records the state that the fleet has from now on. */
  note({ nowMs, members, leasesCannotExpire }: FleetTruth): void {
    if (leasesCannotExpire) this.#leasesSinceMs = nowMs
    const somebodyRenewed = this.#somebodyRenews
    this.#somebodyRenews = !leasesCannotExpire && members.some(({ renewing }) => renewing)
    if (!this.#somebodyRenews) {
      this.#unrenewed = { sinceMs: somebodyRenewed ? nowMs : this.#unrenewed.sinceMs, untilMs: nowMs }
    }
    const expirySuspected = this.#isExpirySuspected(nowMs, members)
    const forget = this.#wasExpirySuspected && !expirySuspected
    this.#wasExpirySuspected = expirySuspected
    for (const member of members) {
      if (this.#present.get(member)?.address !== member.address) this.#begin(member, nowMs)
    }
    for (const history of this.#histories) {
      history.note(nowMs, leasesCannotExpire || expirySuspected)
      // If only some masters know which addresses to retain, a retained address may be added and removed again.
      if (forget || this.#full?.allKnow === false) history.forgetOutage()
      this.#changedAtMs = Math.max(this.#changedAtMs, history.changedAtMs)
    }
  }

  /** Records observations without checking them, while the fleet starts. */
  learn({ nowMs }: FleetTruth, observations: FleetObservations): void {
    this.#momentOf(nowMs, observations)
  }

  check({ nowMs }: FleetTruth, observations: FleetObservations): void {
    // At the first check, a master may not yet have reacted to the writes of masters that started after it.
    if (!this.#isChecking) this.#changedAtMs = nowMs
    this.#isChecking = true
    const moment = this.#momentOf(nowMs, observations)
    for (const name of invariantNames) this.#checkInvariant(name, moment)
  }

  /** The dead addresses that are listed now, and cannot be judged: see {@link deadWithoutJudge}. */
  unjudged({ nowMs }: Pick<FleetTruth, 'nowMs'>): readonly string[] {
    const wasFound = this.violations.some(
      ({ invariant }) => invariant === ('dead-master-removed' satisfies InvariantName),
    )
    return wasFound ? [] : deadWithoutJudge(this.#momentOf(nowMs, { listings: [], requests: [] }))
  }

  #momentOf(nowMs: number, { listings, requests, objects = [] }: FleetObservations): Moment {
    const successors = listings.map((listing) => this.#succeed(listing))
    const found = objects.map((one) => this.#find(one))
    return {
      nowMs,
      bounds: this.#bounds,
      histories: this.#histories,
      listings: successors,
      requests,
      writes: this.#countWrites(nowMs, requests),
      objects: found,
      latest: this.#latest,
      listedSinceMs: this.#since.slice,
      differSinceMs: this.#differSinceMs,
      missing: this.#missing,
      damaged: this.#damaged,
      damagedAtMs: this.#damagedAtMs,
      objectsDamagedAtMs: this.#objectsDamagedAtMs,
      leasesSinceMs: this.#leasesSinceMs,
      unrenewed: this.#unrenewed,
      changedAtMs: Math.max(this.#changedAtMs, this.#damagedAtMs),
    }
  }

  #checkInvariant(name: InvariantName, moment: Moment): void {
    const breaches = invariants[name].broken(moment)
    const before = this.#broken.get(name)
    if (breaches.length === 0 && before === undefined) return
    this.#broken.set(name, new Set(breaches.map(({ of }) => of)))
    for (const { of, detail } of breaches) {
      if (before?.has(of) === true || this.violations.length >= MAX_VIOLATIONS) continue
      this.violations.push({ atMs: moment.nowMs, invariant: name, detail })
    }
  }

  #begin(member: MemberState, nowMs: number): void {
    this.#present.get(member)?.close(nowMs)
    const history = new MemberHistory(member, nowMs, this.#bounds)
    this.#present.set(member, history)
    this.#histories = [...this.#histories, history]
    this.#changedAtMs = nowMs
  }

  /**
   * Whether masters retain addresses with a suspected expiry, because etcd is full. False if a master is frozen, was
   * cut off when etcd became full, or has started since: such a master does not know which addresses to retain. Also
   * false if an object was damaged since, and in a fleet with a kube-apiserver.
   */
  #isExpirySuspected(nowMs: number, members: readonly MemberState[]): boolean {
    const full = members.some(({ storeFull }) => storeFull)
    if (!full || members.some(({ kind }) => kind === 'kube-apiserver')) {
      this.#full = undefined
      return false
    }
    const lives = members.reduce((sum, member) => sum + member.lifeCount, 0)
    const allKnow = this.#histories.every(({ state }) => !state.running || state.connected)
    this.#full ??= { sinceMs: nowMs, lives, allKnow }
    const slept = members.some(({ frozen }) => frozen)
    const damaged = this.#damagedAtMs >= this.#full.sinceMs && this.#damagedAtMs > 0
    return this.#full.lives === lives && this.#full.allKnow && !slept && !damaged
  }

  #countWrites(nowMs: number, requests: readonly ObservedRequest[]): ReadonlyMap<string, number> {
    const counts = this.#writeCounts
    for (const request of requests) {
      if (!isWrite(request)) continue
      this.#writes.push(request)
      counts.set(request.by, (counts.get(request.by) ?? 0) + 1)
    }
    while ((this.#writes[0]?.atMs ?? Number.POSITIVE_INFINITY) < nowMs - WRITES_WITHIN_MS) {
      const { by } = this.#writes.shift() as ObservedRequest
      counts.set(by, (counts.get(by) ?? 0) - 1)
    }
    return counts
  }

  #succeed(listing: Listing): Successor {
    const { object, addresses = [], atMs, byDamage } = listing
    const before = this.#undamaged[object]
    const since = this.#since[object]
    this.#latest[object] = listing
    if (byDamage) {
      this.#damagedAtMs = atMs
      this.#damaged[object] = listing
    } else {
      this.#undamaged[object] = listing
      this.#since[object] = new Map(addresses.map((address) => [address, since.get(address) ?? atMs]))
    }
    const { endpoints, slice } = this.#latest
    const differ = `${endpoints?.addresses ?? []}` !== `${slice?.addresses ?? []}`
    this.#differSinceMs = differ ? (this.#differSinceMs ?? atMs) : undefined
    return { listing, before, since }
  }

  #find(found: ObservedObjects): Moment['objects'][number] {
    const before = this.#objects
    this.#objects = found
    if (found.byDamage) {
      this.#damagedAtMs = found.atMs
      this.#objectsDamagedAtMs = found.atMs
    }
    const namespaces = SYSTEM_NAMESPACES.filter((name) => !found.namespaces.includes(name)).sort()
    const sinceMs = this.#missing.namespaces.length === 0 ? found.atMs : this.#missing.sinceMs
    this.#missing = { namespaces, sinceMs }
    return { found, before }
  }
}
