import type { KubeApi } from '../../../src/kube/api.ts'
import { Availability } from '../../../src/kube/availability.ts'
import { noEvents } from '../../../src/kube/event-object.ts'
import type { ReadinessAnswer } from '../../../src/kube/readiness.ts'
import { Announcements, LeaseTelemetry } from '../../../src/kubernetes-service/announcements.ts'
import { EndpointsAdapter } from '../../../src/kubernetes-service/endpoints-adapter.ts'
import { FleetView } from '../../../src/kubernetes-service/fleet-view.ts'
import { ObjectWriter } from '../../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { type EndpointPort, endpointPorts } from '../../../src/kubernetes-service/identity.ts'
import type { Holder, MasterLeases } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MembershipRunner } from '../../../src/kubernetes-service/membership/runner.ts'
import { membershipTimings } from '../../../src/kubernetes-service/membership/timings.ts'
import { ReadinessMonitor } from '../../../src/kubernetes-service/readiness-monitor.ts'
import type { Clock } from '../../../src/runtime/clock.ts'
import { type Logger, silentLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'

/** The production membership of one master, without the controller that manages the objects. */
export interface MasterInProcess {
  readonly runner: MembershipRunner
  /** The answer of its API server to a probe. */
  answer: ReadinessAnswer
  /** Whether the API server answers otherwise; see `Readiness.answers`. */
  answers: boolean
  /** Kills the master. Resolves when nothing of it is left. */
  kill(): Promise<void>
}

/** Starts a master. Its server is ready unless `answer` is changed. */
export function startMaster(
  world: { readonly api: KubeApi; readonly clock: Clock },
  leases: MasterLeases,
  holder: Holder,
  options: {
    readonly ports?: readonly EndpointPort[]
    readonly answer?: ReadinessAnswer
    readonly availability?: Availability
    readonly logger?: Logger
  } = {},
): MasterInProcess {
  const { api, clock } = world
  const metrics = prometheusMetrics()
  const shared = { clock, logger: options.logger ?? silentLogger, metrics, events: noEvents, api }
  const [address = ''] = holder.addresses
  const fleet = new FleetView({ ...shared, ttlMs: 15_000 })
  const monitor = new ReadinessMonitor({
    ...shared,
    gate: 'continuous',
    periodMs: 1_000,
    readiness: { probe: async () => master.answer, answers: async () => master.answers },
  })
  const runner: MembershipRunner = new MembershipRunner({
    ...shared,
    availability: options.availability ?? new Availability(shared),
    monitor,
    adapter: new EndpointsAdapter({ ...shared, writer: new ObjectWriter(shared) }),
    leases,
    holder,
    ports: options.ports ?? endpointPorts(holder.ports.securePort),
    timings: membershipTimings({
      leaseTtlMs: 15_000,
      reconcileIntervalMs: 10_000,
      readinessProbePeriodMs: 1_000,
    }),
    fleet,
    announcements: new Announcements({ ...shared, address, fleet }),
    telemetry: new LeaseTelemetry({ ...shared, address, leaseTtlMs: 15_000, renewedMs: () => runner.renewedMs }),
    onChange: () => {},
  })
  const stop = new AbortController()
  let running: readonly Promise<unknown>[] = []
  const master: MasterInProcess = {
    runner,
    answer: options.answer ?? { answered: true, ready: true, checks: [] },
    answers: false,
    async kill() {
      stop.abort(new Error('killed'))
      await Promise.allSettled(running)
    },
  }
  running = [runner.run(stop.signal), monitor.run(stop.signal)]
  for (const part of running) part.catch(() => {})
  return master
}
