import { Availability } from '../kube/availability.ts'
import { dryRunApi, sayOnce } from '../kube/dry-run.ts'
import { noEvents } from '../kube/event-object.ts'
import { EventRecorder } from '../kube/event-recorder.ts'
import { Announcements } from '../kubernetes-service/announcements.ts'
import { EndpointsAdapter } from '../kubernetes-service/endpoints-adapter.ts'
import { FleetView } from '../kubernetes-service/fleet-view.ts'
import { ObjectWriter } from '../kubernetes-service/object-writer.ts'
import { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { type Withdrawal, withdraw } from '../kubernetes-service/withdraw.ts'
import { Lifecycle } from '../lifecycle/lifecycle.ts'
import { SystemNamespacesController } from '../namespaces/controller.ts'
import { DefaultServiceCidrController } from '../service-cidr/controller.ts'
import type { Gauge } from '../telemetry/metrics.ts'
import { isSelected } from './controller-selection.ts'
import { DutySwitch, type SwitchableDuty } from './duty-switch.ts'
import { firstPasses } from './first-passes.ts'
import { composeKubernetesService, holderOf, leasesOf } from './kubernetes-service-parts.ts'
import type { MasterOptions, MasterPorts } from './master-options.ts'
import { composeRepairs } from './repair-parts.ts'
import { availabilityByServer, type ServersAvailability } from './servers-availability.ts'
import { startedWithin } from './startup-deadline.ts'
import { composeWorkloads } from './workload-parts.ts'

/** Everything that one master does, composed and not yet running. */
export interface Master {
  /** For hooks and health checks of the embedding program; see {@link Lifecycle}. */
  readonly lifecycle: Lifecycle
  /** Runs until the signal is aborted, then leaves as `onShutdown` says and resolves. Rejects when something failed. Only once. */
  run(signal: AbortSignal): Promise<void>
  /**
   * Starts it, for an API server that calls this as its own post-start hook, instead of {@link run}. Resolves when the namespaces
   * and the ServiceCIDR are there; the Service and the address wait for the server's /readyz, which may wait for this hook.
   * Rejects when the start failed.
   */
  postStartHook(): Promise<void>
  /**
   * Ends what {@link postStartHook} started, for an API server that calls this before it stops serving: the address is taken out
   * even if it is the last, whatever `onShutdown` says. Rejects when something failed.
   */
  preShutdownHook(): Promise<void>
}

/** What must not be refused for `default/kubernetes` to come about. */
const SERVICE_SOURCES = [
  'kubernetes-service',
  'kubernetes-endpoints',
  'lease',
  'leases',
  'services',
  'endpoints',
  'endpointslices',
]

/** At least so long may leaving take, in milliseconds: a server that hangs is first asked for its health in vain. */
const LEAVING_MS = 6_000

/** The one place where parts become a master. */
export function createMaster(options: MasterOptions, ports: MasterPorts): Master {
  const parts = compose(options, ports)
  const { lifecycle, monitor, events, duty, switches, repairs, workloads } = parts
  const { startupTimeoutMs: timeoutMs } = options
  let { onShutdown } = options
  lifecycle.part('event-recorder', (signal) => events.run(signal))
  for (const { name, hook, sources, value } of switches) {
    lifecycle.part(name, (signal) => value.run(signal))
    lifecycle.postStartHook(hook, (signal) => startedWithin(value.settled(), { ...parts, timeoutMs, sources, signal }))
  }
  if (duty !== undefined) {
    lifecycle.part('kubernetes-service', (signal) => duty.value.run(signal))
    lifecycle.postStartHook('bootstrap-controller', (signal) =>
      startedWithin(duty.controller.settled, { ...parts, timeoutMs, sources: SERVICE_SOURCES, signal }),
    )
    lifecycle.preShutdownHook('stop-kubernetes-service-controller', (signal, failure) =>
      duty.value.stop(failure === undefined ? onShutdown : 'keep', signal),
    )
  }
  if (repairs !== undefined) {
    lifecycle.part('repair-informers', (signal) => repairs.run(signal))
    for (const { name, repair, value } of repairs.switches) {
      lifecycle.part(name, (signal) => value.run(signal))
      lifecycle.healthCheck(name, () => repair.fault(), ['readyz'])
    }
    lifecycle.postStartHook('start-service-ip-repair-controllers', (signal) =>
      firstPasses(repairs, options, { ...parts, signal }),
    )
  }
  if (workloads !== undefined) lifecycle.part('workload-controllers', (signal) => workloads.run(signal))
  // Last: the others must be there to hear its first answer, and it is the first to end.
  lifecycle.part('readiness', (signal) => monitor.run(signal))

  const stop = new AbortController()
  let life: Promise<void> | undefined
  return {
    lifecycle,
    run: (signal) => lifecycle.run(signal),
    async postStartHook() {
      life = lifecycle.run(stop.signal)
      await Promise.race([Promise.all(switches.map(({ value }) => value.settled())), life])
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
  if (options.leaseStore === 'memory' && ports.leases === undefined) {
    throw new Error('--lease-store memory is out of reach of other processes; stop the one that runs instead')
  }
  const availability = openAvailability(ports)
  const events = openEvents(options, ports)
  const fleet = new FleetView(ports)
  const announcements = new Announcements({ events, fleet, address: address.text })
  const writer = new ObjectWriter({ ...ports, onWritten: (written) => announcements.written(written) })
  const withdrawal = await withdraw(
    {
      leases: leasesOf(options, { ...ports, availability }),
      onRead: (leases) => fleet.read(leases),
      adapter: new EndpointsAdapter({ ...ports, writer }),
      self: holderOf(options, ports),
      address,
      always: options.onShutdown === 'always',
      place: placeOfLeases(options, ports),
    },
    signal,
  )
  // Writes what there is to tell, and no more.
  await events.run(AbortSignal.abort())
  return withdrawal
}

/** Where the leases are, for a person. */
function placeOfLeases({ leaseStore, etcdPrefix }: MasterOptions, { leases }: MasterPorts): string {
  if (leases !== undefined) return 'in the lease store'
  return leaseStore === 'etcd' ? `under ${etcdPrefix}/masterleases/ in etcd` : 'among the Leases in kube-system'
}

function compose(options: MasterOptions, given: MasterPorts) {
  const real = { ...given, availability: openAvailability(given) }
  const ports = options.dryRun ? { ...real, ...dryRunPorts(given) } : real
  const { clock, logger, metrics } = ports
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
  const active = metrics.gauge({
    name: 'apiserver_bootstrap_duty_active',
    help: 'Whether a duty is done here (1), or is off or left to the server (0).',
    labels: ['duty'],
  })
  const switched = (duty: SwitchableDuty): DutySwitch =>
    new DutySwitch(duty, { ...as(duty.name), selection: options.controllers, monitor, active })
  const namespaces = new SystemNamespacesController(as('system-namespaces'))
  const serviceCidr = new DefaultServiceCidrController({
    ...as('default-service-cidr'),
    events: told,
    ranges: options.serviceClusterIpRanges,
  })
  const switches = [
    {
      name: 'system-namespaces',
      hook: 'start-system-namespaces-controller',
      sources: ['system-namespaces', 'namespaces'],
      value: switched({
        name: 'system-namespaces',
        run: (signal) => namespaces.run(signal),
        settled: namespaces.settled,
      }),
    },
    {
      name: 'default-service-cidr',
      hook: 'start-kubernetes-service-cidr-controller',
      sources: ['default-service-cidr', 'servicecidrs'],
      value: switched({
        name: 'default-service-cidr',
        run: (signal) => serviceCidr.run(signal),
        settled: serviceCidr.settled,
      }),
    },
  ]
  const repairs = composeRepairs(options, { ...ports, events: told }, monitor)
  const workloads = composeWorkloads(options, { ...ports, events: told }, active)
  const kept = isSelected(options.controllers, 'kubernetes-service')
  active.set({ duty: 'kubernetes-service' }, kept ? 1 : 0)
  const duty = kept
    ? composeKubernetesService(options, { ...as('kubernetes-service'), events: told }, monitor)
    : undefined
  return {
    lifecycle,
    monitor,
    events,
    duty,
    switches,
    workloads,
    repairs: repairs && {
      ...repairs,
      switches: repairs.duties.map(({ name, repair, permit }) => {
        const { settled } = repair
        const run = (signal: AbortSignal): Promise<void> => repair.run(signal)
        return { name, repair, value: switched({ name, run, settled, onLeftToServer: () => permit.leaveToServer() }) }
      }),
    },
    clock,
    logger,
    availability: ports.availability,
  }
}

/** Two servers can be lost, each with its own lines in the log and its own metric. */
function openAvailability({ clock, logger, metrics, etcd }: MasterPorts): ServersAvailability {
  const api = new Availability({ clock, logger })
  observeAvailability(
    api,
    metrics.gauge({
      name: 'apiserver_bootstrap_api_available',
      help: 'Whether the API server can be used (1), or was lost (0).',
    }),
  )
  const store = new Availability({ clock, logger, server: 'etcd' })
  if (etcd !== undefined) {
    observeAvailability(
      store,
      metrics.gauge({
        name: 'apiserver_bootstrap_etcd_available',
        help: 'Whether etcd can be used (1), or was lost (0).',
      }),
    )
  }
  return availabilityByServer(api, store)
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
  const marked = sayOnce(logger.child({ dryRun: true }))
  return { api: dryRunApi(api, marked), logger: marked }
}
