import {
  endpointSlices,
  endpoints,
  ipAddresses,
  type KubeObject,
  namespaces,
  nodes,
  pods,
  qualifiedPlural,
  type Resource,
  serviceCidrs,
  services,
} from '../kube/resources.ts'
import type { ServedResources } from '../kube/served-resources.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { ActiveDuties } from './active-duties.ts'
import type { ControllerName } from './duties.ts'
import type { DutyHealth } from './duty-health.ts'

/** The resources that each duty needs. While one of them is not served, the duty is suspended. */
export const neededResources: Readonly<Record<ControllerName, readonly Resource<KubeObject>[]>> = {
  'kubernetes-service': [services, endpoints, endpointSlices],
  'system-namespaces': [namespaces],
  'default-service-cidr': [serviceCidrs],
  'cluster-ip-repair': [services],
  'node-port-repair': [services],
  endpoints: [services, pods, endpoints],
  endpointslice: [services, pods, nodes, endpointSlices],
  'endpointslice-mirroring': [services, endpoints, endpointSlices],
  'service-cidr': [serviceCidrs, ipAddresses],
}

/**
 * Reports a duty as suspended, to `health` and `active`, while the server does not serve a resource that the duty
 * needs. The term of the duty continues, and waits for the resource. Logs this only if the duty is on here.
 */
export function suspendWhileUnserved(
  duty: ControllerName,
  health: Pick<DutyHealth, 'suspended' | 'resumed'>,
  options: {
    readonly served?: ServedResources | undefined
    readonly logger: Logger
    readonly active: Pick<ActiveDuties, 'suspend' | 'resume'>
    /** Whether this process carries out the duty when its resources are served. */
    readonly isOn: () => boolean
  },
): void {
  const { served, logger, active, isOn } = options
  let suspended = false
  served?.subscribe(() => {
    const resources = neededResources[duty].filter((resource) => served.isMissing(resource)).map(qualifiedPlural)
    if (resources.length > 0 === suspended) return
    suspended = !suspended
    if (suspended) {
      health.suspended()
      active.suspend(duty)
    } else {
      health.resumed()
      active.resume(duty)
    }
    if (!isOn()) return
    if (!suspended) {
      logger.info({ duty }, 'the server now serves the resources of this duty; continuing it')
      return
    }
    logger.info(
      { duty, resources },
      `the server does not serve the resources of this duty; waiting until it does (to turn the duty off, change --controllers: remove ${duty}, or add -${duty})`,
    )
  })
}
