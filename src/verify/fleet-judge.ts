import { type Bounds, defaultBounds } from './bounds.ts'
import { type InvariantName, invariantNames, invariants } from './invariants.ts'
import type { Listing } from './listing.ts'
import { MemberHistory } from './member-history.ts'
import type { MemberState } from './member-state.ts'
import type { Moment, Successor } from './moment.ts'
import { systemNamespaces } from './objects.ts'
import { isWrite, type ObservedObjects, type ObservedRequest } from './observation.ts'

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
  /** What is beside the lists, at each change; left out where it is not seen. */
  readonly objects?: readonly ObservedObjects[]
}

/** Something that must not happen, and did. */
export interface Violation {
  readonly atMs: number
  /** The invariant's name: its sentence is in `invariants`. */
  readonly invariant: string
  /** Where and of whom. */
  readonly detail: string
}

/** More are not kept: the first ones explain the rest. */
const MAX_VIOLATIONS = 50
const WRITES_WITHIN_MS = 10_000

/**
 * Looks whether what must hold of a fleet does. {@link note} takes in what is true before and after each change; {@link check} judges, at
 * any moment. What goes on is one violation, until it has ended. Pure: has no clock and asks nobody.
 */
export class FleetJudge {
  /** The first of them. */
  readonly violations: Violation[] = []
  readonly #bounds: Bounds
  readonly #present = new Map<MemberState, MemberHistory>()
  /** Of present members, and of addresses that members had before. */
  #histories: readonly MemberHistory[] = []
  readonly #undamaged: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #latest: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #spoiled: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
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
  #judges = false
  #full: { readonly sinceMs: number; readonly lives: number; readonly allKnow: boolean } | undefined
  #wasDoubting = false

  constructor({ bounds = defaultBounds }: { readonly bounds?: Bounds } = {}) {
    this.#bounds = bounds
  }

  /** Takes in how the fleet fares from now on. */
  note({ nowMs, members, leasesStandStill }: FleetTruth): void {
    if (leasesStandStill) this.#leasesSinceMs = nowMs
    const somebodyRenewed = this.#somebodyRenews
    this.#somebodyRenews = !leasesStandStill && members.some(({ renewing }) => renewing)
    if (!this.#somebodyRenews) {
      this.#unrenewed = { sinceMs: somebodyRenewed ? nowMs : this.#unrenewed.sinceMs, untilMs: nowMs }
    }
    const doubting = this.#doubting(nowMs, members)
    const forget = this.#wasDoubting && !doubting
    this.#wasDoubting = doubting
    for (const member of members) {
      if (this.#present.get(member)?.address !== member.address) this.#begin(member, nowMs)
    }
    for (const history of this.#histories) {
      history.note(nowMs, leasesStandStill || doubting)
      // Where only some know whom to keep, whoever is kept may go and come.
      if (forget || this.#full?.allKnow === false) history.forgetOutage()
      this.#changedAtMs = Math.max(this.#changedAtMs, history.changedAtMs)
    }
  }

  /** Takes in what was observed since the last call while the fleet comes up, which nobody judges. */
  learn({ nowMs }: FleetTruth, news: FleetNews): void {
    this.#momentOf(nowMs, news)
  }

  /** Judges what was observed since the last call, and how things are now. */
  check({ nowMs }: FleetTruth, news: FleetNews): void {
    // Whoever came up before the others may still be about to write what they have written.
    if (!this.#judges) this.#changedAtMs = nowMs
    this.#judges = true
    const moment = this.#momentOf(nowMs, news)
    for (const name of invariantNames) this.#judge(name, moment)
  }

  #momentOf(nowMs: number, { listings, requests, objects = [] }: FleetNews): Moment {
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
      spoiled: this.#spoiled,
      damagedAtMs: this.#damagedAtMs,
      objectsDamagedAtMs: this.#objectsDamagedAtMs,
      leasesSinceMs: this.#leasesSinceMs,
      unrenewed: this.#unrenewed,
      changedAtMs: Math.max(this.#changedAtMs, this.#damagedAtMs),
    }
  }

  #judge(name: InvariantName, moment: Moment): void {
    const breaches = invariants[name].broken(moment)
    const before = this.#broken.get(name)
    if (breaches.length === 0) {
      if (before !== undefined) this.#broken.delete(name)
      return
    }
    this.#broken.set(name, new Set(breaches.map((breach) => breach.of)))
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
   * Whether our masters keep those whose leases have ended, because etcd takes no writes. One that has started since, slept, or was
   * cut off when that began, knows nothing to keep; in a list that somebody spoils nobody has a place to be kept.
   */
  #doubting(nowMs: number, members: readonly MemberState[]): boolean {
    const full = members.some(({ storeFull }) => storeFull)
    if (!full || members.some(({ kind }) => kind === 'kube-apiserver')) {
      this.#full = undefined
      return false
    }
    const lives = members.reduce((sum, member) => sum + member.lifeCount, 0)
    const allKnow = this.#histories.every(({ state }) => !state.running || state.connected)
    this.#full ??= { sinceMs: nowMs, lives, allKnow }
    const slept = members.some(({ frozen }) => frozen)
    const spoiled = this.#damagedAtMs >= this.#full.sinceMs && this.#damagedAtMs > 0
    return this.#full.lives === lives && this.#full.allKnow && !slept && !spoiled
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
      this.#spoiled[object] = listing
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
    const namespaces = systemNamespaces.filter((name) => !found.namespaces.includes(name))
    const sinceMs = this.#missing.namespaces.length === 0 ? found.atMs : this.#missing.sinceMs
    this.#missing = { namespaces, sinceMs }
    return { found, before }
  }
}
