import { createMaster, type Master } from '../../bootstrap/master.ts'
import type { MasterOptions } from '../../bootstrap/master-options.ts'
import type { Readiness } from '../../kube/readiness.ts'
import { restKubeApi } from '../../kube/rest-api.ts'
import type { Transport } from '../../kube/transport.ts'
import { EtcdLeases } from '../../kubernetes-service/leases/etcd.ts'
import { parseAddress } from '../../net/address.ts'
import { parseCidr } from '../../net/cidr.ts'
import { parsePortRange } from '../../net/port-range.ts'
import { EtcdRangeRegistry } from '../../repair/registries/etcd.ts'
import { seededRandom } from '../../runtime/random.ts'
import type { VirtualClock } from '../../runtime/virtual-clock.ts'
import { memoryLogger } from '../../telemetry/memory-logger.ts'
import { prometheusMetrics } from '../../telemetry/prometheus-metrics.ts'
import type { MemberState } from '../../verify/member-state.ts'
import type { EtcdRoute } from './etcd-link.ts'
import { SimulatedServer, simulatedLink, simulatedReadiness } from './link.ts'
import { type ProcessClock, processClock } from './process-clock.ts'

/** One machine with an API server and a sidecar beside it. */
export interface Host {
  readonly name: string
  /** The first is the one in Endpoints. Machines behind one virtual address have the same. */
  readonly addresses: readonly string[]
  /** How far its wall clock is ahead, in milliseconds. */
  readonly skewMs?: number | undefined
  readonly driftPpm?: number | undefined
  readonly options?: Partial<MasterOptions> | undefined
}

/** What a host is connected to. */
export interface Surroundings {
  readonly time: VirtualClock
  readonly seed: number
  /** Whether what is sent is sometimes late. */
  readonly spikes: boolean
  readonly transport: (by: string) => Transport
  readonly etcdRoute: () => EtcdRoute | undefined
}

/** One life of a master's sidecar. */
export interface Life {
  readonly master: Master
  readonly clock: ProcessClock
  readonly stop: AbortController
  readonly logger: ReturnType<typeof memoryLogger>
  /** Its server has told it that it is ready. */
  wasReady: boolean
  ended: boolean
  failure: unknown
}

/** One master: its own API server, and the sidecar that runs beside it. */
export class SimulatedMaster implements MemberState {
  readonly kind = 'apiserver-bootstrap'
  readonly server = new SimulatedServer()
  /** Undefined in a fleet without etcd. */
  readonly etcd: EtcdRoute | undefined
  readonly name: string
  /** Of the present life, and of those to come. */
  options: MasterOptions
  readonly lives: Life[] = []
  life: Life | undefined
  /** Of its machine, from the next life on. */
  skewMs: number
  readonly #surroundings: Surroundings
  readonly #driftPpm: number | undefined

  constructor(surroundings: Surroundings, host: Host) {
    const { name, addresses, skewMs = 0, driftPpm, options } = host
    this.#surroundings = surroundings
    this.#driftPpm = driftPpm
    this.etcd = surroundings.etcdRoute()
    this.name = name
    this.skewMs = skewMs
    this.options = { ...defaults, ...options, host: name, advertiseAddresses: addresses.map(parseAddress) }
  }

  /** Begins another life, which may have other settings than the master has otherwise. */
  start(settings: Partial<MasterOptions> = {}): void {
    const { time, seed, spikes, transport } = this.#surroundings
    const clock = processClock(time, { skewMs: this.skewMs, driftPpm: this.#driftPpm })
    const random = seededRandom(seed, `${this.name} life ${this.lives.length + 1}`)
    const logger = memoryLogger()
    const metrics = prometheusMetrics()
    const link = simulatedLink(transport(this.name), { server: this.server, clock, random, spikes })
    const api = restKubeApi({ transport: link, clock, random, logger, metrics })
    const server = simulatedReadiness(this.server, clock)
    const readiness: Readiness = {
      async probe(signal) {
        const answer = await server.probe(signal)
        if (answer.answered && answer.ready) life.wasReady = true
        return answer
      },
    }
    const etcd = this.etcd?.connect({ clock, random, spikes })
    const master = createMaster(
      { ...this.options, ...settings },
      {
        api,
        readiness,
        clock,
        random,
        logger,
        metrics,
        etcd: etcd && { kv: etcd, Leases: EtcdLeases, Ranges: EtcdRangeRegistry },
      },
    )
    const stop = new AbortController()
    const life: Life = { master, clock, stop, logger, wasReady: false, ended: false, failure: undefined }
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

  /** Its next lives have these settings. */
  configure(settings: Partial<MasterOptions>): void {
    this.options = { ...this.options, ...settings }
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

  /** The machine's wall clock is set, while what runs on it goes on. */
  setWallClock(skewMs: number): void {
    this.skewMs = skewMs
    this.life?.clock.setSkew(skewMs)
  }

  /** The one in Endpoints. */
  get address(): string {
    return this.options.advertiseAddresses[0]?.text ?? ''
  }

  get leaseTtlMs(): number {
    return this.options.leaseTtlMs
  }

  get reconcileIntervalMs(): number {
    return this.options.reconcileIntervalMs
  }

  get withdrawsOnStop(): boolean {
    return this.options.onShutdown !== 'keep'
  }

  get leavesWhenUnready(): boolean {
    return this.options.readinessGate === 'continuous'
  }

  get frozen(): boolean {
    return this.life?.clock.frozen === true
  }

  get answering(): boolean {
    return this.server.answering
  }

  get ready(): boolean {
    return this.server.ready
  }

  get storeFull(): boolean {
    return this.etcd?.full === true
  }

  get lifeCount(): number {
    return this.lives.length
  }

  get hasBeenReady(): boolean | undefined {
    return this.life?.wasReady
  }

  get connectionResets(): number {
    return this.server.resets
  }

  get failure(): unknown {
    return this.life?.failure
  }

  /** Runs, and nobody has told it to stop. */
  get running(): boolean {
    return this.life !== undefined && !this.life.ended && !this.life.stop.signal.aborted && !this.life.clock.frozen
  }

  /** Was told to stop, whether or not it has ended by now. */
  get stopping(): boolean {
    return this.life?.stop.signal.aborted === true
  }

  /** Reads and writes whatever it needs. */
  get connected(): boolean {
    const { serving, cut, storeless } = this.server
    return serving && !cut && !storeless && (this.etcd?.open ?? true)
  }

  /** Runs, is connected, and its server is ready: what clients may count on. */
  get well(): boolean {
    return this.running && this.connected && this.serves
  }

  /** Whether its API server serves clients; once it was ready, a failing `etcd` check alone says nothing against it. */
  get serves(): boolean {
    const { answering, ready, etcdCheck, storeless } = this.server
    return answering && ready && ((etcdCheck && !storeless) || this.life?.wasReady === true)
  }

  get clientsMeet(): MemberState['clientsMeet'] {
    const { serving, unreachable } = this.server
    return !serving ? 'refused' : unreachable ? 'black-holed' : 'served'
  }

  /** Whether it may still renew its lease. */
  get renewing(): boolean {
    const { life, server, etcd } = this
    if (life === undefined || life.ended || life.clock.frozen || !server.answering) return false
    return etcd?.open ?? !server.storeless
  }
}

const defaults: Omit<MasterOptions, 'host' | 'advertiseAddresses'> = {
  securePort: 6443,
  serviceClusterIpRanges: [parseCidr('10.96.0.0/12')],
  kubernetesServiceNodePort: 0,
  serviceNodePortRange: parsePortRange('30000-32767'),
  rangeRegistry: 'none',
  repairIntervalMs: 180_000,
  startupTimeoutMs: 60_000,
  repairDegraded: false,
  adoptRange: false,
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
  // The repairs have a simulation of their own.
  controllers: { auto: true, on: [], off: ['cluster-ip-repair', 'node-port-repair'] },
  workloads: {
    endpoints: { workers: 5, batchPeriodMs: 0 },
    endpointSlice: { workers: 5, batchPeriodMs: 0, maxEndpointsPerSlice: 100 },
    mirroring: { workers: 5, batchPeriodMs: 0, maxEndpointsPerSubset: 1000 },
    leaderElection: undefined,
  },
  dryRun: false,
}
