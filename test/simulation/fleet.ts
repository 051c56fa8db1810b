import { type ApiServer, createApiServer } from '../../src/apiserver/api-server.ts'
import { inProcessTransport } from '../../src/apiserver/in-process.ts'
import { createMaster, type Master, type MasterOptions } from '../../src/bootstrap/master.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import type { KubeObject } from '../../src/kube/json.ts'
import { endpointSlices, endpoints, type Resource } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../src/kube/transport.ts'
import { parseAddress } from '../../src/net/address.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { type Random, seededRandom } from '../../src/runtime/random.ts'
import { type ClockView, VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/memory-logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { SimulatedServer, simulatedLink, simulatedReadiness } from './link.ts'

export interface FleetOptions {
  readonly seed: number
  readonly masters: number
  readonly master?: Partial<MasterOptions>
}

/** One life of a master's sidecar. */
interface Life {
  readonly master: Master
  readonly clock: ClockView & { readonly timers: number }
  readonly stop: AbortController
  readonly logger: ReturnType<typeof memoryLogger>
  ended: boolean
  failure: unknown
}

/** One master: its own API server, and the sidecar that runs beside it. */
export class SimulatedMaster {
  readonly server = new SimulatedServer()
  life: Life | undefined
  readonly address: string
  readonly name: string
  readonly lives: Life[] = []
  readonly #fleet: Fleet

  constructor(fleet: Fleet, number: number) {
    this.#fleet = fleet
    this.name = `master-${number}`
    this.address = `192.0.2.${number}`
  }

  start(): void {
    const { fleet, name } = { fleet: this.#fleet, name: this.name }
    const clock = countingTimers(fleet.time.view({ skewMs: Math.floor(fleet.random.next() * 20_000) - 10_000 }))
    const random = seededRandom(fleet.seed, `${name} life ${this.lives.length + 1}`)
    const logger = memoryLogger()
    const metrics = prometheusMetrics()
    const transport = simulatedLink(fleet.counting(name), this.server, clock, random)
    const api = restKubeApi({ transport, clock, random, logger, metrics })
    const readiness = simulatedReadiness(this.server, clock)
    const options: MasterOptions = {
      ...defaults,
      ...fleet.options.master,
      host: name,
      advertiseAddresses: [parseAddress(this.address)],
    }
    const master = createMaster(options, { api, readiness, clock, random, logger, metrics })
    const life: Life = { master, clock, stop: new AbortController(), logger, ended: false, failure: undefined }
    this.life = life
    this.lives.push(life)
    master.run(life.stop.signal).then(
      () => {
        life.ended = true
      },
      (error: unknown) => {
        life.ended = true
        life.failure = error
      },
    )
  }

  /** SIGKILL of the sidecar: whatever it had under way is never heard of again. */
  kill(): void {
    this.life?.clock.freeze()
    this.life = undefined
  }

  /** SIGTERM of the sidecar. */
  terminate(): void {
    this.life?.stop.abort(new Error('SIGTERM'))
  }

  freeze(): void {
    this.life?.clock.freeze()
  }

  thaw(): void {
    this.life?.clock.thaw()
  }

  /** Lives, is not frozen, reaches the API, and its server is ready: what clients may count on. */
  get well(): boolean {
    const { life, server } = this
    return (
      life !== undefined &&
      !life.ended &&
      !life.stop.signal.aborted &&
      !life.clock.frozen &&
      server.serving &&
      !server.cut &&
      server.ready
    )
  }
}

/** What `default/kubernetes` listed from a moment on. */
export interface Listing {
  readonly atMs: number
  readonly object: 'endpoints' | 'slice'
  /** Undefined when the object was gone. */
  readonly addresses: readonly string[] | undefined
  readonly byDamage: boolean
}

const defaults: Omit<MasterOptions, 'host' | 'advertiseAddresses'> = {
  securePort: 6443,
  serviceClusterIpRanges: [parseCidr('10.96.0.0/12')],
  kubernetesServiceNodePort: 0,
  endpointReconcilerType: 'lease',
  apiserverCount: 1,
  leaseStore: 'kubernetes',
  etcdPrefix: '/registry',
  leaseTtlMs: 15_000,
  reconcileIntervalMs: 10_000,
  readinessGate: 'continuous',
  readinessProbePeriodMs: 1_000,
  onShutdown: 'withdraw',
  shutdownDelayMs: 0,
  controllers: { auto: true, on: [], off: [] },
  dryRun: false,
}

/** Masters around one store, in simulated time: the code that ships, on the in-process API. */
export class Fleet {
  readonly time = new VirtualClock()
  readonly options: FleetOptions
  readonly seed: number
  readonly random: Random
  readonly store: ApiServer
  readonly masters: readonly SimulatedMaster[]
  /** For the test itself; takes no time. */
  readonly api: KubeApi
  readonly listings: Listing[] = []
  readonly requests: { readonly atMs: number; readonly by: string; readonly request: ApiRequest }[] = []
  readonly #watching = new AbortController()
  #damagedAtMs = -1

  constructor(options: FleetOptions) {
    this.options = options
    this.seed = options.seed
    this.random = seededRandom(options.seed, 'fleet')
    const clock = this.time.view()
    this.store = createApiServer({ clock, random: seededRandom(options.seed, 'store') })
    this.masters = Array.from({ length: options.masters }, (_, index) => new SimulatedMaster(this, index + 1))
    const transport = inProcessTransport(this.store)
    const random = seededRandom(options.seed, 'test')
    this.api = restKubeApi({ transport, clock, random, fieldManager: 'test' })
    void this.#follow('endpoints')
    void this.#follow('slice')
  }

  /** The shared store, as one master reaches it, with every request noted. */
  counting(by: string): Transport {
    const inner = inProcessTransport(this.store)
    return {
      send: (request, signal) => {
        this.requests.push({ atMs: this.time.nowMs, by, request })
        return inner.send(request, signal)
      },
      close: () => inner.close(),
    }
  }

  advance(ms: number): Promise<void> {
    return this.time.advance(ms)
  }

  /** The addresses that were last listed; undefined when the object is gone. */
  listed(object: Listing['object']): readonly string[] | undefined {
    return this.listings.findLast((listing) => listing.object === object)?.addresses
  }

  /** Runs `work` as somebody else who changes what the masters keep. */
  async damage(work: () => Promise<unknown>): Promise<void> {
    this.#damagedAtMs = this.time.nowMs
    await work()
  }

  /** Ends every watch and process of the simulation. */
  async close(): Promise<void> {
    for (const master of this.masters) master.terminate()
    await this.advance(40_000)
    this.#watching.abort()
    await this.advance(0)
  }

  async #follow(object: Listing['object']): Promise<void> {
    const resource = (object === 'endpoints' ? endpoints : endpointSlices) as Resource<KubeObject>
    const query = { namespace: 'default', fieldSelector: 'metadata.name=kubernetes', signal: this.#watching.signal }
    for await (const event of this.api.watch(resource, {
      ...query,
      sendInitialEvents: true,
      allowWatchBookmarks: true,
    })) {
      if (event.type === 'BOOKMARK' || event.type === 'ERROR') continue
      const addresses = event.type === 'DELETED' ? undefined : addressesOf(event.object)
      this.listings.push({ atMs: this.time.nowMs, object, addresses, byDamage: this.#damagedAtMs === this.time.nowMs })
    }
  }
}

/** The same clock, which knows how many timers are set. */
function countingTimers(clock: ClockView): Life['clock'] {
  const timers = new Set<object>()
  return {
    wallMs: () => clock.wallMs(),
    monotonicMs: () => clock.monotonicMs(),
    freeze: () => clock.freeze(),
    thaw: () => clock.thaw(),
    setSkew: (ms) => clock.setSkew(ms),
    get frozen() {
      return clock.frozen
    },
    get timers() {
      return timers.size
    },
    schedule(delayMs, callback) {
      const timer = {}
      timers.add(timer)
      const cancel = clock.schedule(delayMs, () => {
        timers.delete(timer)
        callback()
      })
      return () => {
        timers.delete(timer)
        cancel()
      }
    },
  }
}

function addressesOf(object: unknown): readonly string[] {
  // A Go server says null for a list that has nothing in it.
  const { subsets, endpoints: sliced } = object as {
    subsets?: { addresses?: { ip: string }[] }[] | null
    endpoints?: { addresses: string[] }[] | null
  }
  const listed = (subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
  return [...listed, ...(sliced ?? []).flatMap((endpoint) => endpoint.addresses)].sort()
}
