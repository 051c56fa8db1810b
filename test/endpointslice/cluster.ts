import { EndpointSliceController, type EndpointSliceControllerOptions } from '../../src/endpointslice/controller.ts'
import { EndpointSliceMetrics } from '../../src/endpointslice/slice-metrics.ts'
import { type EndpointSlice, endpointSlices, type Node, nodes } from '../../src/kube/resources.ts'
import type { WorkloadContext } from '../../src/workloads/service-queue.ts'
import { WorkloadCluster } from '../workloads/cluster.ts'

type Options = EndpointSliceControllerOptions

/** A cluster with an endpointslice controller and the Nodes node-a and node-b. */
export class Cluster extends WorkloadCluster<Options> {
  readonly #sliceMetrics = new EndpointSliceMetrics({ metrics: this.metrics, maxEndpointsPerSlice: 100 })

  static async started(): Promise<Cluster> {
    const cluster = new Cluster(await WorkloadCluster.open())
    await cluster.node('node-a', 'zone-a')
    await cluster.node('node-b', 'zone-b')
    return cluster
  }

  protected override make(options: WorkloadContext & Partial<Options>): EndpointSliceController {
    return new EndpointSliceController({ maxEndpointsPerSlice: 100, metrics: this.#sliceMetrics, ...options })
  }

  /** Reports to the controller that the server is available again. */
  expedite(): void {
    this.controller?.expedite()
  }

  /** The syncs so far, by their result. */
  async syncs(): Promise<Readonly<Record<string, number>>> {
    const lines = (await this.metrics.expose()).matchAll(/^endpoint_slice_controller_syncs\{result="(\w+)"\} (\d+)$/gm)
    return Object.fromEntries([...lines].map(([, result, count]) => [result, Number(count)]))
  }

  async node(name: string, zone?: string): Promise<void> {
    const labels = zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone }
    await this.api.create(nodes, { metadata: { name, labels } })
    await this.nodeStatus(name)
  }

  async nodeStatus(name: string, ready = true): Promise<void> {
    const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }]
    const live = await this.api.get(nodes, { name })
    const status = { conditions, allocatable: { cpu: '1' } } as unknown as NonNullable<Node['status']>
    await this.api.update(nodes, { ...live, status }, { subresource: 'status' })
  }

  async moveNode(name: string, zone: string): Promise<void> {
    const live = await this.api.get(nodes, { name })
    const labels = { 'topology.kubernetes.io/zone': zone }
    await this.api.update(nodes, { ...live, metadata: { ...live.metadata, labels } })
  }

  /** The slices that name a Service. */
  async slices(service: string): Promise<readonly EndpointSlice[]> {
    const labelSelector = `kubernetes.io/service-name=${service}`
    return (await this.api.list(endpointSlices, { namespace: 'other', labelSelector })).items
  }

  /** The one slice that a Service has. */
  async slice(service: string): Promise<EndpointSlice> {
    const [slice, ...others] = await this.slices(service)
    if (slice === undefined || others.length > 0) throw new Error(`${service} has ${others.length + 1} slices, or none`)
    return slice
  }

  async updateSlice(service: string, change: (slice: EndpointSlice) => EndpointSlice): Promise<void> {
    await this.api.update(endpointSlices, change(await this.slice(service)))
  }

  /** The endpoints of each slice in one line, sorted: `192.0.2.1 !192.0.2.2 :8080`. A mark means not ready. */
  async listed(service: string): Promise<readonly string[]> {
    return (await this.slices(service)).map(({ endpoints, ports }) =>
      [
        ...(endpoints ?? []).map(({ addresses, conditions }) => `${conditions?.ready ? '' : '!'}${addresses}`).sort(),
        ...(ports ?? []).map(({ port }) => `:${port}`),
      ].join(' '),
    )
  }
}
