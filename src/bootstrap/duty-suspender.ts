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
import type { ControllerName } from './duties.ts'

/** The resources that each duty needs. While one of them is not served, the duty is suspended. */
const needs: Readonly<Record<ControllerName, readonly Resource<KubeObject>[]>> = {
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

interface SuspendableDuty {
  /** Whether this process carries out the duty when its resources are served. */
  isOn(): boolean
  suspend(): void
  resume(): void
}

/** Suspends a duty while the server does not serve its resources. Logs this only for duties that are on here. */
export class DutySuspender {
  readonly #served: ServedResources | undefined
  readonly #logger: Logger

  constructor(options: { readonly served?: ServedResources | undefined; readonly logger: Logger }) {
    this.#served = options.served
    this.#logger = options.logger
  }

  add(name: ControllerName, duty: SuspendableDuty): void {
    let suspended = false
    this.#served?.subscribe(() => {
      const lacking = needs[name].filter((resource) => this.#served?.isMissing(resource)).map(qualifiedPlural)
      if (lacking.length > 0 === suspended) return
      suspended = !suspended
      if (suspended) duty.suspend()
      else duty.resume()
      if (duty.isOn()) this.#log(name, lacking)
    })
  }

  #log(duty: ControllerName, resources: readonly string[]): void {
    if (resources.length === 0) {
      this.#logger.info({ duty }, 'the server now serves the resources of this duty; starting it')
      return
    }
    this.#logger.info(
      { duty, resources },
      `the server does not serve the resources of this duty; waiting until it does (turn the duty off with --controllers=auto,-${duty})`,
    )
  }
}
