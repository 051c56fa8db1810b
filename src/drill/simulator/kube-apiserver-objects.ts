import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { namespaces, serviceCidrs, services } from '../../kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { planService } from '../../kubernetes-service/service-plan.ts'
import { SYSTEM_NAMESPACES } from '../../namespaces/namespaces-plan.ts'
import { parseCidr, serviceIpOf } from '../../net/cidr.ts'
import { planServiceCidr } from '../../service-cidr/service-cidr-plan.ts'

/** Of a simulated kube-apiserver, and of a master that is told nothing else. */
export const SERVICE_RANGE = parseCidr('10.96.0.0/12')

/**
 * What a kube-apiserver makes besides its address, where it is missing: the system namespaces, the default ServiceCIDR and, at each tick,
 * the Service. What is there is left as it is: upstream never mends a Service (pkg/controlplane/controller/kubernetesservice).
 */
export class KubeApiserverObjects {
  readonly #api: KubeApi

  constructor(api: KubeApi) {
    this.#api = api
  }

  async ensureNamespaces(): Promise<void> {
    for (const name of SYSTEM_NAMESPACES) {
      if (await this.#isMissing(this.#api.get(namespaces, { name }))) {
        await this.#made(this.#api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }))
      }
    }
  }

  async ensureServiceCidr(): Promise<void> {
    if (!(await this.#isMissing(this.#api.get(serviceCidrs, { name: 'kubernetes' })))) return
    const plan = planServiceCidr(undefined, [SERVICE_RANGE.text])
    if (plan.type === 'create') await this.#made(this.#api.create(serviceCidrs, plan.serviceCidr))
  }

  async ensureService(securePort: number): Promise<void> {
    if (!(await this.#isMissing(this.#api.get(services, KUBERNETES_SERVICE)))) return
    // Both may be on their way; without them it is refused, and made a tick later.
    await this.ensureNamespaces()
    await this.ensureServiceCidr()
    const clusterIp = serviceIpOf(SERVICE_RANGE).text
    const plan = planService(undefined, { clusterIp, securePort, nodePort: 0 }, true)
    if (plan.type === 'create') await this.#made(this.#api.create(services, plan.object))
  }

  async #isMissing(read: Promise<unknown>): Promise<boolean> {
    try {
      await read
      return false
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return true
      throw error
    }
  }

  /** Whoever else makes it at the same moment makes the same. */
  async #made(creation: Promise<unknown>): Promise<void> {
    try {
      await creation
    } catch (error) {
      if (!isKubeError(error, 'AlreadyExists')) throw error
    }
  }
}
