import { formatDuration } from '../documents/duration.ts'
import { dryRunApi, dryRunLogger } from '../kube/api-wrappers.ts'
import { Availability, RIGHTS_HINT } from '../kube/availability.ts'
import { type EventSink, eventOf, noEvents, referenceIn } from '../kube/event-object.ts'
import { EventRecorder } from '../kube/event-recorder.ts'
import { endpoints } from '../kube/resources.ts'
import { ServedResources } from '../kube/served-resources.ts'
import { Announcements } from '../kubernetes-service/announcements.ts'
import { EndpointsAdapter } from '../kubernetes-service/endpoints-adapter.ts'
import { FleetView } from '../kubernetes-service/fleet-view.ts'
import { ObjectWriter } from '../kubernetes-service/guarded-writes/object-writer.ts'
import { KUBERNETES_SERVICE } from '../kubernetes-service/identity.ts'
import { placeOfLeases } from '../kubernetes-service/leases/kubernetes.ts'
import { membershipTimings } from '../kubernetes-service/membership/timings.ts'
import { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { type Withdrawal, withdraw } from '../kubernetes-service/withdraw.ts'
import { Lifecycle } from '../lifecycle/lifecycle.ts'
import { BITMAP_HINT, lacksBitmap } from '../repair/bitmap/missing-range.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import type { Gauge } from '../telemetry/metrics.ts'
import { isSelected } from './duties.ts'
import { type SupervisedOptions, supervised } from './duty-health.ts'
import { composeDuties } from './duty-parts.ts'
import { auditUserOf, composeKubernetesService, holderOf, leasesOf } from './kubernetes-service-parts.ts'
import type { MasterOptions, MasterPorts } from './master-options.ts'
import { availabilityByServer, partAvailability, type ServersAvailability } from './servers-availability.ts'

/** All parts of one master, composed and not yet running. */
export interface Master {
  /** For hooks and health checks of the embedding program; see {@link Lifecycle}. */
  readonly lifecycle: Lifecycle
  /** Runs until the signal is aborted, then leaves according to `onShutdown`. Rejects after a failure. Call it once. */
  run(signal: AbortSignal): Promise<void>
  /**
   * Starts the master, as a post-start hook of an API server, instead of {@link run}. Resolves when each of the duties
   * for namespaces and ServiceCIDR was done, is off, suspended, degraded or left to the server. Does not wait for the
   * Service and the address: they need the server's /readyz, which may wait for this hook. Rejects if the master fails
   * before that.
   */
  postStartHook(): Promise<void>
  /**
   * Stops the master that {@link postStartHook} started: for an API server that calls this before it stops serving.
   * Withdraws the address even if it is the last one, whatever `onShutdown` is, but not if the master has failed.
   * Rejects with the first failure of the master.
   */
  preShutdownHook(): Promise<void>
}

/**
 * The time in milliseconds between two probes whose only purpose is to learn which duties the server does. With the
 * gate `startup`, such a probe is sent this long after the server's last answer. Without the duty `kubernetes-service`,
 * all probes of a ready server are of this kind.
 */
const DUTIES_PROBE_PERIOD_MS = 10_000

export function createMaster(options: MasterOptions, ports: MasterPorts): Master {
  const { lifecycle, clock, monitor, served, recording, duty, duties } = compose(options, ports)
  const { foundations, repairs, workloads } = duties
  let { onShutdown } = options
  lifecycle.part('event-recorder', (signal) => supervised(recording, signal))
  for (const [name, health] of duties.healths) {
    lifecycle.healthCheck(name, () => health.fault(), ['readyz'], duties.remarks.get(name))
  }
  for (const { name, hook, value } of foundations) {
    lifecycle.part(name, (signal) => value.run(signal))
    lifecycle.postStartHook(hook, (signal) => abortable(value.settled(), signal))
  }
  if (duty !== undefined) {
    lifecycle.part('kubernetes-service', (signal) => duty.value.run(signal))
    lifecycle.postStartHook('bootstrap-controller', (signal) =>
      startedWithin(Promise.race([duty.controller.settled, duty.suspended]), {
        ...duty,
        clock,
        monitor,
        timeoutMs: options.startupTimeoutMs,
        signal,
      }),
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
  if (workloads !== undefined) lifecycle.part('workload-controllers', workloads)
  if (served !== undefined) lifecycle.part('discovery', (signal) => served.run(signal))
  if (options.readinessGate === 'startup')
    lifecycle.part('server-duties', (signal) => probePeriodically(monitor, clock, signal))
  // The monitor is added last: the other parts must subscribe before the first probe ends, and the monitor must end
  // first.
  lifecycle.part('readiness', (signal) => monitor.run(signal))

  const stop = new AbortController()
  let life: Promise<void> | undefined
  return {
    lifecycle,
    run: (signal) => lifecycle.run(signal),
    async postStartHook() {
      life ??= lifecycle.run(stop.signal)
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
 * Withdraws the master with these options from `default/kubernetes`, from outside its process. Without an advertised
 * address, withdraws the only master of this host. Rejects if the leases are in the memory of the master's process.
 */
export async function withdrawMaster(
  options: MasterOptions,
  ports: MasterPorts,
  signal: AbortSignal,
): Promise<Withdrawal> {
  const { endpointReconcilerType: reconciler, advertiseAddresses } = options
  if (reconciler === 'none') return { type: 'nothing', reason: '--endpoint-reconciler-type=none lists no masters' }
  if (options.dryRun) return { type: 'nothing', reason: 'a dry run writes nothing' }
  if (options.leaseStore === 'memory' && ports.leases === undefined) {
    throw new Error('--lease-store=memory is not accessible to other processes; stop the running process instead')
  }
  const availability = openAvailability(options, ports)
  const events = openEvents(options, ports)
  const fleet = new FleetView({ ...ports, ttlMs: options.leaseTtlMs })
  const audit = { logger: ports.logger, events, user: auditUserOf(options, ports) }
  const announcements = new Announcements({ ...ports, ...audit, fleet, address: advertiseAddresses[0]?.text })
  const writer = new ObjectWriter({ ...ports, onWritten: (written) => announcements.written(written) })
  const request = {
    audit,
    leases: leasesOf(options, { ...ports, availability }),
    fleet,
    adapter: new EndpointsAdapter({ ...ports, writer }),
    self: holderOf(options, ports),
    always: options.onShutdown === 'always',
    clock: ports.clock,
    intervalMs: options.reconcileIntervalMs,
    place: ports.leases === undefined ? placeOfLeases(options) : 'in the lease store',
  }
  try {
    return await withdraw(request, signal)
  } finally {
    // With an aborted signal, `run` only writes the recorded Events, for at most a second.
    await events.run(AbortSignal.abort())
  }
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
    preShutdownTimeoutMs: membershipTimings(options).leavingMs,
  })
  const monitor = new ReadinessMonitor({
    ...as('readiness'),
    outages: ports.readiness.hasOwnAddress === true ? undefined : ports.availability.outages,
    gate: options.readinessGate,
    periodMs: options.readinessProbePeriodMs,
    readyPeriodMs: isSelected(options.controllers, 'kubernetes-service')
      ? undefined
      : Math.max(options.readinessProbePeriodMs, DUTIES_PROBE_PERIOD_MS),
  })
  const events = openEvents(options, ports)
  // The Events of a dry run would report writes that did not happen.
  const sink = options.dryRun ? noEvents : events
  recordRefusals(monitor, sink, options.advertiseAddresses[0]?.text)
  const served = servedResources(ports, monitor)
  const duties = composeDuties(options, { ...ports, served, events: sink }, monitor)
  const availability = partAvailability(ports.availability)
  const duty = isSelected(options.controllers, 'kubernetes-service')
    ? {
        ...composeKubernetesService(
          options,
          { ...as('kubernetes-service'), availability, served, events: sink },
          monitor,
        ),
        suspended: duties.kubernetesServiceSuspended,
        refusal: availability.refusal,
      }
    : undefined
  const recording: SupervisedOptions = {
    ...ports,
    make: () => ({ run: (signal) => events.run(signal), settled: Promise.resolve() }),
    health: {
      begun() {},
      crashed(error) {
        logger.error({ error }, 'unexpected error; restarting the event writer')
        ports.onMistake?.(error)
      },
    },
  }
  return { lifecycle, clock, monitor, served, recording, duty, duties }
}

/**
 * Undefined without discovery. A server that becomes ready may serve other resources than before, so discovery is then
 * read again.
 */
function servedResources(
  { discovery, clock, logger }: MasterPorts,
  monitor: ReadinessMonitor,
): ServedResources | undefined {
  if (discovery === undefined) return undefined
  const isReady = (): boolean => monitor.state.phase === 'ready'
  const served = new ServedResources({ discovery, isReady, clock, logger: logger.child({ controller: 'discovery' }) })
  let wasReady = false
  monitor.subscribe((answer) => {
    const ready = answer.answered && answer.ready
    if (ready && !wasReady) served.expedite()
    wasReady = ready
  })
  return served
}

/**
 * Why this master's own API server does not serve reliably; undefined if it is ready and answered within the last TTL.
 */
function serverFault(monitor: ReadinessMonitor, clock: Clock, leaseTtlMs: number): string | undefined {
  const { state, lastAnswerMs } = monitor
  if (lastAnswerMs === undefined) return 'own API server has not answered yet'
  const silentMs = clock.monotonicMs() - lastAnswerMs
  if (silentMs > leaseTtlMs)
    return `own API server has not answered for ${formatDuration(Math.floor(silentMs / 1_000) * 1_000)}`
  return state.phase === 'ready' ? undefined : 'own API server is not ready'
}

async function probePeriodically(monitor: ReadinessMonitor, clock: Clock, signal: AbortSignal): Promise<void> {
  let probedMs = clock.monotonicMs()
  for (;;) {
    const leftMs = Math.max(probedMs, monitor.lastAnswerMs ?? probedMs) + DUTIES_PROBE_PERIOD_MS - clock.monotonicMs()
    if (leftMs > 0) {
      await sleep(clock, leftMs, signal)
    } else {
      probedMs = clock.monotonicMs()
      await monitor.probe(signal)
    }
  }
}

/**
 * The availability of each server. Outages of all are logged. The API server has a metric too, and so does etcd if it
 * is used.
 */
function openAvailability({ leaseStore }: MasterOptions, ports: MasterPorts): ServersAvailability {
  const { clock, logger, metrics, etcd, outages } = ports
  const api = new Availability({ clock, logger, outages })
  observeAvailability(
    api,
    metrics.gauge({
      name: 'apiserver_bootstrap_api_available',
      help: 'Whether the API server is available (1) or not (0).',
    }),
  )
  const store = new Availability({ clock, logger, server: 'etcd' })
  const own = new Availability({ clock, logger, server: 'the lease store' })
  if (etcd !== undefined) {
    observeAvailability(
      store,
      metrics.gauge({
        name: 'apiserver_bootstrap_etcd_available',
        help: 'Whether etcd is available (1) or not (0).',
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

/** The ports of a dry run: the API logs each write instead of sending it, and every log line is marked. */
function dryRunPorts({ api, logger }: MasterPorts): Pick<MasterPorts, 'api' | 'logger'> {
  const marked = dryRunLogger(logger.child({ dryRun: true }))
  return { api: dryRunApi(api, marked), logger: marked }
}

/**
 * Records an Event whenever the master's own API server begins to refuse the readiness probe. If credentials have
 * expired, the Event is written once there are new ones. `address` is the master's, for the text of the Event.
 */
export function recordRefusals(
  monitor: Pick<ReadinessMonitor, 'subscribe'>,
  events: EventSink,
  address: string | undefined,
): void {
  let wasRefused = false
  const regarding = referenceIn(endpoints, { metadata: KUBERNETES_SERVICE })
  monitor.subscribe((answer) => {
    if (!answer.answered) return
    const { refused } = answer
    if (refused !== undefined && !wasRefused) {
      const note = `the readiness of the API server${address === undefined ? '' : ` of ${address}`} is unknown: ${refused}`
      events.record(eventOf('ReadinessRefused', { regarding, note }))
    }
    wasRefused = refused !== undefined
  })
}

/**
 * Part of the server's message when it refuses a ClusterIP that is already allocated. Upstream: `ErrAllocated` of
 * pkg/registry/core/service/ipallocator.
 */
const CLUSTER_IP_TAKEN = 'provided IP is already allocated'

/**
 * Resolves when `settled` does. After the first ready answer, checks every `timeoutMs` whether the server refuses
 * something that the start needs, and rejects if it does. A server that starts refuses requests until its admission and
 * RBAC are ready. A refusal that lasts longer does not end by itself, and a program that only logs it would seem to
 * work. An outage is no refusal.
 *
 * The ClusterIP of `default/kubernetes` may be taken only for a while: after a creation of the Service that failed
 * halfway, a repair deletes the IPAddress, or frees the bit in its third full pass. A process that ended before that
 * repair would be refused again at each start. So this process never ends because the ClusterIP is taken.
 * kube-apiserver does not, either.
 */
async function startedWithin(
  settled: Promise<void>,
  options: {
    readonly monitor: Pick<ReadinessMonitor, 'untilFirstReady'>
    readonly clock: Clock
    readonly timeoutMs: number
    readonly refusal: () => string | undefined
    readonly signal: AbortSignal
  },
): Promise<void> {
  const { monitor, clock, timeoutMs, refusal } = options
  const { controller: waiting, unlink } = linkedController(options.signal)
  const deadline = async ({ signal }: AbortController): Promise<never> => {
    await monitor.untilFirstReady(signal)
    for (;;) {
      await sleep(clock, timeoutMs, signal)
      const reason = refusal()
      if (reason === undefined || reason.includes(CLUSTER_IP_TAKEN)) continue
      const hint = lacksBitmap(reason) ? `; ${BITMAP_HINT}` : / is forbidden: /.test(reason) ? `; ${RIGHTS_HINT}` : ''
      throw new Error(`still refused after ${formatDuration(timeoutMs)}: ${reason}${hint}`)
    }
  }
  try {
    await Promise.race([abortable(settled, options.signal), deadline(waiting)])
  } finally {
    waiting.abort()
    unlink()
  }
}
