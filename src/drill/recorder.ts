import type { FleetJudge, Violation } from '../verify/fleet-judge.ts'
import type { Listing } from '../verify/listing.ts'
import type { ObservedObjects, ObservedRequest } from '../verify/observation.ts'
import type { DrillEvent } from './event.ts'
import { isSameStatus, type MemberStatus, statusOf } from './member-status.ts'
import type { DrillTarget, TargetObserver } from './target.ts'

/** What a {@link DrillEvent} has beside its time. */
export type Happening = DrillEvent extends infer Each ? (Each extends unknown ? Omit<Each, 'atMs'> : never) : never

/** Writes the history of one run, and has it judged at each event. */
export class DrillRecorder implements TargetObserver {
  readonly events: DrillEvent[] = []
  readonly #target: DrillTarget
  readonly #judge: FleetJudge
  readonly #onEvent: (event: DrillEvent) => void
  readonly #states = new Map<string, MemberStatus>()
  readonly #lookers = new Set<() => void>()
  /** What happened before time 0 was known, with the clock's own times. */
  #early: { readonly atMs: number; readonly happening: Happening }[] | undefined = []
  readonly #listed: Record<Listing['object'], readonly string[] | undefined> = {
    endpoints: undefined,
    slice: undefined,
  }
  #beginMs = 0
  #violations = 0
  #listings: Listing[] = []
  #requests: ObservedRequest[] = []
  #objects: ObservedObjects[] = []

  constructor(target: DrillTarget, judge: FleetJudge, onEvent: (event: DrillEvent) => void = () => {}) {
    this.#target = target
    this.#judge = judge
    this.#onEvent = onEvent
  }

  get violations(): readonly Violation[] {
    return this.#judge.violations.map((violation) => ({ ...violation, atMs: this.#since(violation.atMs) }))
  }

  listed(listing: Listing): void {
    const { object, addresses, by, byDamage } = listing
    this.#listed[object] = addresses
    this.#listings.push(listing)
    this.#record({ type: 'listed', object, addresses, by, damage: byDamage }, listing.atMs)
    this.look()
  }

  requested(request: ObservedRequest): void {
    this.#requests.push(request)
    const { by, atMs } = request
    const { method, path } = request.request
    if (method !== 'GET') this.#record({ type: 'write', master: by, method, path }, atMs)
  }

  objects(found: ObservedObjects): void {
    this.#objects.push(found)
    this.look()
  }

  leases(addresses: readonly string[]): void {
    this.#record({ type: 'leases', addresses })
  }

  connected({ atMs, ...connection }: Parameters<TargetObserver['connected']>[0]): void {
    this.#record({ type: 'connection', ...connection }, atMs)
  }

  /** What clients would use now; undefined while there is no slice. */
  get sliceNow(): readonly string[] | undefined {
    return this.#listed.slice
  }

  step(action: string, masters: readonly string[], text: string): void {
    this.#record({ type: 'step', action, masters, text })
  }

  /** The fleet has come up: this moment is time 0. What happened before is told now, and from now on what happens is judged. */
  begin(): void {
    this.#beginMs = this.#target.clock.monotonicMs()
    const early = this.#early ?? []
    this.#early = undefined
    for (const { atMs, happening } of early) this.#record(happening, atMs)
    this.look()
  }

  /** Calls `handler` after each look, until the returned function is called. */
  onLook(handler: () => void): () => void {
    this.#lookers.add(handler)
    return () => this.#lookers.delete(handler)
  }

  /** Takes in how the members fare, and judges what happened since the last look. */
  look(): void {
    for (const member of this.#target.members) {
      const status = statusOf(member)
      if (isSameStatus(this.#states.get(member.name), status)) continue
      this.#states.set(member.name, status)
      this.#record({ type: 'state', master: member.name, ...status })
    }
    const { members, leasesStandStill, clock } = this.#target
    const truth = { nowMs: clock.monotonicMs(), members, leasesStandStill }
    const news = {
      listings: this.#listings.splice(0),
      requests: this.#requests.splice(0),
      objects: this.#objects.splice(0),
    }
    this.#judge.note(truth)
    if (this.#early === undefined) this.#judge.check(truth, news)
    else this.#judge.learn(truth, news)
    this.#recordViolations()
    for (const handler of this.#lookers) handler()
  }

  #recordViolations(): void {
    for (const { atMs, invariant, detail } of this.#judge.violations.slice(this.#violations)) {
      this.#violations++
      this.#record({ type: 'violation', invariant, detail }, atMs)
    }
  }

  /** In whole microseconds, and never minus nothing. */
  #since(atMs: number): number {
    return Math.round((atMs - this.#beginMs) * 1000) / 1000 + 0
  }

  #record(happening: Happening, atMs = this.#target.clock.monotonicMs()): void {
    if (this.#early !== undefined) {
      this.#early.push({ atMs, happening })
      return
    }
    const event = { atMs: this.#since(atMs), ...happening } as DrillEvent
    this.events.push(event)
    this.#onEvent(event)
  }
}
