import type { createMaster, Master } from '../../bootstrap/master.ts'
import type { MasterOptions } from '../../bootstrap/master-options.ts'
import type { Readiness } from '../../kube/readiness.ts'
import { restKubeApi } from '../../kube/rest-api.ts'
import type { Transport } from '../../kube/transport.ts'
import { EtcdLeases } from '../../kubernetes-service/leases/etcd/leases.ts'
import { type MemoryLeaseRegistry, MemoryLeases } from '../../kubernetes-service/leases/memory.ts'
import { membershipTimings } from '../../kubernetes-service/membership/timings.ts'
import { parseAddress } from '../../net/address.ts'
import { parseCidr } from '../../net/cidr.ts'
import { parsePortRange } from '../../net/host-port.ts'
import { EtcdRangeRegistry } from '../../repair/registries/etcd.ts'
import { seededRandom } from '../../runtime/random.ts'
import type { VirtualClock } from '../../runtime/virtual-clock.ts'
import { memoryLogger } from '../../telemetry/logger.ts'
import type { Metrics } from '../../telemetry/metrics.ts'
import type { MemberState } from '../../verify/member-state.ts'
import type { Datastore } from '../datastore.ts'
import { answersUnready, impairmentOf, silencesProbe, smallDelayMs } from '../request-faults.ts'
import type { EtcdRoute } from './etcd-link.ts'
import { simulatedLink, simulatedReadiness } from './link.ts'
import { SimulatedMember } from './member.ts'
import { type ProcessClock, processClock, processLeases } from './process.ts'

/** One machine with an API server and a sidecar beside it. */
export interface Host {
  readonly name: string
  /** Endpoints list the first address. Machines behind one virtual address have the same first address. */
  readonly addresses: readonly string[]
  /** How far the wall clock of the machine is ahead, in milliseconds. */
  readonly skewMs?: number | undefined
  readonly driftPpm?: number | undefined
  readonly options?: Partial<MasterOptions> | undefined
}

export interface Surroundings {
  readonly time: VirtualClock
  readonly seed: number
  /** Whether messages are sometimes late. */
  readonly spikes: boolean
  readonly transport: (by: string) => Transport
  readonly etcdRoute: () => EtcdRoute | undefined
  readonly datastore: Datastore
  /** The leases in memory; undefined if they are in an etcd or are Lease objects. */
  readonly leases: MemoryLeaseRegistry | undefined
  /** Composes a sidecar at each of its starts. */
  readonly createMaster: typeof createMaster
}

/** One process of a sidecar, from its start to its end. */
interface Life {
  readonly master: Master
  readonly options: MasterOptions
  readonly clock: ProcessClock
  readonly stop: AbortController
  readonly logger: ReturnType<typeof memoryLogger>
  /** Whether the API server has answered this process that it is ready. */
  wasReady: boolean
  /** The simulated time at which the API server last answered a probe of this process; negative infinity if never. */
  answeredAtMs: number
  ended: boolean
  failure: unknown
}

export class SimulatedMaster extends SimulatedMember<Life> implements MemberState {
  readonly kind = 'apiserver-bootstrap'
  /** Undefined in a fleet without etcd or kine. */
  readonly etcd: EtcdRoute | undefined
  /** The options for the next start of the sidecar. */
  options: MasterOptions
  /** How far the wall clock of the machine is ahead, in milliseconds. */
  skewMs: number
  readonly #surroundings: Surroundings
  readonly #driftPpm: number | undefined

  constructor(surroundings: Surroundings, host: Host) {
    const { name, addresses, skewMs = 0, driftPpm, options } = host
    super(name, surroundings.datastore)
    this.#surroundings = surroundings
    this.#driftPpm = driftPpm
    this.etcd = surroundings.etcdRoute()
    this.skewMs = skewMs
    this.options = { ...masterDefaults, ...options, host: name, advertiseAddresses: addresses.map(parseAddress) }
  }

  /** Starts another process of the sidecar. `settings` override the options for this process only. */
  start(settings: Partial<MasterOptions> = {}): void {
    const { time, seed, spikes, transport, leases: registry } = this.#surroundings
    const options = { ...this.options, ...settings }
    const clock = processClock(time, { skewMs: this.skewMs, driftPpm: this.#driftPpm })
    const random = seededRandom(seed, `${this.name} life ${this.lives.length + 1}`)
    const logger = memoryLogger()
    const link = simulatedLink(transport(this.name), { server: this.server, clock, random, spikes })
    const api = restKubeApi({ transport: link, clock, random, logger, metrics: noMetrics })
    const server = simulatedReadiness(this.server, clock, random)
    const readiness: Readiness = {
      async probe(signal) {
        const answer = await server.probe(signal)
        if (answer.answered) life.answeredAtMs = time.nowMs
        if (answer.answered && answer.ready) life.wasReady = true
        return answer
      },
      async answers(signal) {
        const answers = (await server.answers?.(signal)) ?? false
        if (answers) life.answeredAtMs = time.nowMs
        return answers
      },
    }
    const etcd = this.etcd?.connect({ clock, random, spikes })
    const master = this.#surroundings.createMaster(options, {
      api,
      readiness,
      clock,
      random,
      logger,
      metrics: noMetrics,
      onMistake(error) {
        life.failure ??= error
      },
      etcd: etcd && { kv: etcd, Leases: EtcdLeases, Ranges: EtcdRangeRegistry },
      leases: registry && processLeases(new MemoryLeases(registry, { ttlMs: options.leaseTtlMs }), clock),
    })
    const life: Life = {
      master,
      options,
      clock,
      stop: new AbortController(),
      logger,
      wasReady: false,
      answeredAtMs: Number.NEGATIVE_INFINITY,
      ended: false,
      failure: undefined,
    }
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

  configure(settings: Partial<MasterOptions>): void {
    this.options = { ...this.options, ...settings }
  }

  /** SIGKILL of all processes of the sidecar. Their running requests never get an answer. */
  kill(): void {
    for (const life of this.#processes) life.clock.kill()
    this.life = undefined
  }

  /** SIGTERM of the sidecar. A frozen sidecar receives it when it thaws. */
  terminate(): void {
    for (const life of this.#processes) requestStop(life)
  }

  /** SIGTERM of the earlier processes of the sidecar that still run beside the latest one. */
  terminateEarlier(): void {
    for (const life of this.#processes) if (life !== this.life) requestStop(life)
  }

  freeze(): void {
    for (const life of this.#processes) life.clock.freeze()
  }

  thaw(): void {
    for (const life of this.#processes) life.clock.thaw()
  }

  setWallClock(skewMs: number): void {
    this.skewMs = skewMs
    for (const life of this.#processes) life.clock.setSkew(skewMs)
  }

  get address(): string {
    return this.settings.advertiseAddresses[0]?.text ?? ''
  }

  get answering(): boolean {
    const { answering, faults } = this.server
    return answering && (faults.areNone || !silencesProbe(faults.rules))
  }

  get hasBeenReady(): boolean | undefined {
    return this.life?.wasReady
  }

  get failure(): unknown {
    return this.life?.failure
  }

  get running(): boolean {
    return this.life !== undefined && !this.life.ended && !this.life.stop.signal.aborted && !this.life.clock.frozen
  }

  /** Whether the latest process received SIGTERM, even if it has ended by now. False after {@link kill}. */
  get stopping(): boolean {
    return this.life?.stop.signal.aborted === true
  }

  get ended(): boolean {
    return !this.lives.some(isProcess)
  }

  get connected(): boolean {
    const { reachable, storeless } = this.server
    return reachable && !storeless && this.impaired === 'no' && (this.etcd?.open ?? true)
  }

  get serves(): boolean {
    const { ready, etcdCheck, storeless, faults } = this.server
    return this.answering && ready && etcdCheck && !storeless && (faults.areNone || !answersUnready(faults.rules))
  }

  get impaired(): MemberState['impaired'] {
    const { faults } = this.server
    if (faults.areNone) return 'no'
    return impairmentOf(faults.rules, this.etcd === undefined && this.#surroundings.leases === undefined)
  }

  get disturbances(): number {
    return this.server.faults.disturbances
  }

  override get delayMs(): number {
    const { faults } = this.server
    return super.delayMs + (faults.areNone ? 0 : smallDelayMs(faults.rules))
  }

  get clientConnections(): MemberState['clientConnections'] {
    const { serving, clientsCutOff } = this.server
    return !serving ? 'refused' : clientsCutOff ? 'black-holed' : 'served'
  }

  /** Whether some process of the sidecar may still renew the lease. */
  get renewing(): boolean {
    return this.lives.some((life) => isProcess(life) && this.#mayRenew(life))
  }

  #mayRenew({ clock, answeredAtMs, options }: Life): boolean {
    const { server, etcd } = this
    const { time, leases } = this.#surroundings
    if (clock.frozen) return false
    // The sidecar continues to renew for a short time after the last answer of its server.
    if (!this.answering && time.nowMs - answeredAtMs >= membershipTimings(options).answerFreshMs) return false
    if (etcd !== undefined) return etcd.open
    return leases !== undefined || (server.reachable && !server.storeless && this.impaired !== 'lease')
  }

  /** The options of the latest process; before the first start, the options for that start. */
  protected get settings(): MasterOptions {
    return this.lives.at(-1)?.options ?? this.options
  }

  /** The processes of the sidecar that have not ended: more than one while they overlap. */
  get #processes(): readonly Life[] {
    return this.lives.filter(isProcess)
  }
}

function isProcess({ clock, ended }: Life): boolean {
  return !clock.killed && !ended
}

function requestStop({ clock, stop }: Life): void {
  const signal = (): void => stop.abort(new Error('SIGTERM'))
  if (clock.frozen) clock.schedule(0, signal)
  else signal()
}

/**
 * The default options of a simulated master: those of the program if no etcd is given, except that the repair
 * controllers and the leader election are off.
 */
export const masterDefaults: Omit<MasterOptions, 'host' | 'advertiseAddresses'> = {
  securePort: 6443,
  serviceClusterIpRanges: [parseCidr('10.96.0.0/12')],
  kubernetesServiceNodePort: 0,
  serviceNodePortRange: parsePortRange('30000-32767'),
  rangeRegistry: 'none',
  repairIntervalMs: 180_000,
  startupTimeoutMs: 60_000,
  adoptRange: false,
  endpointReconcilerType: 'lease',
  apiserverCount: 1,
  leaseStore: 'kubernetes',
  leaseNamespace: 'kube-system',
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

/** A registry of metrics for each process would slow down the simulation. */
const noMetrics: Metrics = {
  counter: () => ({ add: () => {} }),
  gauge: () => ({ set: () => {}, remove: () => {} }),
  histogram: () => ({ observe: () => {} }),
  onCollect: () => {},
  expose: async () => '',
}
