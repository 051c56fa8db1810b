import type { IpAddress, ServiceCidr } from '../../../src/kube/resources.ts'
import { ipAddresses, serviceCidrs } from '../../../src/kube/resources.ts'
import { newIpAddress } from '../../../src/repair/ip-address/ip-address.ts'
import { ServiceCidrProtectionController } from '../../../src/service-cidr/protection/controller.ts'
import type { WorkloadContext } from '../../../src/workloads/service-queue.ts'
import { Embedded } from '../../apiserver/embedded.ts'
import { WorkloadCluster } from '../../workloads/cluster.ts'

export const FINALIZER = 'networking.k8s.io/service-cidr-finalizer'

/** An IPAddress as the allocator creates it, for some Service. */
export function address(name: string): IpAddress {
  return newIpAddress(name, { namespace: 'default', name: 'web' })
}

/** A cluster with a service-cidr controller, without ServiceCIDRs at first. */
export class Cluster extends WorkloadCluster<WorkloadContext> {
  static async started(): Promise<Cluster> {
    return new Cluster(await Embedded.started([]))
  }

  protected override make(options: WorkloadContext): ServiceCidrProtectionController {
    return new ServiceCidrProtectionController(options)
  }

  async create(name: string, cidrs: readonly string[], finalizers: readonly string[] = []): Promise<void> {
    await this.api.create(serviceCidrs, { metadata: { name, finalizers }, spec: { cidrs } })
  }

  async delete(name: string): Promise<void> {
    await this.api.delete(serviceCidrs, { name })
  }

  async allocate(name: string): Promise<void> {
    await this.api.create(ipAddresses, address(name))
  }

  async release(name: string): Promise<void> {
    await this.api.delete(ipAddresses, { name })
  }

  async find(name: string): Promise<ServiceCidr | undefined> {
    return (await this.api.list(serviceCidrs)).items.find(({ metadata }) => metadata?.name === name)
  }

  /** The state in one line: `protected Ready=True`, `protected deleting Ready=False Terminating`, `gone`. */
  async state(name: string): Promise<string> {
    const found = await this.find(name)
    if (found === undefined) return 'gone'
    const { metadata, status } = found
    return [
      ...(metadata?.finalizers?.includes(FINALIZER) ? ['protected'] : []),
      ...(metadata?.deletionTimestamp === undefined ? [] : ['deleting']),
      ...(status?.conditions ?? []).map(({ type, status, reason }) => `${type}=${status} ${reason ?? ''}`.trim()),
    ].join(' ')
  }

  /** The writes since the last call: `patch servicecidrs/a status 200`. */
  override written(): readonly string[] {
    return this.requests.splice(0).map(({ method, path, status }) => {
      const [, name = '', subresource = ''] = /servicecidrs\/([^/]+)(?:\/(\w+))?$/.exec(path) ?? []
      return [method.toLowerCase(), name, subresource, status].filter((part) => part !== '').join(' ')
    })
  }
}
