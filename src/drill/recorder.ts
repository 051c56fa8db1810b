import type { FleetJudge, Violation } from '../verify/fleet-judge.ts'
import type { ObservedRequest } from '../verify/invariants.ts'
import type { Listing } from '../verify/listing.ts'
import type { DrillEvent } from './event.ts'
import { statusOf } from './member-status.ts'
import type { DrillTarget, TargetObserver } from './target.ts'

/** What a {@link DrillEvent} has beside its time. */
export type Happening = DrillEvent extends infer Each ? (Each extends unknown ? Omit<Each, 'atMs'> : never) : never

/** Writes the history of one run, and has it judged at each event. */
export class DrillRecorder implements TargetObserver {
  readonly events: DrillEvent[] = []
  readonly #target: DrillTarget
  readonly #judge: FleetJudge
  readonly #onEvent: (event: DrillEvent) => void
  readonly #states = new Map<string, string>()
  readonly #listed: Record<Listing['object'], readonly string[] | undefined> = {
    endpoints: undefined,
    slice: undefined,
  }
  #beginMs = 0
  #judging = false
  #violations = 0
  #listings: Listing[] = []
  #requests: ObservedRequest[] = []

  constructor(target: DrillTarget, judge: FleetJudge, onEvent: (event: DrillEvent) => void = () => {}) {
    this.#target = target
    this.#judge = judge
    this.#onEvent = onEvent
  }

  get violations(): readonly Violation[] {
    return this.#judge.violations.map((violation) => ({ ...violation, atMs: this.#since(violation.atMs) }))
  }

  /** What the object lists now; undefined while it is gone. */
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

  leases(addresses: readonly string[]): void {
    this.#record({ type: 'leases', addresses })
  }

  connected(connection: Parameters<TargetObserver['connected']>[0]): void {
    this.#record({ type: 'connection', ...connection })
  }

  /** What clients would use now; undefined while there is no slice. */
  get sliceNow(): readonly string[] | undefined {
    return this.#listed.slice
  }

  step(action: string, masters: readonly string[], text: string): void {
    this.#record({ type: 'step', action, masters, text })
  }

  /** Everybody is listed: this moment is time 0, and from now on what happens is judged. */
  begin(): void {
    this.#beginMs = this.#target.clock.monotonicMs()
    for (const [index, event] of this.events.entries()) {
      this.events[index] = { ...event, atMs: event.atMs - this.#beginMs }
    }
    this.#judging = true
    this.look()
  }

  /** Takes in how the members fare, and judges what happened since the last look. */
  look(): void {
    for (const member of this.#target.members) {
      const status = statusOf(member)
      const text = JSON.stringify(status)
      if (this.#states.get(member.name) === text) continue
      this.#states.set(member.name, text)
      this.#record({ type: 'state', master: member.name, ...status })
    }
    const { members, leasesStandStill, clock } = this.#target
    const truth = { nowMs: clock.monotonicMs(), members, leasesStandStill }
    this.#judge.note(truth)
    if (!this.#judging) return
    this.#judge.check(truth, { listings: this.#listings.splice(0), requests: this.#requests.splice(0) })
    this.#recordViolations()
  }

  /** Judges the end: nothing was done to the fleet for `quietMs` and more. */
  end(quietMs: number): void {
    this.look()
    const members = this.#target.members.filter(({ name, well }) => well && !this.#target.retired.has(name))
    this.#judge.checkEnd({ nowMs: this.#target.clock.monotonicMs(), members }, quietMs)
    this.#recordViolations()
  }

  #recordViolations(): void {
    for (const { atMs, invariant, detail } of this.#judge.violations.slice(this.#violations)) {
      this.#violations++
      this.#record({ type: 'violation', invariant, detail }, atMs)
    }
  }

  #since(atMs: number): number {
    return Math.round((atMs - this.#beginMs) * 1000) / 1000
  }

  #record(happening: Happening, atMs = this.#target.clock.monotonicMs()): void {
    const event = { atMs: this.#since(atMs), ...happening } as DrillEvent
    this.events.push(event)
    this.#onEvent(event)
  }
}
