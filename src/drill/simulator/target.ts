import type { Clock } from '../../runtime/clock.ts'
import type { MemberState } from '../../verify/member-state.ts'
import { damages } from '../damage.ts'
import type { FleetPlan } from '../scenario.ts'
import type { DrillTarget, Primitive, TargetObserver } from '../target.ts'
import { Fleet } from './fleet.ts'
import { SimulatedKubeApiserver } from './kube-apiserver.ts'
import type { SimulatedMaster } from './master.ts'
import { optionsOf, performOn } from './perform.ts'

/** A fleet in this process, in simulated time, from a seed: the code that ships on in-process ports. */
export class SimulatedTarget implements DrillTarget {
  readonly kind = 'sim'
  readonly clock: Clock
  readonly retired = new Set<string>()
  readonly #fleet: Fleet
  readonly #members: (SimulatedMaster | SimulatedKubeApiserver)[] = []

  constructor(plan: FleetPlan, seed: number) {
    const {
      leaseStore,
      spikes,
      leaseTtlMs,
      reconcileIntervalMs,
      readinessGate,
      onShutdown,
      reconciler,
      apiserverCount,
    } = plan
    this.#fleet = new Fleet({
      seed,
      masters: 0,
      master: {
        leaseTtlMs,
        reconcileIntervalMs,
        readinessGate,
        onShutdown,
        endpointReconcilerType: reconciler,
        apiserverCount,
      },
      etcd: leaseStore === 'etcd' || leaseStore === 'kine' ? leaseStore : undefined,
      spikes,
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
    const { etcd } = this.#fleet
    return etcd === undefined ? this.#members.every(({ connected }) => !connected) : etcd.down
  }

  async open(observer: TargetObserver): Promise<void> {
    this.#fleet.observe(observer)
  }

  async perform(primitive: Primitive): Promise<void> {
    const { etcd } = this.#fleet
    switch (primitive.type) {
      case 'add':
        return this.#add(primitive.master)
      case 'datastore':
        return this.#datastore(primitive.state)
      case 'compact':
        etcd?.store.compact()
        return
      case 'damage':
        return this.#fleet.damage(async () => void (await damages[primitive.damage](this.#fleet.api).catch(() => {})))
      default:
        for (const member of this.#members) {
          if (member.name !== primitive.master) continue
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
    await this.#fleet.time.runUntil(() => done, 1e9)
    return work
  }

  close(): Promise<void> {
    return this.#fleet.close()
  }

  #add(plan: FleetPlan['masters'][number]): void {
    const { name, addresses, kind, skewMs, driftPpm, settings } = plan
    if (kind === 'kube-apiserver') {
      this.#members.push(new SimulatedKubeApiserver(this.#fleet.surroundings, { name, address: addresses[0] ?? '' }))
    } else {
      this.#members.push(this.#fleet.add({ name, addresses, skewMs, driftPpm, options: optionsOf(settings) }))
    }
  }

  #datastore(state: 'up' | 'away' | 'full'): void {
    const { etcd } = this.#fleet
    if (etcd !== undefined) {
      etcd.full = state === 'full'
      if (state === 'away') etcd.stop()
      else etcd.start()
    }
    for (const { server } of this.#members) {
      if (etcd !== undefined) server.storeless = state === 'away'
      else if (state === 'away') server.cut = true
      else if (server.cut) server.heal()
    }
  }
}
