import type { FleetChecker, Violation } from '../verify/fleet-checker.ts'
import type { Listing, ObservedObjects, ObservedRequest } from '../verify/observation.ts'
import { type DrillEvent, isSameStatus, type MemberStatus, statusOf } from './event.ts'
import type { DrillTarget, TargetObserver } from './target.ts'

type UntimedEvent = DrillEvent extends infer Each ? (Each extends unknown ? Omit<Each, 'atMs'> : never) : never

/**
 * Records the history of one run. Checks the invariants at each observed change of the list, the Service or the
 * namespaces, and at each call of `check`.
 */
export class DrillRecorder implements TargetObserver {
  readonly events: DrillEvent[] = []
  readonly #target: DrillTarget
  readonly #checker: FleetChecker
  readonly #onEvent: (event: DrillEvent) => void
  readonly #states = new Map<string, MemberStatus>()
  readonly #checkHandlers = new Set<() => void>()
  /** The events before {@link begin}, with the times of the target's clock; undefined afterwards. */
  #early: { readonly atMs: number; readonly happening: UntimedEvent }[] | undefined = []
  #slice: readonly string[] | undefined
  #beginMs = 0
  #violations = 0
  #listings: Listing[] = []
  #requests: ObservedRequest[] = []
  #objects: ObservedObjects[] = []

  constructor(target: DrillTarget, checker: FleetChecker, onEvent: (event: DrillEvent) => void = () => {}) {
    this.#target = target
    this.#checker = checker
    this.#onEvent = onEvent
  }

  get violations(): readonly Violation[] {
    return this.#checker.violations.map((violation) => ({ ...violation, atMs: this.#since(violation.atMs) }))
  }

  /** The dead addresses that are listed now, although nobody counts as healthy who should have removed them. */
  get unjudged(): readonly string[] {
    return this.#checker.unjudged({ nowMs: this.#target.clock.monotonicMs() })
  }

  listed(listing: Listing): void {
    const { object, addresses, by, byDamage } = listing
    if (object === 'slice') this.#slice = addresses
    this.#listings.push(listing)
    this.#record({ type: 'listed', object, addresses, by, damage: byDamage }, listing.atMs)
    this.check()
  }

  requested(request: ObservedRequest): void {
    this.#requests.push(request)
    const { by, atMs } = request
    const { method, path } = request.request
    if (method !== 'GET') this.#record({ type: 'write', master: by, method, path }, atMs)
  }

  objects(found: ObservedObjects): void {
    this.#objects.push(found)
    this.check()
  }

  leases(addresses: readonly string[]): void {
    this.#record({ type: 'leases', addresses })
  }

  connected({ atMs, ...connection }: Parameters<TargetObserver['connected']>[0]): void {
    this.#record({ type: 'connection', ...connection }, atMs)
  }

  /** The addresses in the EndpointSlice; undefined while there is no EndpointSlice. */
  get sliceNow(): readonly string[] | undefined {
    return this.#slice
  }

  step(action: string, masters: readonly string[], text: string): void {
    this.#record({ type: 'step', action, masters, text })
  }

  /**
   * Makes this moment time 0. Reports the earlier events, whose times are negative, and checks the invariants from now
   * on.
   */
  begin(): void {
    this.#beginMs = this.#target.clock.monotonicMs()
    const early = this.#early ?? []
    this.#early = undefined
    for (const { atMs, happening } of early) this.#record(happening, atMs)
    this.check()
  }

  /** Calls `handler` after each check, until the returned function is called. */
  onCheck(handler: () => void): () => void {
    this.#checkHandlers.add(handler)
    return () => this.#checkHandlers.delete(handler)
  }

  /**
   * Records changed states of members. From {@link begin} on, also checks the invariants for the time since the last
   * check.
   */
  check(): void {
    for (const member of this.#target.members) {
      const status = statusOf(member)
      if (isSameStatus(this.#states.get(member.name), status)) continue
      this.#states.set(member.name, status)
      this.#record({ type: 'state', master: member.name, ...status })
    }
    const { members, leasesCannotExpire, clock } = this.#target
    const truth = { nowMs: clock.monotonicMs(), members, leasesCannotExpire }
    const observations = {
      listings: this.#listings.splice(0),
      requests: this.#requests.splice(0),
      objects: this.#objects.splice(0),
    }
    this.#checker.note(truth)
    if (this.#early === undefined) this.#checker.check(truth, observations)
    else this.#checker.learn(truth, observations)
    for (const { atMs, invariant, detail } of this.#checker.violations.slice(this.#violations)) {
      this.#violations++
      this.#record({ type: 'violation', invariant, detail }, atMs)
    }
    for (const handler of this.#checkHandlers) handler()
  }

  /** Milliseconds since time 0, rounded to whole microseconds. `+ 0` turns negative zero into 0. */
  #since(atMs: number): number {
    return Math.round((atMs - this.#beginMs) * 1000) / 1000 + 0
  }

  #record(happening: UntimedEvent, atMs = this.#target.clock.monotonicMs()): void {
    if (this.#early !== undefined) {
      this.#early.push({ atMs, happening })
      return
    }
    const event = { atMs: this.#since(atMs), ...happening } as DrillEvent
    this.events.push(event)
    this.#onEvent(event)
  }
}
