import { type Faults, faultyTransport } from '../../src/apiserver/faults.ts'
import { availabilityByServer } from '../../src/bootstrap/servers-availability.ts'
import { composeWorkloads } from '../../src/bootstrap/workload-parts.ts'
import { Datastore } from '../../src/drill/datastore.ts'
import { SimulatedServer, simulatedLink } from '../../src/drill/simulator/link.ts'
import { type ProcessClock, processClock } from '../../src/drill/simulator/process.ts'
import { Availability } from '../../src/kube/availability.ts'
import type { EventSink } from '../../src/kube/event-object.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Transport } from '../../src/kube/transport.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import type { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { defaultLeaderElectionTiming } from '../kube/election-timing.ts'
import { WatchLag } from './repair-lag.ts'
import type { WorkloadComposition } from './workload-composition.ts'

export const lease = { namespace: 'kube-system', name: 'workloads' }

export interface WorkloadProcessOptions {
  readonly name: string
  readonly seed: number
  readonly time: VirtualClock
  readonly composition: WorkloadComposition
  /** The server, as the life with this name reaches it. */
  readonly storeOf: (writer: string) => Transport
}

interface WorkloadLife {
  readonly clock: ProcessClock
  readonly stop: AbortController
  readonly faults: Faults
}

/**
 * One process that runs the controllers of Endpoints and EndpointSlices: the shipped code, on a connection that fails.
 */
export class WorkloadProcess {
  readonly name: string
  readonly server: SimulatedServer
  readonly lag: WatchLag
  readonly logger = memoryLogger()
  life: WorkloadLife | undefined
  /** The error that ended a life unexpectedly. */
  failure: unknown
  #lives = 0
  readonly #options: WorkloadProcessOptions

  constructor(options: WorkloadProcessOptions) {
    this.#options = options
    this.name = options.name
    const clock = options.time.view()
    const random = seededRandom(options.seed, `${options.name} datastore`)
    this.server = new SimulatedServer(new Datastore({ clock, random }))
    this.lag = new WatchLag(clock)
  }

  start(): void {
    const { time, seed, composition, storeOf } = this.#options
    const writer = `${this.name}.${++this.#lives}`
    const clock = processClock(time)
    const random = seededRandom(seed, writer)
    const { spikes, workers, batchPeriodMs, maxEndpointsPerSlice } = composition
    const inner = this.lag.transport(storeOf(writer))
    const link = simulatedLink(inner, { server: this.server, clock, random, spikes })
    const transport = faultyTransport(link, { clock, random: seededRandom(seed, `${writer} faults`) })
    const logger = this.logger.child({ writer })
    const sync = { workers, batchPeriodMs }
    const own = new Availability({ clock, logger })
    const ports = {
      api: restKubeApi({ transport, clock, random, logger }),
      readiness: { probe: () => Promise.reject(new Error('nobody asks')) },
      clock,
      random,
      logger,
      metrics: prometheusMetrics(),
      availability: availabilityByServer({ api: own, etcd: own, own, leases: own }),
      events: noted(logger),
    }
    const active = ports.metrics.gauge({ name: 'duty_active', help: 'As in a master.', labels: ['duty'] })
    const stop = new AbortController()
    const workloads = composeWorkloads(
      {
        controllers: { auto: false, on: ['endpoints', 'endpointslice', 'endpointslice-mirroring'], off: [] },
        workloads: {
          endpoints: sync,
          endpointSlice: { ...sync, maxEndpointsPerSlice },
          mirroring: { ...sync, maxEndpointsPerSubset: 1_000 },
          leaderElection: composition.elects ? { ...defaultLeaderElectionTiming, ...lease } : undefined,
        },
        dryRun: false,
        host: this.name,
      } as unknown as Parameters<typeof composeWorkloads>[0],
      ports,
      active,
      () => ({
        // As in DutyHealth: a term that stops before it has settled rejects here, which is no failure.
        begun: ({ settled }) => void settled.catch(() => {}),
        crashed: (error) => this.#ended(stop, error),
      }),
    )
    this.life = { clock, stop, faults: transport.faults }
    workloads?.(stop.signal).then(
      () => this.#ended(stop, new Error('it ended of its own accord')),
      (error: unknown) => this.#ended(stop, error),
    )
  }

  /** SIGKILL: its running requests never return. */
  kill(): void {
    this.life?.clock.freeze()
    this.server.resetConnections()
    this.life = undefined
  }

  /** SIGTERM. */
  terminate(): void {
    this.life?.stop.abort(new Error('SIGTERM'))
    this.life = undefined
  }

  /** Ends all its faults, except that silent streams stay silent. */
  heal(): void {
    if (!this.server.serving || this.server.cut || this.server.hanging) this.server.heal()
    this.server.start()
    this.server.hanging = false
    this.server.store.own = 'ok'
    this.lag.end()
    this.life?.faults.clear()
    this.life?.faults.heal()
    if (this.life?.clock.frozen === true) this.life.clock.thaw()
    if (this.life === undefined) this.start()
  }

  #ended(stop: AbortController, error: unknown): void {
    if (!stop.signal.aborted) this.failure ??= error
  }
}

function noted(logger: ReturnType<ReturnType<typeof memoryLogger>['child']>): EventSink {
  return { record: ({ reason, note }) => logger.debug({ reason }, note) }
}
