import { describeSelection } from '../kube/reflector.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import { SystemNamespacesController } from '../namespaces/controller.ts'
import { aborted } from '../runtime/signals.ts'
import { DefaultServiceCidrController } from '../service-cidr/controller.ts'
import { ActiveDuties } from './active-duties.ts'
import {
  type ControllerName,
  DutyDecisions,
  isSelected,
  type WorkloadControllerName,
  workloadControllerNames,
} from './duties.ts'
import { DutyHealth, type DutyTerm, supervised } from './duty-health.ts'
import { neededResources, suspendWhileUnserved } from './duty-suspender.ts'
import { DutySwitch, type DutySwitchOptions } from './duty-switch.ts'
import type { PartPorts } from './kubernetes-service-parts.ts'
import type { MasterOptions } from './master-options.ts'
import { composeRepairs } from './repair-parts.ts'
import { partAvailability } from './servers-availability.ts'
import { composeWorkloads } from './workload-parts.ts'

/**
 * Composes all duties of a master except `kubernetes-service`. None of them can end the program: a duty that fails is
 * degraded, and retries.
 */
export function composeDuties(options: MasterOptions, ports: PartPorts, monitor: ReadinessMonitor) {
  const { clock, random, metrics, availability: servers } = ports
  const { controllers: selection, startupTimeoutMs: timeoutMs, dryRun } = options
  const active = new ActiveDuties(
    metrics.gauge({
      name: 'apiserver_bootstrap_duty_active',
      help: 'Whether this process performs a duty now (1). 0: it is off, suspended, or done by the server or another process.',
      labels: ['duty'],
    }),
  )
  const degraded = metrics.gauge({
    name: 'apiserver_bootstrap_duty_degraded',
    help: 'Whether a duty fails, or has been refused or incomplete for --repair-startup-timeout (1). It is retried.',
    labels: ['duty'],
  })
  const decisions = new DutyDecisions({ selection, monitor, clock })
  const isDoneHere = (name: ControllerName): boolean => decisions.of(name)?.type.startsWith('on') === true
  const healths = new Map<ControllerName, DutyHealth>()
  const as = (name: ControllerName) => ({ ...ports, logger: ports.logger.child({ controller: name }) })
  const healthOf = (name: ControllerName, refusal: () => string | undefined): DutyHealth => {
    const health = new DutyHealth({ ...as(name), name, degraded, timeoutMs, dryRun, refusal })
    if (!isSelected(selection, name)) return health
    healths.set(name, health)
    suspendWhileUnserved(name, health, { ...ports, active, isOn: () => isDoneHere(name) })
    return health
  }
  const switched = (
    name: ControllerName,
    health: DutyHealth,
    duty: Pick<DutySwitchOptions, 'make' | 'reports' | 'early'>,
  ) => new DutySwitch({ ...as(name), ...duty, name, decisions, health, active })
  const foundation = (
    name: ControllerName,
    hook: string,
    makeOf: (parts: PartPorts, ...args: Parameters<DutySwitchOptions['make']>) => DutyTerm,
    early = false,
  ) => {
    const availability = partAvailability(servers)
    const health = healthOf(name, () => availability.refusal())
    const make: DutySwitchOptions['make'] = (...args) => makeOf({ ...as(name), availability }, ...args)
    return { name, hook, value: switched(name, health, { make, early: early && isSelected(selection, name) }) }
  }

  const foundations = [
    // This duty starts early, because in a new cluster the server delays the first Lease and the Service by 50 ms if
    // their namespace is missing.
    foundation(
      'system-namespaces',
      'start-system-namespaces-controller',
      (parts, names, decided) => new SystemNamespacesController({ ...parts, names, mayWrite: decided }),
      true,
    ),
    foundation('default-service-cidr', 'start-kubernetes-service-cidr-controller', (parts) => {
      return new DefaultServiceCidrController({ ...parts, ranges: options.serviceClusterIpRanges })
    }),
  ]

  const composed = composeRepairs(options, ports, { monitor, decisions }) ?? { duties: [], run: aborted }
  const remarks = new Map(composed.duties.map(({ name, remark }) => [name as ControllerName, remark]))
  const repairs = composed.duties.map(({ name, make, refusal }) => {
    const health = healthOf(name, refusal)
    return { name, health, value: switched(name, health, { make, reports: true }) }
  })
  const followServices = (signal: AbortSignal): Promise<void> => {
    const all = {
      begun() {
        for (const { health } of repairs) health.recovered()
      },
      crashed(error: unknown) {
        for (const { health } of repairs) health.crashed(error)
      },
    }
    const make = () => ({ run: composed.run, settled: Promise.resolve() })
    return supervised({ clock, random, make, health: all }, signal)
  }

  const { leaderElection } = options.workloads
  const lease = leaderElection === undefined ? [] : [`lease ${leaderElection.namespace}/${leaderElection.name}`]
  const workloadHealths = Object.fromEntries(
    workloadControllerNames.map((name) => {
      // The names by which the reflectors report failures of these resources.
      const followed = neededResources[name].map((resource) => describeSelection(resource))
      return [name, healthOf(name, () => servers.refusalOf(...followed, ...lease))]
    }),
  ) as Record<WorkloadControllerName, DutyHealth>
  const workloads = composeWorkloads(options, ports, active, (name) => workloadHealths[name])

  const serviceSuspended = Promise.withResolvers<void>()
  active.set({ duty: 'kubernetes-service' }, isSelected(selection, 'kubernetes-service') ? 1 : 0)
  if (isSelected(selection, 'kubernetes-service')) {
    const health = { suspended: serviceSuspended.resolve, resumed() {} }
    suspendWhileUnserved('kubernetes-service', health, { ...ports, active, isOn: () => true })
  }
  monitor.subscribe(({ answered }) => {
    const away = !answered || !servers.isEtcdAvailable()
    for (const [name, health] of healths) {
      // This duty starts early. Its term writes nothing until an answer has decided who does the duty.
      const isOpen = name === 'system-namespaces' && decisions.of(name) === undefined
      health.check({ away: away || isOpen })
    }
  })
  const kubernetesServiceSuspended = serviceSuspended.promise
  return { foundations, repairs, followServices, workloads, healths, remarks, kubernetesServiceSuspended }
}
