import { createApiServer } from '../../src/apiserver/api-server.ts'
import { inProcessTransport } from '../../src/apiserver/in-process.ts'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { Availability } from '../../src/kube/availability.ts'
import { noEvents } from '../../src/kube/event-object.ts'
import { endpointSlices, endpoints, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Transport } from '../../src/kube/transport.ts'
import { Announcements } from '../../src/kubernetes-service/announcements.ts'
import { EndpointsAdapter } from '../../src/kubernetes-service/endpoints-adapter.ts'
import { FleetView } from '../../src/kubernetes-service/fleet-view.ts'
import { endpointPorts, KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { LeaseMembership } from '../../src/kubernetes-service/lease-membership.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd.ts'
import { ObjectWriter } from '../../src/kubernetes-service/object-writer.ts'
import { ReadinessMonitor } from '../../src/kubernetes-service/readiness-monitor.ts'
import { type Address, parseAddress } from '../../src/net/address.ts'
import { encodeMasterLease } from '../../src/protobuf/master-lease.ts'
import { type Random, randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { RemoteError } from '../../src/runtime/remote-error.ts'
import { abortable } from '../../src/runtime/signals.ts'
import { Trigger } from '../../src/runtime/trigger.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

/** Why a master leaves the list. */
export type Leaving = 'shutdown' | 'unreadiness'

/** What one seed plays. */
export interface LeavingCase {
  readonly leavers: readonly Leaving[]
  /** Who is there beside them: a master that is ready all the time, one that comes meanwhile, or a kube-apiserver. */
  readonly third: 'none' | 'master' | 'newcomer' | 'kube-apiserver'
  /** Two masters behind one address: the leavers, or the first of them and the third. */
  readonly shared: 'none' | 'leavers' | 'with-third'
  readonly flavour: 'etcd' | 'kine'
  /** Whether time may pass while a call is under way. */
  readonly slow: boolean
}

/** A call that has not been let through yet. */
interface Held {
  readonly who: string
  readonly what: string
  readonly go: () => void
}

const ports = endpointPorts(6443)
const ttlMs = 15_000
const intervalMs = 10_000
/** Far more than any seed needs; one that needs them goes round in circles. */
const maxSteps = 5_000

/** Lets one call at a time through to the servers, whichever chance picks; now and then it holds up all of one master's for a while. */
class Scheduler {
  readonly trace: string[] = []
  readonly #slow: boolean
  #heldUp: string | undefined
  readonly #random: Random
  readonly #held: Held[] = []
  #armed = false

  constructor(random: Random, slow: boolean) {
    this.#random = random
    this.#slow = slow
  }

  /** From now on every call waits for its turn. */
  arm(): void {
    this.#armed = true
  }

  disarm(): void {
    this.#armed = false
    for (const { go } of this.#held.splice(0)) go()
  }

  turn(who: string, what: string, signal: AbortSignal): Promise<void> {
    if (!this.#armed) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const held = { who, what, go: resolve }
    this.#held.push(held)
    return abortable(promise, signal).finally(() => {
      const index = this.#held.indexOf(held)
      if (index !== -1) this.#held.splice(index, 1)
    })
  }

  /** Lets one call through; false when none waits that is not held up. */
  step(): boolean {
    if (this.#slow && randomInteger(this.#random, 16) === 0) {
      this.#heldUp = ['A', 'B', 'C', undefined][randomInteger(this.#random, 4)]
    }
    const ready = this.#held.filter(({ who }) => who !== this.#heldUp)
    const held = ready[randomInteger(this.#random, ready.length)]
    if (held === undefined) return false
    this.#held.splice(this.#held.indexOf(held), 1)
    this.trace.push(`${held.who} ${held.what}`)
    held.go()
    return true
  }

  /** Holds nobody up any more; whether anybody was. */
  holdNobodyUp(): boolean {
    const wasHeldUp = this.#heldUp !== undefined
    this.#heldUp = undefined
    return wasHeldUp
  }
}

/** One master: what ships, with a loop that looks as its controller does. */
class ModelMaster {
  readonly name: string
  readonly address: Address
  readonly leaving: Leaving | undefined
  ready = true
  /** It has been there from the beginning. */
  readonly there: boolean
  /** Its first look after it came has ended. */
  settled = false
  /** It has taken its lease away. If it finds that it must put it back, it is listed again only by the next look. */
  wentAway = false
  departure: 'left' | 'kept-the-last' | undefined
  readonly #membership: LeaseMembership
  readonly #monitor: ReadinessMonitor
  readonly #looks = new Trigger<'look'>()
  readonly #process = new AbortController()
  readonly #loops = new AbortController()
  readonly #parts: Promise<unknown>[] = []
  #looping: Promise<unknown> = Promise.resolve()

  constructor(
    world: World,
    name: string,
    address: string,
    options: { readonly leaving?: Leaving; readonly there: boolean },
  ) {
    this.name = name
    this.there = options.there
    this.address = parseAddress(address)
    this.leaving = options.leaving
    const clock = world.time.view()
    const gate = (what: string, signal: AbortSignal) => world.scheduler.turn(name, what, signal)
    const transport: Transport = {
      async send(request, signal) {
        await gate(`${request.method} ${request.path.split('/').at(-2)}`, signal)
        const response = await world.transport.send(request, signal)
        if (request.method !== 'GET') world.written(name)
        return response
      },
      close: async () => {},
    }
    const etcd = faultyEtcd(world.etcd.client(), {
      clock,
      before: ({ method, key }, signal) =>
        method === 'watch' ? Promise.resolve() : gate(`${method} ${key.replace('/registry/', '')}`, signal),
      after: ({ method }, signal) => (method === 'watch' ? gate('hears', signal) : Promise.resolve()),
    })
    const random = seededRandom(world.seed, name)
    const shared = { clock, random, logger: silentLogger, metrics: prometheusMetrics(), events: noEvents }
    const api = restKubeApi({ transport, ...shared })
    const availability = new Availability(shared)
    this.#monitor = new ReadinessMonitor({
      ...shared,
      gate: 'continuous',
      periodMs: 1_000,
      readiness: {
        probe: async (signal) => {
          await gate('asks its server', signal)
          return { answered: true, ready: this.ready, checks: [{ name: 'ping', ok: this.ready }] }
        },
      },
    })
    const fleet = new FleetView(shared)
    this.#membership = new LeaseMembership({
      ...shared,
      availability,
      monitor: this.#monitor,
      adapter: new EndpointsAdapter({ ...shared, api, writer: new ObjectWriter({ ...shared, api }) }),
      leases: new EtcdLeases({ ...shared, etcd, prefix: '/registry', availability, ttlMs }),
      holder: {
        instanceId: name,
        host: name,
        startedAt: '2026-01-01T00:00:00.000000Z',
        addresses: [address],
        ports: { securePort: 6443, nodePort: 0 },
        state: 'ready',
      },
      address: this.address,
      intervalMs,
      ttlMs,
      fleet,
      announcements: new Announcements({ ...shared, events: noEvents, address, fleet }),
      onLeases: () => this.look(),
    })
  }

  look(): void {
    this.#looks.fire('look')
  }

  start(): void {
    this.#parts.push(this.#membership.watch(this.#process.signal), this.#monitor.run(this.#process.signal))
    const { signal } = this.#loops
    this.#looping = Promise.allSettled([this.#look(signal), this.#membership.keep(signal)])
    this.look()
  }

  /** As the duty of a master ends: {@link KubernetesServiceDuty.stop} with `withdraw`. */
  async shutDown(): Promise<void> {
    this.#loops.abort(new Error('stopping'))
    await this.#looping
    const { reconciler } = this.#membership
    reconciler.stopReconciling()
    while (this.departure === undefined) {
      this.departure = await reconciler.leave(this.address, ports, this.#process.signal).catch(unlessConflict)
    }
    await this.kill()
  }

  async kill(): Promise<void> {
    this.#loops.abort(new Error('killed'))
    this.#process.abort(new Error('killed'))
    await this.#looping
    await Promise.allSettled(this.#parts)
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { reconciler } = this.#membership
    for (;;) {
      await this.#looks.take(signal)
      for (let again = true; again; ) {
        try {
          await reconciler.readMembers(signal)
          await reconciler.reconcileEndpoints(this.address, ports, reconciler.portsAgreed(), signal)
          again = false
          this.settled = true
        } catch (error) {
          again = error instanceof RemoteError && error.nature === 'conflict'
          signal.throwIfAborted()
        }
      }
    }
  }
}

function unlessConflict(error: unknown): undefined {
  if (!(error instanceof RemoteError && error.nature === 'conflict')) throw error
}

interface Member {
  readonly master: ModelMaster
  readonly address: string
  /** What its record says. */
  readonly state: string
}

/** The stores that the masters share, and what must never be seen in them. */
class World {
  readonly seed: number
  readonly slow: boolean
  readonly time = new VirtualClock()
  readonly scheduler: Scheduler
  readonly etcd: MemoryEtcd
  readonly transport: Transport
  readonly masters: ModelMaster[] = []
  readonly violations: string[] = []
  readonly #api: KubeApi
  readonly #client: EtcdKv
  #writers: string[] = []
  #last: Readonly<Record<'endpoints' | 'slice', readonly string[]>> = { endpoints: [], slice: [] }
  foreign: string | undefined
  #checked = 0n

  constructor(seed: number, { flavour, slow }: LeavingCase) {
    this.seed = seed
    this.slow = slow
    this.scheduler = new Scheduler(seededRandom(seed, 'scheduler'), slow)
    const clock = this.time.view()
    const random = seededRandom(seed, 'world')
    this.etcd = new MemoryEtcd({ clock, flavour })
    this.#client = this.etcd.client()
    this.transport = inProcessTransport(createApiServer({ clock, random }))
    this.#api = restKubeApi({ transport: this.transport, clock, random })
  }

  async open(): Promise<void> {
    await this.#api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } })
  }

  async addKubeApiserver(address: string): Promise<void> {
    this.foreign = address
    const { signal } = new AbortController()
    await this.#client.create(`/registry/masterleases/${address}`, encodeMasterLease(address), { signal })
  }

  /** Somebody has written something. */
  written(by: string): void {
    this.#writers.push(by)
  }

  /** Looks at what was written since the last time. */
  async check(): Promise<void> {
    if (this.#checked !== this.etcd.revision) await this.#checkRecords()
    if (this.#writers.length === 0) return
    const by = this.#writers.join(', ')
    this.#writers = []
    const listed = await this.listed()
    const members = await this.#members()
    for (const object of ['endpoints', 'slice'] as const) {
      this.#judge(object, this.#last[object], listed[object], members, by)
    }
    const changed = listed.endpoints.join() !== this.#last.endpoints.join()
    this.#last = listed
    // What their own watches would tell them.
    if (changed) for (const master of this.masters) master.look()
  }

  async listed(): Promise<Readonly<Record<'endpoints' | 'slice', readonly string[]>>> {
    const { subsets } = await this.#api.get(endpoints, KUBERNETES_SERVICE)
    const slice = await this.#api.get(endpointSlices, KUBERNETES_SERVICE).catch(() => undefined)
    return {
      endpoints: (subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip)),
      slice: (slice?.endpoints ?? []).flatMap(({ addresses }) => addresses),
    }
  }

  violated(what: string): void {
    this.violations.push(what)
  }

  /** Who is unready has left on the account of somebody else, who must not have left on its account. */
  async #checkRecords(): Promise<void> {
    this.#checked = this.etcd.revision
    const members = await this.#members()
    for (const master of this.masters) {
      if (master.settled && !members.some((member) => member.master === master)) master.wentAway = true
    }
    const leases = await this.#keys('/registry/masterleases/')
    const records = await this.#keys('/registry/apiserver-bootstrap/')
    for (const { master, address } of members) {
      const robbed =
        master.leaving === undefined && master.settled && !leases.some((key) => key.endsWith(`/${address}`))
      if (robbed) this.violated(`somebody took the lease of ${master.name}`)
    }
    for (const key of leases) {
      const address = key.slice(key.lastIndexOf('/') + 1)
      const held = address === this.foreign || records.some((record) => record.includes(`/${address}/`))
      if (!held) this.violated(`a lease of ${address} that nobody holds: it would count as a kube-apiserver's`)
    }
    const remains = this.foreign !== undefined || members.some(({ state }) => state !== 'unready')
    if (members.length > 0 && !remains) this.violated(`only ${members.map(({ address }) => address)} left, unready`)
  }

  async #keys(prefix: string): Promise<readonly string[]> {
    const { signal } = new AbortController()
    return (await this.#client.list(prefix, { signal })).items.map(({ key }) => key)
  }

  /** Who has not left for good, and what their records say: whose is withdrawn or gone has. */
  async #members(): Promise<readonly Member[]> {
    const { signal } = new AbortController()
    const { items } = await this.#client.list('/registry/apiserver-bootstrap/', { signal })
    const states = new Map<string, string>(
      items.map(({ value }) => JSON.parse(Buffer.from(value).toString())).map(({ host, state }) => [host, state]),
    )
    return this.masters.flatMap((master) => {
      const state = states.get(master.name)
      return state === undefined || state === 'withdrawn' ? [] : [{ master, address: master.address.text, state }]
    })
  }

  #judge(
    object: string,
    before: readonly string[],
    after: readonly string[],
    members: readonly Member[],
    by: string,
  ): void {
    const said = `${object} went from [${before}] to [${after}], written by ${by}`
    if (after.length === 0 && (object === 'endpoints' || before.length > 0)) this.violated(`empty: ${said}`)
    const gone = before.filter((address) => !after.includes(address))
    if (gone.length === 0) return
    const among = (kept: readonly Member[]): boolean =>
      after.some((address) => address === this.foreign || kept.some((member) => member.address === address))
    // Nobody can know of a server that fails before it has said so.
    const serves = members.filter(({ master: { ready, settled, wentAway } }) => ready && settled && !wentAway)
    const seemsTo = members.filter(({ master, state }) => master.ready || state === 'ready')
    if (serves.length > 0 && !among(seemsTo)) this.violated(`nobody serves: ${said}`)
    if (members.length > 0 && !among(members)) this.violated(`nobody lives: ${said}`)
    for (const { master, address } of members) {
      if (master.leaving === undefined && master.there && gone.includes(address)) this.violated(`wrong one: ${said}`)
    }
    if (this.foreign !== undefined && gone.includes(this.foreign)) this.violated(`wrong one: ${said}`)
    const allFail = this.foreign === undefined && this.masters.every(({ ready }) => !ready)
    if (allFail && !this.slow) this.violated(`all fail at once: ${said}`)
  }
}

/** Plays one seed. */
export async function playLeaving(seed: number): Promise<{
  readonly what: LeavingCase
  readonly violations: readonly string[]
  /** Every call in the order in which it was let through. */
  readonly trace: readonly string[]
}> {
  const what = caseOf(seed)
  const world = new World(seed, what)
  await world.open()
  const leavers = what.leavers.map((leaving, index) => {
    const address = what.shared === 'leavers' || index === 0 ? '192.0.2.1' : '192.0.2.2'
    return new ModelMaster(world, 'AB'[index] ?? '', address, { leaving, there: true })
  })
  world.masters.push(...leavers)
  const thirdAddress = what.shared === 'with-third' ? '192.0.2.1' : '192.0.2.3'
  const third = new ModelMaster(world, 'C', thirdAddress, { there: what.third === 'master' })
  if (what.third === 'master') world.masters.push(third)
  if (what.third === 'kube-apiserver') await world.addKubeApiserver('192.0.2.9')
  for (const master of world.masters) master.start()
  await world.time.advance(2_000)
  await world.check()

  // Everything up to the first announcement is the same in every order.
  for (const master of leavers) if (master.leaving === 'unreadiness') master.ready = false
  if (what.leavers.includes('unreadiness')) await world.time.advance(2_900)
  world.scheduler.arm()
  const { signal } = new AbortController()
  const shutdowns = leavers
    .filter(({ leaving }) => leaving === 'shutdown')
    .map(async (master) => {
      await world.scheduler.turn(master.name, 'is told to stop', signal)
      await master.shutDown()
    })
  if (what.third === 'newcomer') {
    world.masters.push(third)
    void world.scheduler.turn('C', 'comes', signal).then(() => third.start())
  }
  await interleave(world, what.leavers.includes('unreadiness') ? 6_000 : 0)
  world.scheduler.disarm()
  await world.time.advance(0)
  await Promise.all(shutdowns)
  await world.time.advance(3_000)
  await world.check()

  const rest = world.masters.filter(({ departure }) => departure !== 'left')
  if (rest.length === 0 && world.foreign === undefined) world.violated('all have left')
  const staying = [...new Set(rest.filter(({ ready }) => ready).map(({ address }) => address.text))]
  if (world.foreign !== undefined) staying.push(world.foreign)
  const { endpoints: last } = await world.listed()
  // Two that stop and keep each other's address may leave one of them out: nobody runs any more who would put it back.
  const settles = rest.some(({ departure }) => departure === undefined)
  const right = settles ? last.join() === staying.sort().join() : last.every((address) => staying.includes(address))
  if (staying.length > 0 && !right) {
    world.violated(`at the end [${last}] is listed, not [${staying}]`)
  }
  await Promise.all(world.masters.map((master) => master.kill()))
  return { what, violations: world.violations, trace: world.scheduler.trace }
}

/** Lets calls through one by one; until `ms` have passed, time goes on when nobody asks, and where calls are slow now and then. */
async function interleave(world: World, ms: number): Promise<void> {
  const stepMs = 250
  const random = seededRandom(world.seed, 'time')
  for (let steps = 0, passedMs = 0; ; steps++) {
    if (steps > maxSteps) throw new Error(`more than ${maxSteps} steps`)
    await world.time.advance(0)
    await world.check()
    const waits = world.slow && passedMs < ms && randomInteger(random, 8) === 0
    if (!waits && world.scheduler.step()) continue
    if (passedMs >= ms && world.scheduler.holdNobodyUp()) continue
    if (passedMs >= ms) return
    passedMs += stepMs
    await world.time.advance(stepMs)
  }
}

function caseOf(seed: number): LeavingCase {
  const random = seededRandom(seed, 'case')
  const pick = <T>(...choices: readonly T[]): T => choices[randomInteger(random, choices.length)] as T
  const leavers = [pick<Leaving>('shutdown', 'unreadiness'), pick<Leaving>('shutdown', 'unreadiness')]
  const third = pick<LeavingCase['third']>('none', 'none', 'master', 'newcomer', 'kube-apiserver')
  const withThird = third === 'master' || third === 'newcomer' ? 'with-third' : 'none'
  const shared = pick<LeavingCase['shared']>('none', 'none', 'leavers', withThird)
  return { leavers, third, shared, flavour: pick('etcd', 'kine'), slow: pick(true, false) }
}
