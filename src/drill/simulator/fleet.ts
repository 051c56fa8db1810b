import { type ApiServer, createApiServer, inProcessTransport } from '../../apiserver/api-server.ts'
import { createMaster } from '../../bootstrap/master.ts'
import type { MasterOptions } from '../../bootstrap/master-options.ts'
import type { KubeApi } from '../../kube/api.ts'
import { restKubeApi } from '../../kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../kube/transport.ts'
import { MemoryLeaseRegistry } from '../../kubernetes-service/leases/memory.ts'
import { type Random, randomInteger, seededRandom } from '../../runtime/random.ts'
import { VirtualClock } from '../../runtime/virtual-clock.ts'
import type { Listing } from '../../verify/observation.ts'
import { Datastore } from '../datastore.ts'
import {
  type Found,
  followEtcdLeases,
  followKubernetesLeases,
  followListings,
  followMemoryLeases,
  followObjects,
} from '../listings.ts'
import type { TargetObserver } from '../target.ts'
import { SimulatedEtcd } from './etcd-link.ts'
import { type Host, SimulatedMaster, type Surroundings } from './master.ts'

export interface FleetOptions {
  readonly seed: number
  /** The number of masters, each with its own address; or the hosts of the masters. */
  readonly masters: number | readonly Host[]
  readonly master?: Partial<MasterOptions>
  /** Stores the leases in an etcd or a kine. Without `etcd` and `memory` the leases are Lease objects. */
  readonly etcd?: 'etcd' | 'kine' | undefined
  /** Whether the leases are in memory that all sidecars share. @default false */
  readonly memory?: boolean
  /** Whether messages are sometimes late. @default false */
  readonly spikes?: boolean
  /** Composes each sidecar. @default createMaster */
  readonly createMaster?: typeof createMaster | undefined
  /** How all clients reach the one API server of the fleet. @default inProcessTransport */
  readonly transport?: typeof inProcessTransport | undefined
  /**
   * Whether to record all listings and requests, for tests. Otherwise no listings and only recent requests are
   * recorded. @default true
   */
  readonly recordsAll?: boolean
}

/** Without `recordsAll`, at least this many of the latest requests stay recorded. */
const FEW_REQUESTS = 200

/**
 * Masters that share one in-process API server, in simulated time. The masters run the shipped code over in-process
 * transports.
 */
export class Fleet {
  readonly time = new VirtualClock()
  readonly seed: number
  readonly random: Random
  readonly apiServer: ApiServer
  readonly etcd: SimulatedEtcd | undefined
  readonly masters: SimulatedMaster[] = []
  readonly surroundings: Surroundings
  /** The client of the test or the drill. Its requests take no time. */
  readonly api: KubeApi
  readonly listings: Listing[] = []
  readonly requests: { readonly atMs: number; readonly by: string; readonly request: ApiRequest }[] = []
  readonly #options: FleetOptions
  readonly #watching = new AbortController()
  #damagedAtMs = -1
  #observer: Omit<TargetObserver, 'connected'> | undefined

  constructor(options: FleetOptions) {
    const { seed, masters, etcd, memory = false, spikes = false } = options
    this.#options = options
    this.seed = seed
    this.random = seededRandom(seed, 'fleet')
    const clock = this.time.view()
    this.apiServer = createApiServer({ clock, random: seededRandom(seed, 'store') })
    this.etcd = etcd === undefined ? undefined : new SimulatedEtcd(this.time, etcd, seededRandom(seed, 'etcd'))
    this.surroundings = {
      time: this.time,
      seed,
      spikes,
      transport: (by) => this.counting(by),
      etcdRoute: () => this.etcd?.route(),
      datastore: new Datastore({ clock: this.time.view(), random: seededRandom(seed, 'datastore') }),
      leases: memory ? new MemoryLeaseRegistry(this.time.view()) : undefined,
      createMaster: options.createMaster ?? createMaster,
    }
    for (const host of typeof masters === 'number' ? this.#numbered(masters) : masters) this.add(host)
    const transport = this.#reach()
    this.api = restKubeApi({ transport, clock, random: seededRandom(seed, 'test'), fieldManager: 'test' })
    for (const object of ['endpoints', 'slice'] as const) void this.#follow(object)
  }

  /** Adds a master. Its server runs at once, but its sidecar does not run yet. */
  add(host: Host): SimulatedMaster {
    const leaseStore = this.etcd === undefined ? {} : { leaseStore: 'etcd' as const }
    const options = { ...leaseStore, ...this.#options.master, ...host.options }
    const master = new SimulatedMaster(this.surroundings, { ...host, options })
    this.masters.push(master)
    return master
  }

  /** A transport to the shared API server. The fleet records every request as a request of the master `by`. */
  counting(by: string): Transport {
    const inner = this.#reach()
    return {
      send: (request, signal) => {
        const observed = { atMs: this.time.nowMs, by, request }
        this.requests.push(observed)
        if (this.#options.recordsAll === false && this.requests.length > 2 * FEW_REQUESTS) {
          this.requests.splice(0, FEW_REQUESTS)
        }
        this.#observer?.requested(observed)
        return inner.send(request, signal)
      },
      close: () => inner.close(),
    }
  }

  observe(observer: Omit<TargetObserver, 'connected'>): void {
    this.#observer = observer
    const report = (addresses: readonly string[]): void => observer.leases(addresses)
    const { signal } = this.#watching
    const { leases } = this.surroundings
    const find = (found: Found): void => {
      const atMs = this.time.nowMs
      observer.objects({ ...found, atMs, byDamage: this.#damagedAtMs === atMs })
    }
    void followObjects(this.api, find, signal)
    if (this.etcd !== undefined) void followEtcdLeases(this.etcd.store.client(), '/registry', report, signal)
    else if (leases === undefined) void followKubernetesLeases(this.api, report, signal)
    else followMemoryLeases(leases, report, signal)
  }

  advance(ms: number): Promise<void> {
    return this.time.advance(ms)
  }

  /** The addresses in the latest version of the object; undefined if there is no such object. Needs `recordsAll`. */
  listed(object: Listing['object']): readonly string[] | undefined {
    return this.listings.findLast((listing) => listing.object === object)?.addresses
  }

  /** Runs `work`. All changes of objects at this moment count as damage by another writer. */
  async damage(work: () => Promise<unknown>): Promise<void> {
    this.#damagedAtMs = this.time.nowMs
    await work()
  }

  /** Kills every sidecar and ends the watches of the fleet itself at once. No simulated time needs to pass. */
  abandon(): void {
    for (const master of this.masters) master.kill()
    this.#watching.abort()
  }

  /**
   * Terminates every sidecar, lets 40 s of simulated time pass for the withdrawals, and ends the watches of the fleet
   * itself.
   */
  async close(): Promise<void> {
    for (const master of this.masters) master.terminate()
    await this.advance(40_000)
    this.#watching.abort()
    await this.advance(0)
  }

  #reach(): Transport {
    return (this.#options.transport ?? inProcessTransport)(this.apiServer)
  }

  #numbered(count: number): readonly Host[] {
    return Array.from({ length: count }, (_, index) => ({
      name: `master-${index + 1}`,
      addresses: [`192.0.2.${index + 1}`],
      skewMs: randomInteger(this.random, 20_000) - 10_000,
    }))
  }

  async #follow(object: Listing['object']): Promise<void> {
    const report = (addresses: readonly string[] | undefined): void => {
      const atMs = this.time.nowMs
      const byDamage = this.#damagedAtMs === atMs
      // A listing is reported at the moment of its write, so the latest write of such an object at this moment made the
      // listing.
      const written = this.requests.findLast(
        ({ atMs: at, request: { method, path } }) =>
          at !== atMs || (method !== 'GET' && path.split(/[/?]/).includes(plural)),
      )
      const by = byDamage || written?.atMs !== atMs ? undefined : written.by
      const listing = { atMs, object, addresses, byDamage, by }
      if (this.#options.recordsAll !== false) this.listings.push(listing)
      this.#observer?.listed(listing)
    }
    const plural = object === 'slice' ? 'endpointslices' : 'endpoints'
    await followListings(this.api, object, report, this.#watching.signal)
  }
}
