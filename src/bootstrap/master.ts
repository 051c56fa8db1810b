import { formatDuration } from '../documents/duration.ts'
import { Availability } from '../kube/availability.ts'
import { dryRunApi, dryRunLogger } from '../kube/dry-run.ts'
import { noEvents } from '../kube/event-object.ts'
import { EventRecorder } from '../kube/event-recorder.ts'
import { ObjectWriter } from '../kube/object-writer.ts'
import { Announcements } from '../kubernetes-service/announcements.ts'
import { EndpointsAdapter } from '../kubernetes-service/endpoints-adapter.ts'
import { FleetView } from '../kubernetes-service/fleet-view.ts'
import { placeOfLeases } from '../kubernetes-service/leases/place.ts'
import { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { type Withdrawal, withdraw } from '../kubernetes-service/withdraw.ts'
import { Lifecycle } from '../lifecycle/lifecycle.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable } from '../runtime/signals.ts'
import type { Gauge } from '../telemetry/metrics.ts'
import { isSelected } from './controller-selection.ts'
import { composeDuties } from './duty-parts.ts'
import { auditUserOf, composeKubernetesService, holderOf, leasesOf } from './kubernetes-service-parts.ts'
import type { MasterOptions, MasterPorts } from './master-options.ts'
import { recordRefusals } from './readiness-refusals.ts'
import { availabilityByServer, PartAvailability, type ServersAvailability } from './servers-availability.ts'
import { startedWithin } from './startup-deadline.ts'
import { type SupervisedOptions, supervised } from './supervised.ts'

/** Everything that one master does, composed and not yet running. */
export interface Master {
  /** For hooks and health checks of the embedding program; see {@link Lifecycle}. */
  readonly lifecycle: Lifecycle
  /** Runs until the signal is aborted, then leaves as `onShutdown` says and resolves. Rejects when something failed. Only once. */
  run(signal: AbortSignal): Promise<void>
  /**
   * Starts it, for an API server that calls this as its own post-start hook, instead of {@link run}. Resolves when the namespaces
   * and the ServiceCIDR are there, or refused for so long that nobody should wait for them; the Service and the address wait for the server's
   * /readyz, which may wait for this hook.
   * Rejects when the start failed.
   */
  postStartHook(): Promise<void>
  /**
   * Ends what {@link postStartHook} started, for an API server that calls this before it stops serving: the address is taken out
   * even if it is the last, whatever `onShutdown` says. Rejects when something failed.
   */
  preShutdownHook(): Promise<void>
}

/** At least so long may leaving take, in milliseconds: a server that hangs is first asked for its health in vain. */
const LEAVING_MS = 6_000

/** Who asks for the server's health only at the start asks again so often, in milliseconds: what the server does itself may change. */
const ASKING_PERIOD_MS = 10_000

/** The one place where parts become a master. */
export function createMaster(options: MasterOptions, ports: MasterPorts): Master {
  const { lifecycle, clock, monitor, recording, duty, duties } = compose(options, ports)
  const { foundations, repairs, workloads } = duties
  let { onShutdown } = options
  lifecycle.part('event-recorder', (signal) => supervised(recording, signal))
  for (const [name, health] of duties.healths) lifecycle.healthCheck(name, () => health.fault(), ['readyz'])
  for (const { name, hook, value } of foundations) {
    lifecycle.part(name, (signal) => value.run(signal))
    lifecycle.postStartHook(hook, (signal) => abortable(value.settled(), signal))
  }
  if (duty !== undefined) {
    lifecycle.part('kubernetes-service', (signal) => duty.value.run(signal))
    lifecycle.postStartHook('bootstrap-controller', (signal) =>
      startedWithin(duty.controller.settled, { ...duty, clock, monitor, timeoutMs: options.startupTimeoutMs, signal }),
    )
    const fault = () => serverFault(monitor, clock, options.leaseTtlMs) ?? duty.membership?.fault()
    lifecycle.healthCheck('kubernetes-service', fault, ['readyz'])
    lifecycle.preShutdownHook('stop-kubernetes-service-controller', (signal, failure) =>
      duty.value.stop(failure === undefined ? onShutdown : 'keep', signal),
    )
  }
  if (repairs.length > 0) {
    lifecycle.part('repair-informers', (signal) => duties.followServices(signal))
    for (const { name, value } of repairs) lifecycle.part(name, (signal) => value.run(signal))
    lifecycle.postStartHook('start-service-ip-repair-controllers', async (signal) => {
      await abortable(Promise.all(repairs.map(({ value }) => value.settled())), signal)
    })
  }
  if (workloads !== undefined) lifecycle.part('workload-controllers', (signal) => workloads.run(signal))
  if (options.readinessGate === 'startup') lifecycle.part('server-duties', (signal) => askAgain(monitor, clock, signal))
  // Last: the others must be there to hear its first answer, and it is the first to end.
  lifecycle.part('readiness', (signal) => monitor.run(signal))

  const stop = new AbortController()
  let life: Promise<void> | undefined
  return {
    lifecycle,
    run: (signal) => lifecycle.run(signal),
    async postStartHook() {
      life = lifecycle.run(stop.signal)
      await Promise.race([Promise.all(foundations.map(({ value }) => value.known())), life])
    },
    async preShutdownHook() {
      onShutdown = 'always'
      stop.abort(new Error('the API server shuts down'))
      await life
    },
  }
}

/**
 * Takes the master that these options describe out of `default/kubernetes` from outside its process.
 * Rejects when the lease store is one that other processes cannot reach.
 */
export async function withdrawMaster(
  options: MasterOptions,
  ports: MasterPorts,
  signal: AbortSignal,
): Promise<Withdrawal> {
  const [address] = options.advertiseAddresses
  if (address === undefined) return { type: 'nothing', reason: 'the reconciler none lists nobody' }
  if (options.dryRun) return { type: 'nothing', reason: 'a dry run writes nothing' }
  if (options.leaseStore === 'memory' && ports.leases === undefined) {
    throw new Error('--lease-store memory is out of reach of other processes; stop the one that runs instead')
  }
  const availability = openAvailability(options, ports)
  const events = openEvents(options, ports)
  const fleet = new FleetView({ ...ports, ttlMs: options.leaseTtlMs })
  const audit = { logger: ports.logger, events, user: auditUserOf(options, ports) }
  const announcements = new Announcements({ ...ports, ...audit, fleet, address: address.text })
  const writer = new ObjectWriter({ ...ports, onWritten: (written) => announcements.written(written) })
  const withdrawal = await withdraw(
    {
      audit,
      leases: leasesOf(options, { ...ports, availability }),
      onRead: (leases) => fleet.read(leases),
      adapter: new EndpointsAdapter({ ...ports, writer }),
      self: holderOf(options, ports),
      address,
      always: options.onShutdown === 'always',
      place: ports.leases === undefined ? placeOfLeases(options) : 'in the lease store',
    },
    signal,
  )
  // Writes what there is to tell, and no more.
  await events.run(AbortSignal.abort())
  return withdrawal
}

function compose(options: MasterOptions, given: MasterPorts) {
  const real = { ...given, availability: openAvailability(options, given) }
  const ports = options.dryRun ? { ...real, ...dryRunPorts(given) } : real
  const { clock, logger } = ports
  const as = (controller: string) => ({ ...ports, logger: logger.child({ controller }) })
  const lifecycle = new Lifecycle({
    clock,
    logger,
    shutdownDelayMs: options.shutdownDelayMs,
    preShutdownTimeoutMs: Math.max(2 * options.reconcileIntervalMs, LEAVING_MS),
  })
  const monitor = new ReadinessMonitor({
    ...as('readiness'),
    gate: options.readinessGate,
    periodMs: options.readinessProbePeriodMs,
  })
  const events = openEvents(options, ports)
  // What a dry run would tell of has not happened.
  const told = options.dryRun ? noEvents : events
  recordRefusals(monitor, told, options.advertiseAddresses[0]?.text)
  const duties = composeDuties(options, { ...ports, events: told }, monitor)
  const availability = new PartAvailability(ports.availability)
  const duty = isSelected(options.controllers, 'kubernetes-service')
    ? {
        ...composeKubernetesService(options, { ...as('kubernetes-service'), availability, events: told }, monitor),
        refusal: () => availability.refusal(),
      }
    : undefined
  const recording: SupervisedOptions = {
    ...ports,
    make: () => ({ run: (signal) => events.run(signal), settled: Promise.resolve() }),
    health: {
      begun() {},
      crashed(error) {
        logger.error({ error }, 'unexpected error; events are written on')
        ports.onMistake?.(error)
      },
    },
  }
  return { lifecycle, clock, monitor, recording, duty, duties }
}

/** Why this master's own API server cannot be relied on; undefined when it can. */
function serverFault(monitor: ReadinessMonitor, clock: Clock, leaseTtlMs: number): string | undefined {
  const { phase, lastAnswerMs } = monitor
  if (lastAnswerMs === undefined) return 'own API server has not answered yet'
  const silentMs = clock.monotonicMs() - lastAnswerMs
  if (silentMs > leaseTtlMs)
    return `own API server has not answered for ${formatDuration(Math.floor(silentMs / 1_000) * 1_000)}`
  return phase === 'ready' ? undefined : 'own API server is not ready'
}

/** Asks for the server's health now and then where nobody else has, for those who listen. */
async function askAgain(monitor: ReadinessMonitor, clock: Clock, signal: AbortSignal): Promise<void> {
  let askedMs = clock.monotonicMs()
  for (;;) {
    const leftMs = Math.max(askedMs, monitor.lastAnswerMs ?? askedMs) + ASKING_PERIOD_MS - clock.monotonicMs()
    if (leftMs > 0) {
      await sleep(clock, leftMs, signal)
    } else {
      askedMs = clock.monotonicMs()
      await monitor.probe(signal)
    }
  }
}

/** Each server that can be lost has its own lines in the log; the API server and etcd have metrics too. */
function openAvailability({ leaseStore }: MasterOptions, ports: MasterPorts): ServersAvailability {
  const { clock, logger, metrics, etcd } = ports
  const api = new Availability({ clock, logger })
  observeAvailability(
    api,
    metrics.gauge({
      name: 'apiserver_bootstrap_api_available',
      help: 'Whether the API server can be used (1), or was lost (0).',
    }),
  )
  const store = new Availability({ clock, logger, server: 'etcd' })
  const own = new Availability({ clock, logger, server: 'the lease store' })
  if (etcd !== undefined) {
    observeAvailability(
      store,
      metrics.gauge({
        name: 'apiserver_bootstrap_etcd_available',
        help: 'Whether etcd can be used (1), or was lost (0).',
      }),
    )
  }
  const leases = ports.leases === undefined ? { kubernetes: api, etcd: store, memory: own }[leaseStore] : own
  return availabilityByServer({ api, etcd: store, own, leases })
}

function observeAvailability(availability: Availability, gauge: Gauge<never>): void {
  gauge.set({}, 1)
  availability.subscribe((isAvailable) => gauge.set({}, isAvailable ? 1 : 0))
}

function openEvents({ host }: MasterOptions, ports: MasterPorts): EventRecorder {
  return new EventRecorder({ ...ports, reportingController: 'apiserver-bootstrap', reportingInstance: host })
}

/** Every line of a dry run says that it is one: what it calls done was not. */
function dryRunPorts({ api, logger }: MasterPorts): Pick<MasterPorts, 'api' | 'logger'> {
  const marked = dryRunLogger(logger.child({ dryRun: true }))
  return { api: dryRunApi(api, marked), logger: marked }
}
