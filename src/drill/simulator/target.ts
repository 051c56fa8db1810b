import type { createMaster } from '../../bootstrap/master.ts'
import type { MasterOptions } from '../../bootstrap/master-options.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { MemberState } from '../../verify/member-state.ts'
import { damages } from '../damage.ts'
import { DrillError } from '../drill-error.ts'
import { firstAddresses } from '../expected-list.ts'
import type { FleetPlan, MasterPlan } from '../scenario.ts'
import { writeStaticList } from '../static-list.ts'
import type { DrillTarget, Primitive, TargetObserver } from '../target.ts'
import { Fleet } from './fleet.ts'
import { SimulatedKubeApiserver } from './kube-apiserver.ts'
import type { SimulatedMaster } from './master.ts'
import { optionsOf, performOn } from './perform.ts'

/** Longer than any drill, in milliseconds. */
const ENDLESS_MS = 1e9

/** A fleet in this process, in simulated time, from a seed: the code that ships on in-process ports. */
export class SimulatedTarget implements DrillTarget {
  readonly kind = 'sim'
  readonly clock: Clock
  readonly retired = new Set<string>()
  readonly #plan: FleetPlan
  readonly #fleet: Fleet
  readonly #members: (SimulatedMaster | SimulatedKubeApiserver)[] = []
  #closed = false

  /** `compose` makes each sidecar, in the place of the one that ships. */
  constructor(plan: FleetPlan, seed: number, compose?: typeof createMaster) {
    const { leaseStore, spikes } = plan
    this.#plan = plan
    this.#fleet = new Fleet({
      seed,
      masters: 0,
      master: commonOptions(plan),
      etcd: leaseStore === 'etcd' || leaseStore === 'kine' ? leaseStore : undefined,
      memory: leaseStore === 'memory',
      spikes,
      keepsAll: false,
      ...(compose && { createMaster: compose }),
    })
    const { time } = this.#fleet
    // True time from the simulation's beginning, as listings and requests have it.
    const view = time.view()
    this.clock = {
      wallMs: () => view.wallMs(),
      monotonicMs: () => time.nowMs,
      schedule: (delayMs, callback) => view.schedule(delayMs, callback),
    }
  }

  get members(): readonly MemberState[] {
    return this.#members
  }

  get leasesStandStill(): boolean {
    const { etcd, surroundings } = this.#fleet
    if (etcd !== undefined) return etcd.down
    return (
      surroundings.leases === undefined && this.#members.every(({ connected, renewing }) => !connected && !renewing)
    )
  }

  /** How many events of the simulator have happened: what the run has cost, whatever the machine. */
  get simulatorEvents(): number {
    return this.#fleet.time.events
  }

  async open(observer: TargetObserver): Promise<void> {
    this.#fleet.observe(observer)
    const { reconciler, masters } = this.#plan
    if (reconciler !== 'none') return
    await writeStaticList(this.#fleet.api, firstAddresses(masters), { securePort: 6443 })
  }

  async perform(primitive: Primitive): Promise<void> {
    const { etcd, store, surroundings } = this.#fleet
    if (this.#closed) return
    switch (primitive.type) {
      case 'add':
        return this.#add(primitive.master)
      case 'datastore':
        surroundings.datastore.state = primitive.state === 'away' ? 'away' : 'up'
        if (etcd === undefined) return
        etcd.full = primitive.state === 'full'
        return primitive.state === 'away' ? etcd.stop() : etcd.start()
      case 'compact':
        etcd?.store.compact()
        store.compact()
        return
      case 'damage':
        // Nobody can write then.
        if (surroundings.datastore.state === 'away') return
        return this.#fleet.damage(async () => void (await damages[primitive.damage](this.#fleet.api).catch(() => {})))
      default: {
        const member = this.#members.find(({ name }) => name === primitive.master)
        if (member === undefined) throw new DrillError(`there is no master ${primitive.master}`)
        if (this.retired.has(member.name)) return
        if (primitive.type === 'retire') this.retired.add(member.name)
        performOn(member, primitive)
      }
    }
  }

  async drive<T>(work: Promise<T>): Promise<T> {
    let done = false
    const end = (): void => {
      done = true
    }
    work.then(end, end)
    await this.#fleet.time.runUntil(() => done || this.#closed, ENDLESS_MS)
    if (!done) throw new DrillError('the fleet was closed while it was being drilled')
    return work
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const member of this.#members) member.kill()
    this.#fleet.abandon()
  }

  #add(plan: MasterPlan): void {
    const { name, addresses, kind, skewMs, driftPpm, settings } = plan
    if (this.#members.some((member) => member.name === name)) throw new DrillError(`there is a master ${name} already`)
    if (kind === 'kube-apiserver') {
      if (this.#fleet.etcd === undefined) {
        throw new DrillError(
          `${name} is a kube-apiserver, which keeps its lease in etcd: the lease store must be etcd or kine`,
        )
      }
      this.#members.push(new SimulatedKubeApiserver(this.#fleet.surroundings, { name, address: addresses[0] ?? '' }))
      return
    }
    const options = optionsOf({ ...settings, addresses: settings.addresses ?? addresses })
    const master = this.#fleet.add({ name, addresses: settings.addresses ?? addresses, skewMs, driftPpm, options })
    // Nothing of it runs yet.
    master.server.kill()
    this.#members.push(master)
  }
}

function commonOptions(plan: FleetPlan): Partial<MasterOptions> {
  const { leaseStore, leaseTtlMs, reconcileIntervalMs, readinessGate, onShutdown, reconciler, apiserverCount } = plan
  return {
    leaseStore: leaseStore === 'kine' ? 'etcd' : leaseStore,
    leaseTtlMs,
    reconcileIntervalMs,
    readinessGate,
    onShutdown,
    endpointReconcilerType: reconciler,
    apiserverCount,
  }
}
