import { EndpointsController, type EndpointsControllerOptions } from '../../src/endpoints/controller.ts'
import { type Endpoints, endpoints } from '../../src/kube/resources.ts'
import { WorkloadCluster } from '../workloads/cluster.ts'

/** A cluster with an endpoints controller. */
export class Cluster extends WorkloadCluster<EndpointsControllerOptions> {
  static async started(): Promise<Cluster> {
    return new Cluster(await WorkloadCluster.open())
  }

  protected override make(options: EndpointsControllerOptions): EndpointsController {
    return new EndpointsController(options)
  }

  /** The methods of the requests since the last call, with the key and the status: `PUT other/foo 200`. */
  override written(): readonly string[] {
    return this.requests.splice(0).map(({ method, path, status, body }) => {
      const [, namespace, name] = /namespaces\/([^/]+)\/endpoints(?:\/([^/]+))?$/.exec(path) ?? []
      const { metadata } = (body ?? {}) as { readonly metadata?: { readonly name?: string } }
      return `${method} ${namespace}/${name ?? metadata?.name} ${status}`
    })
  }

  /** The Endpoints as the server has them; undefined if there are none. */
  async endpoints(name: string, namespace = 'other'): Promise<Endpoints | undefined> {
    const { items } = await this.api.list(endpoints, { namespace })
    return items.find(({ metadata }) => metadata?.name === name)
  }

  /** Each subset of Endpoints in one line: `192.0.2.1 192.0.2.2 !192.0.2.3 :8080`. A mark means not ready. */
  async listed(name: string): Promise<readonly string[]> {
    const found = await this.endpoints(name)
    return (found?.subsets ?? []).map(({ addresses = [], notReadyAddresses = [], ports = [] }) =>
      [
        ...addresses.map(({ ip }) => ip),
        ...notReadyAddresses.map(({ ip }) => `!${ip}`),
        ...ports.map(({ port }) => `:${port}`),
      ].join(' '),
    )
  }
}
