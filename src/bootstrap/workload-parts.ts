import { EndpointsController } from '../endpoints/controller.ts'
import { EndpointSliceController } from '../endpointslice/controller.ts'
import { EndpointSliceMirroringController } from '../endpointslice/mirroring/controller.ts'
import { MirroringMetrics } from '../endpointslice/mirroring/mirroring-metrics.ts'
import { managedByLabel } from '../endpointslice/slice.ts'
import { EndpointSliceMetrics } from '../endpointslice/slice-metrics.ts'
import { fencedApi } from '../kube/api-wrappers.ts'
import { recordingAs } from '../kube/event-object.ts'
import { InformerScope, SharedInformers } from '../kube/informer.ts'
import { LeaderElector } from '../kube/leader-election.ts'
import { MissingRights } from '../kube/missing-rights.ts'
import { type Endpoints, endpointSlices, pods, services } from '../kube/resources.ts'
import { keyOf } from '../kube/store.ts'
import { KUBERNETES_SERVICE, SKIP_MIRROR_LABEL } from '../kubernetes-service/identity.ts'
import { randomUuid } from '../runtime/random.ts'
import { together } from '../runtime/signals.ts'
import { SERVICE_CIDR_CONTROLLER, ServiceCidrProtectionController } from '../service-cidr/protection/controller.ts'
import { workQueueMetrics } from '../telemetry/metrics.ts'
import { ServiceMembers } from '../workloads/service-members.ts'
import type { WorkloadContext, WorkloadController, WritePause } from '../workloads/service-queue.ts'
import { trimEndpointSlice, trimPod, trimService } from '../workloads/trimmed.ts'
import type { ActiveDuties } from './active-duties.ts'
import { isSelected, type WorkloadControllerName, workloadControllerNames } from './duties.ts'
import { type DutyHealth, type DutyTerm, supervised } from './duty-health.ts'
import type { PartPorts } from './kubernetes-service-parts.ts'
import type { MasterOptions, SyncOptions } from './master-options.ts'

/**
 * Each watcher gets the whole Endpoints object, however little has changed. So the Endpoints of a Service with fifty
 * addresses or more are written at most once a second, with five addresses at most ten times a second.
 */
const endpointsPause: WritePause = (addresses) => Math.min(20 * addresses, 1_000)

/**
 * At most about 75 slices of one Service are written in a second. This delays only Services of which many slices
 * change. Even with 5,000 Pods, of which 100 change in a second, clients see a change in half the time that
 * kube-controller-manager needs, after fewer writes.
 */
const slicesPause: WritePause = (slices) => 13.5 * slices

type Term = Pick<WorkloadContext, 'informers' | 'members'>

/** Makes a new controller for each term. Counters continue from term to term. */
interface Maker {
  readonly name: WorkloadControllerName
  /** What the API server refuses to the controller. */
  readonly rights: MissingRights
  make(term: Term): WorkloadController
}

/** Whether a controller uses the Pods that each Service selects: the `members` of a term. */
function usesMembers(name: WorkloadControllerName): boolean {
  return name === 'endpoints' || name === 'endpointslice'
}

const noMembers: Term['members'] = { podsOf: () => [], subscribe: () => () => {} }

export type WorkloadHealth = (name: WorkloadControllerName) => Pick<DutyHealth, 'begun' | 'crashed'>

/**
 * Returns a function that runs the controllers while this process leads, until the signal is aborted; undefined if none
 * of the controllers was requested.
 */
export function composeWorkloads(
  options: MasterOptions,
  ports: PartPorts,
  active: Pick<ActiveDuties, 'set'>,
  healthOf: WorkloadHealth,
): ((signal: AbortSignal) => Promise<void>) | undefined {
  const names = workloadControllerNames.filter((name) => isSelected(options.controllers, name))
  const setLeading = (value: 0 | 1): void => {
    for (const name of names) active.set({ duty: name }, value)
  }
  for (const name of workloadControllerNames) active.set({ duty: name }, 0)
  if (names.length === 0) return undefined
  const { leaderElection } = options.workloads
  // A dry run has no election: it writes no Lease, and may observe while another process leads.
  const elector =
    leaderElection === undefined || options.dryRun
      ? undefined
      : new LeaderElector({ ...ports, ...leaderElection, identity: `${options.host}_${randomUuid(ports.random)}` })
  const api = elector === undefined ? ports.api : fencedApi(ports.api, () => elector.isLeader)
  const makers = names.map((name) => {
    const rights = new MissingRights(ports.clock)
    return { name, rights, make: makerOf(name, options, { ...ports, api: rights.recorded(api) }) }
  })
  // A process that does not lead counts as settled, because it has nothing to do.
  const waiting = { settled: Promise.resolve() }
  const all = {
    begun() {
      for (const name of names) healthOf(name).begun(waiting)
    },
    crashed(error: unknown) {
      for (const name of names) healthOf(name).crashed(error)
    },
  }
  const lead = async (signal: AbortSignal): Promise<void> => {
    setLeading(1)
    await runTerm(makers, ports, healthOf, signal).finally(() => {
      setLeading(0)
      all.begun()
    })
  }
  const run = (signal: AbortSignal): Promise<void> => (elector === undefined ? lead(signal) : elector.run(signal, lead))
  return (signal) => supervised({ ...ports, make: () => ({ ...waiting, run }), health: all }, signal)
}

async function runTerm(
  makers: readonly Maker[],
  ports: PartPorts,
  healthOf: WorkloadHealth,
  signal: AbortSignal,
): Promise<void> {
  const informers = new SharedInformers(ports)
  // Created before the controllers, because it must receive each change first.
  const members = makers.some(({ name }) => usesMembers(name))
    ? new ServiceMembers({
        services: informers.get(services, { transform: trimService }),
        pods: informers.get(pods, { transform: trimPod }),
      })
    : noMembers
  const controllers = new Set<WorkloadController>()
  const unsubscribe = ports.availability.subscribe((available) => {
    if (available) for (const controller of controllers) controller.expedite()
  })
  const termOf = (maker: Maker): DutyTerm => {
    const scope = new InformerScope(informers)
    if (usesMembers(maker.name)) {
      // `members` depends on these two informers. The controller must not begin before they are synced.
      scope.get(services, { transform: trimService })
      scope.get(pods, { transform: trimPod })
    }
    const controller = maker.make({
      informers: scope,
      members: {
        podsOf: (service) => members.podsOf(service),
        subscribe: (handler) => scope.subscribe((guarded) => members.subscribe(guarded), handler),
      },
    })
    controllers.add(controller)
    maker.rights.forget()
    return {
      settled: scope.whenSynced(signal),
      fault: () => maker.rights.fault(),
      run: (ending) =>
        scope.run(ending, (ending) => controller.run(ending)).finally(() => controllers.delete(controller)),
    }
  }
  try {
    await together(signal, [
      (signal) => informers.run(signal),
      ...makers.map((maker) => (signal: AbortSignal) => {
        return supervised({ ...ports, make: () => termOf(maker), health: healthOf(maker.name) }, signal)
      }),
    ])
  } finally {
    unsubscribe()
  }
}

function makerOf(name: WorkloadControllerName, options: MasterOptions, ports: PartPorts): Maker['make'] {
  const { workloads } = options
  const isManagedByMasters = managedByMasters(options)
  const isExcluded = (key: string, current: Endpoints | undefined): boolean =>
    isManagedByMasters(key, isMastersEndpoints(current))
  switch (name) {
    case 'endpoints': {
      const context = contextOf('endpoint', 'endpoint-controller', name, ports)
      return (term) =>
        new EndpointsController({
          ...context(),
          ...workloads.endpoints,
          ...term,
          isExcluded,
          writePause: endpointsPause,
        })
    }
    case 'endpointslice': {
      const { maxEndpointsPerSlice } = workloads.endpointSlice
      const context = contextOf('endpoint_slice', 'endpoint-slice-controller', name, ports)
      const metrics = new EndpointSliceMetrics({ metrics: ports.metrics, maxEndpointsPerSlice })
      return (term) =>
        new EndpointSliceController({
          isExcluded: (key) => isManagedByMasters(key, hasMastersSlice(term)),
          ...context(),
          ...workloads.endpointSlice,
          ...term,
          metrics,
          writePause: slicesPause,
        })
    }
    case 'endpointslice-mirroring': {
      const context = contextOf('endpoint_slice_mirroring', 'endpoint-slice-mirroring-controller', name, ports)
      const metrics = new MirroringMetrics(ports.metrics)
      return (term) =>
        new EndpointSliceMirroringController({
          ...context(),
          ...workloads.mirroring,
          ...term,
          metrics,
          isExcluded,
        })
    }
    case 'service-cidr': {
      const context = contextOf('ipaddresses', SERVICE_CIDR_CONTROLLER, name, ports)
      return ({ informers }) => new ServiceCidrProtectionController({ ...context(), informers })
    }
  }
}

/**
 * Returns a function to be called once per term. It returns those inputs of a controller that are the same in all
 * terms, and makes the metrics forget the keys in the previous term's queue.
 */
function contextOf(
  queue: string,
  reporter: string,
  controller: WorkloadControllerName,
  ports: PartPorts,
): () => Omit<WorkloadContext, keyof Term | keyof SyncOptions> {
  const { metrics, clock } = ports
  const observer = workQueueMetrics({ metrics, clock, name: queue })
  const logger = ports.logger.child({ controller })
  const events = recordingAs(reporter, ports.events)
  return () => {
    observer.restart()
    return { ...ports, logger, events, observer }
  }
}

/**
 * Returns a function that decides whether masters maintain a Service: only `default/kubernetes`, and only if this
 * process manages it or its objects have the mark of masters (`isMarked`). Upstream's controllers do not exclude this
 * Service: they delete its Endpoints when it is deleted, and create slices for it if it gets a selector. The masters
 * could correct that only after clients have seen it.
 */
function managedByMasters(options: MasterOptions): (key: string, isMarked: boolean) => boolean {
  const managedHere = isSelected(options.controllers, 'kubernetes-service')
  return (key, isMarked) => key === keyOf(KUBERNETES_SERVICE) && (managedHere || isMarked)
}

/** Only masters give Endpoints `default/kubernetes` this label. */
function isMastersEndpoints(current: Endpoints | undefined): boolean {
  return current?.metadata?.labels?.[SKIP_MIRROR_LABEL] === 'true'
}

/** A slice `kubernetes` without a managed-by label is the masters'. */
function hasMastersSlice({ informers }: Term): boolean {
  const slice = informers.get(endpointSlices, { transform: trimEndpointSlice }).store.get(KUBERNETES_SERVICE)
  return slice !== undefined && slice.metadata?.labels?.[managedByLabel] === undefined
}
