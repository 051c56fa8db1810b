import type { MasterOptions } from '../../bootstrap/master-options.ts'
import { ifFound } from '../../kube/errors.ts'
import { parseAddress } from '../../net/address.ts'
import { parseCidr } from '../../net/cidr.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { MemberState } from '../../verify/member-state.ts'
import { writeStaticList } from '../listings.ts'
import type { RequestRule } from '../request-faults.ts'
import { damages, type FleetPlan, firstAddresses, type MasterPlan, type MasterSettings } from '../scenario/scenario.ts'
import {
  DrillError,
  type DrillTarget,
  type MemberPrimitive,
  type Primitive,
  type ProcessAction,
  type TargetObserver,
} from '../target.ts'
import { Fleet, type FleetOptions } from './fleet.ts'
import { SERVICE_RANGE, SimulatedKubeApiserver } from './kube-apiserver.ts'
import type { SimulatedMaster } from './master.ts'

/** A time longer than any drill, in milliseconds. */
const ENDLESS_MS = 1e9

/** The parts of a simulated fleet that a caller may replace. */
export type SimulatedParts = Pick<FleetOptions, 'createMaster' | 'transport'>

/** A simulated fleet: the shipped code, in this process and in simulated time. A seed determines each run. */
export class SimulatedTarget implements DrillTarget {
  readonly kind = 'sim'
  readonly clock: Clock
  readonly retired = new Set<string>()
  readonly #plan: FleetPlan
  readonly #fleet: Fleet
  readonly #members: (SimulatedMaster | SimulatedKubeApiserver)[] = []
  #closed = false

  constructor(plan: FleetPlan, seed: number, parts: SimulatedParts = {}) {
    const { leaseStore, spikes } = plan
    this.#plan = plan
    this.#fleet = new Fleet({
      seed,
      masters: 0,
      master: commonOptions(plan),
      etcd: leaseStore === 'etcd' || leaseStore === 'kine' ? leaseStore : undefined,
      memory: leaseStore === 'memory',
      spikes,
      recordsAll: false,
      ...parts,
    })
    const { time } = this.#fleet
    const view = time.view()
    this.clock = {
      wallMs: () => view.wallMs(),
      // The times of listings and requests are on this clock too.
      monotonicMs: () => time.nowMs,
      schedule: (delayMs, callback) => view.schedule(delayMs, callback),
    }
  }

  get members(): readonly MemberState[] {
    return this.#members
  }

  hitsOf(rule: RequestRule): number {
    return this.#members.reduce((sum, { server }) => sum + server.faults.hitsOf(rule), 0)
  }

  get leasesCannotExpire(): boolean {
    const { etcd, surroundings } = this.#fleet
    if (etcd !== undefined) return etcd.down
    return (
      surroundings.leases === undefined && this.#members.every(({ connected, renewing }) => !connected && !renewing)
    )
  }

  /** How many events the simulator has processed. This measure of the cost of a run does not depend on the machine. */
  get simulatorEvents(): number {
    return this.#fleet.time.events
  }

  async open(observer: TargetObserver): Promise<void> {
    this.#fleet.observe(observer)
    const { reconciler, masters } = this.#plan
    if (reconciler !== 'none') return
    await writeStaticList(this.#fleet.api, firstAddresses(masters))
  }

  async perform(primitive: Primitive): Promise<void> {
    const { etcd, apiServer, surroundings } = this.#fleet
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
        apiServer.compact()
        return
      case 'damage':
        // Nobody can write during an outage.
        if (surroundings.datastore.state === 'away') return
        return this.#fleet.damage(() => ifFound(damages[primitive.damage](this.#fleet.api)))
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
    if (this.#members.some((member) => member.name === name)) throw new DrillError(`the master ${name} already exists`)
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
    // A new simulated server serves at once, but this one must wait for its start.
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

const SERVICE_RANGES = { 4: SERVICE_RANGE, 6: parseCidr('fd00:10:96::/112') }

function performOn(member: SimulatedMaster | SimulatedKubeApiserver, primitive: MemberPrimitive): void {
  const { server, etcd } = member
  const isMaster = !(member instanceof SimulatedKubeApiserver)
  switch (primitive.type) {
    case 'start':
    case 'kill':
    case 'terminate':
    case 'freeze':
    case 'thaw':
      if (!isMaster) performOnKubeApiserver(member, primitive.type)
      else if (primitive.part === 'sidecar') member[primitive.type]()
      else performOnServer(member, primitive.type)
      break
    case 'cut':
    case 'heal':
      if (isMaster || primitive.path !== 'api') cut(member, primitive.path, primitive.type === 'cut')
      break
    case 'slow':
      if (primitive.path === 'api') server.slowMs = primitive.byMs
      else if (etcd !== undefined) etcd.slowMs = primitive.byMs
      break
    case 'fault':
      if (isMaster) server.apply(primitive.rule)
      break
    case 'no-fault':
      server.faults.remove(primitive.rule)
      break
    case 'own-etcd':
      server.store.own = primitive.state
      // A kube-apiserver also stores its lease in this etcd member.
      if (!isMaster) member.etcd.refused = primitive.state !== 'ok'
      break
    case 'reset-connections':
      server.resetConnections()
      etcd?.resetConnections()
      break
    case 'readyz':
      server.ready = primitive.answer !== 'unready'
      server.silent = primitive.answer === 'hangs'
      server.etcdCheck = primitive.answer !== 'etcd-fails'
      break
    case 'clock-skew':
      if (isMaster) member.setWallClock(primitive.byMs)
      break
    case 'configure':
      if (isMaster) member.configure(optionsOf(primitive.settings))
      break
    case 'terminate-earlier':
      if (isMaster) member.terminateEarlier()
      break
    case 'retire':
      member.kill()
      server.kill()
      break
    default:
      primitive satisfies never
  }
}

function performOnServer({ server }: SimulatedMaster, type: ProcessAction): void {
  if (type === 'start') server.start()
  else if (type === 'freeze' || type === 'thaw') server.frozen = type === 'freeze'
  else server.kill()
}

function performOnKubeApiserver(one: SimulatedKubeApiserver, type: ProcessAction): void {
  if (type !== 'start') one[type]()
  else if (!one.running) {
    // Two processes of one server cannot run at once, because both would listen on the same port.
    one.kill()
    one.start()
  }
}

function cut(
  { server, etcd }: SimulatedMaster | SimulatedKubeApiserver,
  way: Extract<MemberPrimitive, { readonly type: 'cut' | 'heal' }>['path'],
  on: boolean,
): void {
  switch (way) {
    case 'api':
      if (on) server.cut = true
      else if (server.cut) server.heal()
      break
    case 'store':
      if (on && etcd !== undefined) etcd.cut = true
      else if (etcd?.cut) etcd.endCut()
      break
    case 'server-store':
      server.store.cut = on
      break
    case 'clients':
      server.clientsCutOff = on
      break
  }
}

function optionsOf({ reconciler, addresses, ...settings }: MasterSettings): Partial<MasterOptions> {
  const advertiseAddresses = addresses?.map(parseAddress)
  return {
    ...settings,
    ...(reconciler !== undefined && { endpointReconcilerType: reconciler }),
    ...(advertiseAddresses && {
      advertiseAddresses,
      serviceClusterIpRanges: advertiseAddresses.map(({ family }) => SERVICE_RANGES[family]),
    }),
  }
}
