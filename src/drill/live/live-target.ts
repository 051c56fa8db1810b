import { ifFound } from '../../kube/errors.ts'
import { type Cancel, type Clock, every, sleep } from '../../runtime/clock.ts'
import { type Random, seededRandom } from '../../runtime/random.ts'
import { systemClock } from '../../runtime/system-clock.ts'
import type { MemberState } from '../../verify/member-state.ts'
import type { Listing } from '../../verify/observation.ts'
import { Datastore } from '../datastore.ts'
import { writeStaticList } from '../listings.ts'
import type { RequestRule } from '../request-faults.ts'
import { damages, firstAddresses, type MasterPlan, type Scenario } from '../scenario/scenario.ts'
import { DrillError, type DrillTarget, type Primitive, type TargetObserver } from '../target.ts'
import { type LiveOptions, liveFaults, openCluster } from './cluster.ts'
import { type DamagedObject, followCluster } from './followers.ts'
import { type ClientTarget, LiveClients } from './live-clients.ts'
import { LiveKubeApiserver } from './live-kube-apiserver.ts'
import { LiveMaster } from './live-master.ts'
import type { LiveSurroundings } from './live-member.ts'
import { ClusterStage } from './live-stage.ts'

/** The interval between measurements of the lateness of the host's timers, in milliseconds. */
const LATENESS_PERIOD_MS = 100
/** How long a drill waits until its first kube-apiserver is ready, in milliseconds. Then the drill continues. */
const FIRST_LIMIT_MS = 60_000
/** How long after damage the next version of the object counts as damaged, in milliseconds. */
const DELIVERY_MS = 1_000

/**
 * A fleet of real processes on the API server of a kubeconfig: sidecars of this program, each with its own proxies
 * before the API server, and kube-apiservers. The target changes `default/kubernetes`, and restores it in `close`. When
 * this process ends, however it ends, a watchdog kills the processes of the fleet. The seed decides the choices of
 * clients, and how late API servers recover from a datastore outage.
 *
 * Connects to nothing before `open`. Rejects with a KubeConfigError, an EtcdEndpointError or a {@link DrillError}.
 * `open` rejects with a DrillError, before it changes anything, if another program manages `default/kubernetes`.
 */
export async function createLiveTarget(scenario: Scenario, seed: number, options: LiveOptions): Promise<DrillTarget> {
  const [fault] = liveFaults(scenario)
  if (fault !== undefined) throw new DrillError(fault)
  const { leaseStore, masters } = scenario.fleet
  const needsEtcd = leaseStore !== 'kubernetes' || masters.some(({ kind }) => kind === 'kube-apiserver')
  const cluster = await openCluster(options, needsEtcd ? 'etcd' : 'kubernetes')
  return new LiveTarget(scenario, new ClusterStage(options, cluster), seededRandom(seed, 'clients'))
}

type Member = LiveMaster | LiveKubeApiserver

/**
 * In a datastore outage, proxies refuse connections to etcd, and let requests to the API servers hang. etcd itself
 * keeps running, so {@link StandingLeases} keeps the leases in etcd alive.
 */
class LiveTarget implements DrillTarget {
  readonly kind = 'live'
  readonly clock: Clock = systemClock
  readonly retired = new Set<string>()
  readonly #scenario: Scenario
  readonly #random: Random
  readonly #datastore: Datastore
  readonly #stage: ClusterStage
  readonly #members: Member[] = []
  readonly #end = new AbortController()
  readonly #background: Promise<unknown>[] = []
  /** Damaged objects, and until when their next version counts as a result of the damage. */
  readonly #damaged = new Map<DamagedObject, number>()
  readonly #underWay = new Set<Promise<void>>()
  #around: LiveSurroundings | undefined
  #observer: TargetObserver | undefined
  #latenessMs = 0
  #endLateness: Cancel = () => {}
  /** Whether the first kube-apiserver has been started. */
  #bootstrapped = false
  #closing: Promise<void> | undefined

  constructor(scenario: Scenario, stage: ClusterStage, random: Random) {
    this.#scenario = scenario
    this.#stage = stage
    this.#random = random
    this.#datastore = new Datastore({ clock: this.clock, random })
  }

  get members(): readonly MemberState[] {
    return this.#members
  }

  hitsOf(rule: RequestRule): number {
    return this.#members.reduce((sum, member) => sum + (member instanceof LiveMaster ? member.hitsOf(rule) : 0), 0)
  }

  get leasesCannotExpire(): boolean {
    return (
      this.#datastore.state === 'away' ||
      (this.#scenario.fleet.leaseStore === 'kubernetes' &&
        this.#members.every(({ connected, renewing }) => !connected && !renewing))
    )
  }

  get latenessMs(): number {
    return this.#latenessMs
  }

  async open(observer: TargetObserver, signal: AbortSignal): Promise<void> {
    this.#endLateness = every(this.clock, LATENESS_PERIOD_MS, (lateMs) => {
      this.#latenessMs = Math.max(this.#latenessMs, lateMs)
    })
    this.#observer = observer
    this.#around = await this.#stage.open(signal)
    const { cluster } = this.#around
    const clients = new LiveClients({
      plan: this.#scenario.clients,
      clock: this.clock,
      random: this.#random,
      targetsOf: (address) => this.#targetsOf(address),
      connected: (connection) => observer.connected(connection),
    })
    const listed = (listing: Listing): void => {
      if (listing.object === 'slice') clients.listed(listing.addresses ?? [])
      observer.listed(listing)
    }
    const end = this.#end.signal
    const { reconciler, masters } = this.#scenario.fleet
    // Without a reconciler or a kube-apiserver nobody else maintains the list.
    if (reconciler === 'none' && masters.every(({ kind }) => kind !== 'kube-apiserver')) {
      await writeStaticList(cluster.api, firstAddresses(masters), signal)
    }
    this.#background.push(
      followCluster({
        cluster,
        clock: this.clock,
        observer,
        listed,
        takeDamage: (object) => this.#takeDamage(object),
        signal: end,
      }),
      clients.run(end),
    )
  }

  async perform(primitive: Primitive, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    this.#end.signal.throwIfAborted()
    const done = this.#perform(primitive, signal)
    this.#underWay.add(done)
    await done.finally(() => this.#underWay.delete(done))
  }

  drive<T>(work: Promise<T>): Promise<T> {
    return work
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #perform(primitive: Primitive, signal: AbortSignal): Promise<void> {
    switch (primitive.type) {
      case 'add': {
        const member = await this.#open(primitive.master)
        this.#members.push(member)
        return member.setStoreAway(this.#datastore.state === 'away')
      }
      case 'datastore':
        return this.#setDatastore(primitive.state)
      case 'damage':
        return this.#damage(primitive.damage, signal)
      case 'clock-skew':
      case 'compact':
        throw new DrillError(`${primitive.type} is not supported with real processes`)
    }
    const member = this.#members.find(({ name }) => name === primitive.master)
    if (member === undefined) return
    if (primitive.type === 'retire') this.retired.add(member.name)
    await member.perform(primitive)
    if (primitive.type === 'start') await this.#bootstrapBy(member, signal)
  }

  async #close(): Promise<void> {
    this.#endLateness()
    this.#end.abort(new Error('the drill is over'))
    // Waits for running actions. Otherwise a process that is just being started would be left behind.
    await Promise.allSettled(this.#underWay)
    try {
      await Promise.all([...this.#members.map((member) => member.close()), ...this.#background])
    } finally {
      await this.#stage.close(this.#members.flatMap(({ addresses }) => addresses))
    }
  }

  get #opened(): LiveSurroundings {
    if (this.#around === undefined) throw new TypeError('the target is not open')
    return this.#around
  }

  #open(plan: MasterPlan): Promise<Member> {
    return plan.kind === 'kube-apiserver'
      ? LiveKubeApiserver.open(this.#opened, plan)
      : LiveMaster.open(this.#opened, this.#scenario.fleet, plan, this.#datastore, (request) =>
          this.#observer?.requested({ atMs: this.clock.monotonicMs(), by: plan.name, request }),
        )
  }

  /**
   * Waits until the first kube-apiserver is ready: kube-apiservers that initialize an empty store at the same time may
   * fail for good.
   */
  async #bootstrapBy(member: Member, signal: AbortSignal): Promise<void> {
    if (this.#bootstrapped || member.kind !== 'kube-apiserver') return
    this.#bootstrapped = true
    const untilMs = this.clock.monotonicMs() + FIRST_LIMIT_MS
    while (member.hasBeenReady === false && !member.ended && this.clock.monotonicMs() < untilMs) {
      await sleep(this.clock, 100, signal)
    }
  }

  async #setDatastore(state: 'up' | 'away' | 'full'): Promise<void> {
    if (state === 'full') throw new DrillError('an external etcd cannot be filled up')
    const { standingLeases } = this.#opened.cluster
    if (state === 'away') standingLeases?.hold()
    else await standingLeases?.release()
    this.#datastore.state = state
    await Promise.all(this.#members.map((member) => member.setStoreAway(state === 'away')))
  }

  async #damage(name: keyof typeof damages, signal: AbortSignal): Promise<void> {
    // Nobody can write during an outage.
    if (this.#datastore.state === 'away') return
    // A kube-apiserver deletes the Endpoints with their Service (registry/core/service/storage, `afterDelete`).
    const objects: readonly DamagedObject[] =
      name === 'service-deleted' ? ['service', 'endpoints'] : [name.split('-')[0] as DamagedObject]
    for (const object of objects) this.#damaged.set(object, Number.POSITIVE_INFINITY)
    const isDone = (await ifFound(damages[name](this.#opened.cluster.api).then(() => true))) === true
    signal.throwIfAborted()
    for (const object of objects) {
      if (!isDone) this.#damaged.delete(object)
      else if (this.#damaged.has(object)) this.#damaged.set(object, this.clock.monotonicMs() + DELIVERY_MS)
    }
  }

  #takeDamage(object: DamagedObject): boolean {
    const untilMs = this.#damaged.get(object) ?? Number.NEGATIVE_INFINITY
    this.#damaged.delete(object)
    return this.clock.monotonicMs() < untilMs
  }

  /** The ports of an address. Masters that serve come first, because a virtual address leads clients to them. */
  #targetsOf(address: string): readonly ClientTarget[] {
    return this.#members
      .filter(({ name, addresses }) => addresses.includes(address) && !this.retired.has(name))
      .toSorted((a, b) => Number(b.clientConnections === 'served') - Number(a.clientConnections === 'served'))
      .map(({ clientPort: port, clientTls: tls }) => ({ port, tls }))
  }
}
