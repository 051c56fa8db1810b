import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { faultyTransport } from '../../../src/apiserver/faults.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import type { AuditUser } from '../../../src/kube/audit.ts'
import { Availability } from '../../../src/kube/availability.ts'
import type { EventToRecord } from '../../../src/kube/event-object.ts'
import { Informer } from '../../../src/kube/informer.ts'
import { namespaces, type Service, services } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { Bitmap } from '../../../src/net/bitmap.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { nodePortClaims, type RangeClaims } from '../../../src/repair/bitmap/claims.ts'
import { RangeRepair } from '../../../src/repair/bitmap/repair.ts'
import { MemoryRangeRegistry } from '../../../src/repair/registries/memory.ts'
import type { RangeChange, RangeRegistry, StoredRange } from '../../../src/repair/registries/range-registry.ts'
import type { WritePermit } from '../../../src/repair/repair.ts'
import { RepairReporter } from '../../../src/repair/reporter.ts'
import { trimService } from '../../../src/repair/service-claims.ts'
import type { Clock } from '../../../src/runtime/clock.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'

export const portsText = '30000-30099'
export const thirtySeconds = 30_000

/** One API server and one registry, in simulated time, with any number of masters that repair. */
export class RangeWorld {
  readonly time = new VirtualClock()
  readonly registry = new MemoryRangeRegistry()
  readonly #clock = this.time.view()
  readonly #server = createApiServer({
    clock: this.#clock,
    random: seededRandom(1, 'server'),
    serviceAllocators: 'none',
    serviceIpFamilies: ['IPv4', 'IPv6'],
  })
  readonly api = this.#apiOf(inProcessTransport(this.#server))
  #names = 0

  static async start(): Promise<RangeWorld> {
    const world = new RangeWorld()
    await world.api.create(namespaces, { metadata: { name: 'default' } })
    return world
  }

  /** Creates a NodePort Service and nothing else: nobody allocates its ports. */
  async service(...ports: readonly number[]): Promise<Service> {
    const name = `s${++this.#names}`
    return this.api.create(services, {
      metadata: { namespace: 'default', name },
      spec: {
        type: 'NodePort',
        clusterIP: `10.96.${this.#names >> 8}.${this.#names & 255}`,
        ports: ports.map((nodePort, index) => ({ name: `p${index}`, port: 80 + index, protocol: 'TCP', nodePort })),
      },
    })
  }

  async delete(service: Service): Promise<void> {
    await this.api.delete(services, { namespace: 'default', name: service.metadata?.name ?? '' })
  }

  /** The allocated ports; undefined if nothing is stored. */
  async taken(first = 30_000): Promise<readonly number[] | undefined> {
    const stored = await this.registry.read('servicenodeports', new AbortController().signal)
    if (stored.type !== 'range') return undefined
    return [...(Bitmap.fromBytes(65_536, stored.data) as Bitmap)].map((offset) => first + offset)
  }

  /** Stores these ports as allocated, as any client might. */
  store(ports: readonly number[], text = portsText): void {
    const { first, size } = parsePortRange(text)
    const bitmap = new Bitmap(size)
    for (const port of ports) bitmap.add(port - first)
    this.registry.put('servicenodeports', { range: text, data: bitmap.toBytes() })
  }

  /** A master that repairs, not yet running. */
  master(name: string, options: MasterOptions = {}): RangeMaster {
    const transport = faultyTransport(inProcessTransport(this.#server), {
      clock: this.#clock,
      random: seededRandom(1, `${name} line`),
    })
    const asked: string[] = []
    const counted: typeof transport = {
      ...transport,
      send(request, signal) {
        // The informer reads the server's cache. Code that decides reads what is stored.
        const cached = request.query.some(([name]) => name === 'resourceVersion' || name === 'sendInitialEvents')
        if (request.stream !== true && !cached) asked.push(`${request.method} ${request.path}`)
        return transport.send(request, signal)
      },
    }
    return new RangeMaster(this, name, { api: this.#apiOf(counted), asked, faults: transport.faults }, options)
  }

  #apiOf(transport: Parameters<typeof restKubeApi>[0]['transport']): KubeApi {
    return restKubeApi({ transport, clock: this.#clock, random: seededRandom(1, 'client') })
  }
}

export interface MasterOptions {
  readonly claims?: RangeClaims
  readonly registry?: RangeRegistry
  readonly adoptRange?: boolean
  readonly isBesideIpAddresses?: () => boolean
  readonly user?: AuditUser
  readonly permit?: Partial<WritePermit>
  readonly intervalMs?: number
  /** Wraps its clock. @default its clock alone */
  readonly timed?: (clock: Clock) => Clock
}

interface Line {
  readonly api: KubeApi
  readonly asked: string[]
  readonly faults: ReturnType<typeof faultyTransport>['faults']
}

export class RangeMaster {
  readonly repair: RangeRepair
  readonly events: EventToRecord[] = []
  readonly logger = memoryLogger()
  readonly registry: TriedRegistry
  readonly faults: Line['faults']
  readonly #asked: string[]
  readonly #metrics = prometheusMetrics()
  readonly #informer: Informer<Service>
  readonly #stop = new AbortController()
  #running: Promise<unknown> | undefined
  settled = false

  constructor(world: RangeWorld, name: string, { api, asked, faults }: Line, options: MasterOptions) {
    const { logger } = this
    this.#asked = asked
    this.faults = faults
    const clock = options.timed?.(world.time.view()) ?? world.time.view()
    const random = seededRandom(1, name)
    const metrics = this.#metrics
    const claims = options.claims ?? nodePortClaims(parsePortRange(portsText))
    this.registry = new TriedRegistry(options.registry ?? world.registry, asked)
    const events = { record: (event: EventToRecord) => void this.events.push(event) }
    const availability = new Availability({ clock, logger })
    this.#informer = new Informer({
      ...{ api, clock, random, logger, availability },
      resource: services,
      transform: trimService,
    })
    this.repair = new RangeRepair({
      ...{ api, clock, random, logger, availability, claims, registry: this.registry },
      reporter: new RepairReporter({ kind: claims.kind, events, logger, metrics, clock, user: options.user }),
      permit: { mode: 'repair', granted: async () => true, ...options.permit },
      services: this.#informer,
      intervalMs: options.intervalMs ?? thirtySeconds,
      adoptRange: options.adoptRange,
      isBesideIpAddresses: options.isBesideIpAddresses,
    })
    void this.repair.settled.then(() => {
      this.settled = true
    })
  }

  run(): this {
    const { signal } = this.#stop
    this.#running = Promise.all([this.#informer.run(signal), this.repair.run(signal)])
    return this
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  /**
   * The requests to the API server and to the registry since the last call, in order. Watches and the informer's lists
   * are left out.
   */
  requests(): readonly string[] {
    this.registry.calls.length = 0
    return this.#asked.splice(0)
  }

  /** The values of a metric that are not zero, by their labels, such as `type="leak"`. */
  async metric(name: string): Promise<Readonly<Record<string, number>>> {
    const lines = (await this.#metrics.expose()).split('\n')
    const found = lines.flatMap((line) => {
      const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line)
      return match?.[1] === name && match[3] !== '0' ? [[match[2] ?? '', Number(match[3])] as const] : []
    })
    return Object.fromEntries(found)
  }
}

/** A registry whose connection tests can cut, and whose calls they can see. */
export class TriedRegistry implements RangeRegistry {
  readonly calls: string[] = []
  readonly #inner: RangeRegistry
  readonly #record: string[]
  /** The error with which the next calls reject. A write may have happened nevertheless. */
  failure: Error | undefined
  /** Whether a write that rejects happens nevertheless. */
  writesHappen = false
  /** Called after each successful read, before its answer arrives. */
  afterRead: () => void | Promise<void> = () => {}
  /** Called before each write reaches the registry. */
  beforeWrite: () => void | Promise<void> = () => {}
  /** Called after each successful write, before its answer arrives. */
  afterWrite: () => void | Promise<void> = () => {}
  #onChange: ((change: RangeChange | undefined) => void) | undefined
  #held: RangeChange[] | undefined

  /** Adds its calls to `record` too. */
  constructor(inner: RangeRegistry, record: string[] = []) {
    this.#inner = inner
    this.#record = record
  }

  get writable(): boolean {
    return this.#inner.writable
  }

  where(name: Parameters<RangeRegistry['where']>[0]): string {
    return this.#inner.where(name)
  }

  async read(...[name, signal]: Parameters<RangeRegistry['read']>): Promise<StoredRange> {
    this.#note(`read ${name}`)
    if (this.failure !== undefined) throw this.failure
    const stored = await this.#inner.read(name, signal)
    await this.afterRead()
    return stored
  }

  async write(...[name, ...rest]: Parameters<RangeRegistry['write']>): Promise<StoredRange | undefined> {
    this.#note(`write ${name}`)
    await this.beforeWrite()
    if (this.failure !== undefined && !this.writesHappen) throw this.failure
    const written = await this.#inner.write(name, ...rest)
    if (written !== undefined) await this.afterWrite()
    if (this.failure !== undefined) throw this.failure
    return written
  }

  #note(call: string): void {
    this.calls.push(call)
    this.#record.push(call)
  }

  watch(options: Parameters<RangeRegistry['watch']>[0]): Promise<void> {
    this.#onChange = options.onChange
    const onChange = (change: RangeChange | undefined): void => {
      if (change !== undefined && this.#held !== undefined) this.#held.push(change)
      else options.onChange(change)
    }
    return this.#inner.watch({ ...options, onChange })
  }

  /** From now on the watch reports no change. */
  hold(): void {
    this.#held = []
  }

  /** The watch reports what it held back, and continues. */
  release(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const change of held) this.#onChange?.(change)
  }

  /** The watch broke and is established again. Nobody knows what happened in between. */
  gap(): void {
    this.#onChange?.(undefined)
  }
}
