import type { createMaster } from '../../../src/bootstrap/master.ts'
import type { FleetPlan, MasterPlan } from '../../../src/drill/scenario/scenario.ts'
import { SimulatedTarget } from '../../../src/drill/simulator/target.ts'
import type { Primitive, TargetObserver } from '../../../src/drill/target.ts'
import { sleep } from '../../../src/runtime/clock.ts'
import type { MemberState } from '../../../src/verify/member-state.ts'
import type { Listing, ObservedObjects, ObservedRequest } from '../../../src/verify/observation.ts'

export const never = new AbortController().signal

export function masterPlan(number: number, over: Partial<MasterPlan> = {}): MasterPlan {
  const addresses = [`192.0.2.${number}`]
  return {
    name: `master-${number}`,
    addresses,
    kind: 'apiserver-bootstrap',
    skewMs: 0,
    driftPpm: 0,
    settings: {},
    ...over,
  }
}

/** A fleet of `count` masters with the defaults, except for `over`. */
export function fleetPlan(count: number, over: Partial<FleetPlan> = {}): FleetPlan {
  return {
    masters: Array.from({ length: count }, (_, index) => masterPlan(index + 1)),
    reconciler: 'lease',
    apiserverCount: count,
    leaseStore: 'etcd',
    leaseTtlMs: 15_000,
    reconcileIntervalMs: 10_000,
    readinessGate: 'continuous',
    onShutdown: 'withdraw',
    spikes: false,
    ...over,
  }
}

/** A simulated target that a test drives, and what it reported. */
export class FleetUnderTest {
  readonly target: SimulatedTarget
  readonly listings: Listing[] = []
  readonly requests: ObservedRequest[] = []
  readonly leases: { readonly atMs: number; readonly addresses: readonly string[] }[] = []
  readonly objects: ObservedObjects[] = []

  constructor(plan: FleetPlan, seed = 1, compose?: typeof createMaster) {
    this.target = new SimulatedTarget(plan, seed, { createMaster: compose })
  }

  /** Starts all masters and waits until all are listed. */
  static async started(plan: FleetPlan, compose?: typeof createMaster): Promise<FleetUnderTest> {
    const fleet = new FleetUnderTest(plan, 1, compose)
    await fleet.target.open(fleet.#observer())
    for (const master of plan.masters) await fleet.join(master)
    await fleet.advance(plan.masters.some(({ kind }) => kind === 'kube-apiserver') ? 18_000 : 5_000)
    return fleet
  }

  async join(master: MasterPlan): Promise<void> {
    await this.perform({ type: 'add', master })
    await this.perform({ type: 'start', master: master.name, part: 'server' })
    await this.perform({ type: 'start', master: master.name, part: 'sidecar' })
  }

  perform(...primitives: readonly Primitive[]): Promise<void> {
    return primitives.reduce(
      (before, primitive) => before.then(() => this.target.perform(primitive)),
      Promise.resolve(),
    )
  }

  async advance(ms: number): Promise<void> {
    await this.target.drive(sleep(this.target.clock, ms))
  }

  get nowMs(): number {
    return this.target.clock.monotonicMs()
  }

  get listed(): readonly string[] | undefined {
    return this.listings.findLast(({ object }) => object === 'slice')?.addresses
  }

  get leased(): readonly string[] {
    return this.leases.at(-1)?.addresses ?? []
  }

  member(number: number): MemberState {
    const found = this.target.members[number - 1]
    if (found === undefined) throw new Error(`no member ${number}`)
    return found
  }

  #observer(): TargetObserver {
    return {
      listed: (listing) => this.listings.push(listing),
      requested: (request) => this.requests.push(request),
      leases: (addresses) => this.leases.push({ atMs: this.nowMs, addresses }),
      objects: (found) => this.objects.push(found),
      connected: () => {},
    }
  }
}

export function addresses(...numbers: readonly number[]): readonly string[] {
  return numbers.map((number) => `192.0.2.${number}`)
}
