import { type Member, membersOf, type World } from './composition.ts'
import type { Fleet } from './fleet.ts'
import { MemberHistory } from './history.ts'
import { at, invariants, isWrite, type Moment, type Successor } from './invariants.ts'
import type { Listing } from './listings.ts'

/** Looks every half second whether what must hold does. */
export class InvariantWatch {
  /** The first of them. */
  readonly violations: string[] = []
  readonly #world: World
  readonly #histories = new Map<Member, MemberHistory>()
  readonly #undamaged: Record<Listing['object'], Listing | undefined> = { endpoints: undefined, slice: undefined }
  readonly #since = { endpoints: new Map<string, number>(), slice: new Map<string, number>() }
  readonly #writes: { readonly atMs: number; readonly by: string }[] = []
  #seen = 0
  #asked = 0
  #leasesSinceMs = 0
  #full: { readonly sinceMs: number; readonly lives: number } | undefined
  #wasDoubting = false

  constructor(world: World) {
    this.#world = world
  }

  /** Lets a multiple of half a second pass. */
  async advance(ms: number): Promise<void> {
    const { fleet } = this.#world
    this.#note()
    for (let passedMs = 0; passedMs < ms; passedMs += 500) {
      await fleet.advance(500)
      this.#note()
      this.#check()
    }
  }

  /** Everybody who is alive is listed, in both objects, and the rest is not; for `quietMs` nobody has written but to leases. */
  expectAllListed(quietMs: number): void {
    const { fleet, retired } = this.#world
    const alive = membersOf(this.#world).filter((member) => !retired.has(member))
    const all = [...new Set(alive.map(({ address }) => address))].sort()
    for (const object of ['endpoints', 'slice'] as const) {
      const listed = fleet.listed(object)
      if (JSON.stringify(listed) !== JSON.stringify(all)) this.#violated(`at the end ${object} lists ${listed}`)
    }
    const late = fleet.requests.find(
      (request) =>
        isWrite(request) && request.atMs > fleet.time.nowMs - quietMs && !request.request.path.includes('/leases'),
    )
    if (late !== undefined) {
      const { by, atMs, request } = late
      this.#violated(`at the end ${by} still writes: ${request.method} ${request.path} at ${at(atMs)}`)
    }
  }

  #note(): void {
    const { fleet } = this.#world
    const { nowMs } = fleet.time
    const members = membersOf(this.#world)
    const standsStill = fleet.etcd === undefined ? members.every(({ connected }) => !connected) : fleet.etcd.down
    if (standsStill) this.#leasesSinceMs = nowMs
    const doubting = this.#doubting(nowMs, members)
    const forget = this.#wasDoubting && !doubting
    this.#wasDoubting = doubting
    for (const member of members) {
      const history = this.#histories.get(member) ?? new MemberHistory(member)
      this.#histories.set(member, history)
      history.note(nowMs, standsStill || doubting)
      if (forget) history.forgetOutage()
    }
  }

  /**
   * Whether our masters keep those whose leases have ended, because etcd takes no writes. One that has started since, or slept, knows
   * nothing to keep; in a list that somebody spoils nobody has a place to be kept.
   */
  #doubting(nowMs: number, members: readonly Member[]): boolean {
    const { fleet, kubeApiservers } = this.#world
    if (fleet.etcd?.full !== true || kubeApiservers.length > 0) {
      this.#full = undefined
      return false
    }
    const lives = members.reduce((sum, member) => sum + member.lives.length, 0)
    this.#full ??= { sinceMs: nowMs, lives }
    const slept = members.some(({ life }) => life?.clock.frozen === true)
    const spoiled = fleet.listings.some(({ byDamage, atMs }) => byDamage && atMs >= (this.#full?.sinceMs ?? 0))
    return this.#full.lives === lives && !slept && !spoiled
  }

  #check(): void {
    const { fleet } = this.#world
    const listings = fleet.listings.slice(this.#seen).map((listing) => this.#succeed(listing))
    this.#seen = fleet.listings.length
    const requests = fleet.requests.slice(this.#asked)
    this.#asked = fleet.requests.length
    const moment: Moment = {
      nowMs: fleet.time.nowMs,
      histories: [...this.#histories.values()],
      listings,
      requests,
      writes: this.#countWrites(requests),
      listed: fleet.listed('slice') ?? [],
      damagedAtMs: fleet.listings.findLast(({ byDamage }) => byDamage)?.atMs ?? 0,
      leasesSinceMs: this.#leasesSinceMs,
    }
    for (const [sentence, broken] of Object.entries(invariants)) {
      for (const where of broken(moment)) this.#violated(`not so: ${sentence}: ${where}`)
    }
    for (const { name, life } of fleet.masters) {
      // A start that etcd refuses for a minute is given up.
      const refused = /still refused after .*database space exceeded/.test(`${life?.failure}`)
      if (life?.failure !== undefined && !refused) this.#violated(`${name} failed: ${life.failure}`)
    }
  }

  #countWrites(requests: Fleet['requests']): ReadonlyMap<string, number> {
    this.#writes.push(...requests.filter(isWrite))
    while ((this.#writes[0]?.atMs ?? Number.POSITIVE_INFINITY) < this.#world.fleet.time.nowMs - 10_000)
      this.#writes.shift()
    const counts = new Map<string, number>()
    for (const { by } of this.#writes) counts.set(by, (counts.get(by) ?? 0) + 1)
    return counts
  }

  #succeed(listing: Listing): Successor {
    const { object, addresses = [], atMs } = listing
    const before = this.#undamaged[object]
    const since = new Map(this.#since[object])
    if (!listing.byDamage) {
      this.#undamaged[object] = listing
      this.#since[object] = new Map(addresses.map((address) => [address, since.get(address) ?? atMs]))
    }
    return { listing, before, since }
  }

  #violated(what: string): void {
    if (this.violations.length < 10) this.violations.push(what)
  }
}
