import { FleetChecker, type Violation } from '../../src/verify/fleet-checker.ts'
import type { MemberState } from '../../src/verify/member-state.ts'
import {
  type Bounds,
  defaultBounds,
  type Listing,
  type ObservedObjects,
  type ObservedRequest,
} from '../../src/verify/observation.ts'

type Changing = { -readonly [Key in keyof MemberState]: MemberState[Key] }

const CHECK_MS = 500
/** By then every member has settled. */
export const BEGIN_MS = 20_000

/** The state of a member without incidents. */
export const healthy: Omit<MemberState, 'name' | 'address'> = {
  kind: 'apiserver-bootstrap',
  leaseTtlMs: 15_000,
  reconcileIntervalMs: 10_000,
  withdrawsOnStop: true,
  withdrawsEvenIfLast: false,
  leavesWhenUnready: true,
  running: true,
  stopping: false,
  ended: false,
  frozen: false,
  connected: true,
  delayMs: 0,
  answering: true,
  ready: true,
  serves: true,
  etcdFails: false,
  impaired: 'no',
  disturbances: 0,
  clientConnections: 'served',
  healthy: true,
  renewing: true,
  storeFull: false,
  lifeCount: 1,
  hasBeenReady: true,
  connectionResets: 0,
  failure: undefined,
}

/** Incidents of a member, as changes of its state. */
export const incidents = {
  /** SIGKILL of both processes. */
  killed: {
    running: false,
    ended: true,
    answering: false,
    serves: false,
    clientConnections: 'refused',
    connected: false,
  },
  /** SIGKILL of the sidecar. */
  sidecarKilled: { running: false, ended: true, hasBeenReady: undefined },
  /** SIGTERM, after which it ended. */
  stopped: { running: false, stopping: true, ended: true },
  unready: { ready: false, serves: false },
  silent: { answering: false, serves: false },
  /** SIGSTOP of the server. */
  serverStopped: { connected: false, answering: false, serves: false, clientConnections: 'black-holed' },
  storeCut: { connected: false },
  cut: { connected: false, answering: false, serves: false },
} as const satisfies Readonly<Record<string, Partial<MemberState>>>

/**
 * A history made by hand, and what the checker finds in it. The names of members are letters. Every member is healthy
 * and listed at the beginning.
 */
export class FleetStory {
  readonly judge: FleetChecker
  nowMs = BEGIN_MS
  leasesCannotExpire = false
  readonly #members: Changing[]
  #begun = false
  #listings: Listing[] = []
  #requests: ObservedRequest[] = []
  #objects: ObservedObjects[] = []

  constructor(members: Readonly<Record<string, Partial<MemberState>>>, bounds: Partial<Bounds> = {}) {
    this.judge = new FleetChecker({ bounds: { ...defaultBounds, ...bounds } })
    this.#members = Object.entries(members).map(([name, state]) => ({
      ...healthy,
      name,
      address: `at-${name}`,
      ...state,
    }))
    this.judge.note(this.#truth(0))
    this.list(Object.keys(members))
    this.judge.note(this.#truth(BEGIN_MS))
    this.judge.learn(this.#truth(BEGIN_MS), this.#newObservations())
    this.#begun = true
  }

  /** The names of the invariants that were violated so far, without duplicates. */
  get broken(): readonly string[] {
    return [...new Set(this.violations.map(({ invariant }) => invariant))].sort()
  }

  get violations(): readonly Violation[] {
    return this.judge.violations
  }

  /** Changes the state of a member. `healthy` and `renewing` follow from the rest unless they are given. */
  turn(name: string, change: Partial<MemberState>): this {
    const member = this.#members.find((one) => one.name === name)
    if (member === undefined) throw new Error(`nobody is called ${name}`)
    this.check()
    Object.assign(member, change)
    const { running, connected, serves, answering, ended, frozen } = member
    member.healthy = change.healthy ?? (running && connected && serves)
    member.renewing = change.renewing ?? (!ended && !frozen && answering && connected)
    return this.check()
  }

  /** Begins another life of the sidecar of a member. */
  begin(name: string, change: Partial<MemberState> = {}): this {
    const member = this.#members.find((one) => one.name === name)
    const lifeCount = (member?.lifeCount ?? 0) + 1
    const process = { running: true, stopping: false, ended: false, frozen: false, connected: true }
    return this.turn(name, { ...process, answering: true, serves: true, hasBeenReady: true, lifeCount, ...change })
  }

  add(name: string, state: Partial<MemberState> = {}): this {
    this.check()
    this.#members.push({ ...healthy, name, address: `at-${name}`, ...state })
    return this.check()
  }

  /** Both objects, or only one of them, now list the addresses of these members. */
  list(
    names: readonly string[] | undefined,
    { only, ...how }: Partial<Listing> & { readonly only?: Listing['object'] } = {},
  ): this {
    const addresses = names === undefined ? undefined : [...new Set(names.map((name) => this.#addressOf(name)))].sort()
    for (const object of ['endpoints', 'slice'] as const) {
      if (only !== undefined && only !== object) continue
      this.#listings.push({ atMs: this.nowMs, object, addresses, byDamage: false, by: 'a', ...how })
    }
    return this.#begun ? this.check() : this
  }

  request(by: string, method: string, path: string, body?: object): this {
    this.#requests.push({ atMs: this.nowMs, by, request: { method, path, body } as ObservedRequest['request'] })
    return this
  }

  find(objects: Omit<ObservedObjects, 'atMs' | 'byDamage'>, byDamage = false): this {
    this.#objects.push({ ...objects, atMs: this.nowMs, byDamage })
    return this.check()
  }

  wait(ms: number): this {
    const endMs = this.nowMs + ms
    while (this.nowMs < endMs) {
      this.nowMs = Math.min(endMs, this.nowMs + CHECK_MS)
      this.check()
    }
    return this
  }

  check(): this {
    this.judge.note(this.#truth(this.nowMs))
    this.judge.check(this.#truth(this.nowMs), this.#newObservations())
    return this
  }

  #addressOf(name: string): string {
    return this.#members.find((one) => one.name === name)?.address ?? name
  }

  #truth(nowMs: number) {
    return { nowMs, members: this.#members, leasesCannotExpire: this.leasesCannotExpire }
  }

  #newObservations() {
    return {
      listings: this.#listings.splice(0),
      requests: this.#requests.splice(0),
      objects: this.#objects.splice(0),
    }
  }
}

/** A fleet of a, b and c. */
export function storyOfThree(change: Partial<MemberState> = {}, bounds: Partial<Bounds> = {}): FleetStory {
  return new FleetStory({ a: change, b: change, c: change }, bounds)
}
