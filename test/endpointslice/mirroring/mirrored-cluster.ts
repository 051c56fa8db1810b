import {
  EndpointSliceMirroringController,
  type EndpointSliceMirroringOptions,
} from '../../../src/endpointslice/mirroring/controller.ts'
import { MirroringMetrics } from '../../../src/endpointslice/mirroring/mirroring-metrics.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type Service,
} from '../../../src/kube/resources.ts'
import type { WorkloadContext } from '../../../src/workloads/service-queue.ts'
import { WorkloadCluster } from '../../workloads/cluster.ts'

type Subsets = NonNullable<Endpoints['subsets']>

/** One subset of Endpoints with port 80. Addresses with the mark `!` are not ready. */
export function subsetOf(...ips: readonly string[]): Subsets {
  const addresses = ips.filter((ip) => !ip.startsWith('!')).map((ip) => ({ ip }))
  const notReadyAddresses = ips.filter((ip) => ip.startsWith('!')).map((ip) => ({ ip: ip.slice(1) }))
  return [{ addresses, notReadyAddresses, ports: [{ port: 80, protocol: 'TCP' }] }]
}

/** A cluster with an endpointslice-mirroring controller. */
export class MirroredCluster extends WorkloadCluster<EndpointSliceMirroringOptions> {
  readonly #mirroringMetrics = new MirroringMetrics(this.metrics)

  static async started(): Promise<MirroredCluster> {
    return new MirroredCluster(await WorkloadCluster.open())
  }

  protected override make(
    options: WorkloadContext & Partial<EndpointSliceMirroringOptions>,
  ): EndpointSliceMirroringController {
    return new EndpointSliceMirroringController({
      maxEndpointsPerSubset: 1000,
      metrics: this.#mirroringMetrics,
      ...options,
    })
  }

  /** Creates a Service without a selector. */
  override service(name: string, spec: object = {}, metadata: object = {}): Promise<Service> {
    return super.service(name, { selector: undefined, ports: [{ port: 80 }], ...spec }, metadata)
  }

  updateSpec(name: string, spec: object): Promise<void> {
    return this.updateService(name, (live) => ({ ...live, spec: { ...live.spec, ...spec } as never }))
  }

  endpoints(name: string, subsets: Subsets, metadata: object = {}): Promise<Endpoints> {
    return this.api.create(endpoints, { metadata: { name, namespace: 'other', ...metadata }, subsets })
  }

  async updateEndpoints(name: string, subsets: Subsets, metadata: object = {}): Promise<void> {
    const live = await this.api.get(endpoints, { namespace: 'other', name })
    await this.api.update(endpoints, { ...live, metadata: { ...live.metadata, ...metadata } as never, subsets })
  }

  /** The slices that name a Service. */
  async slices(service: string): Promise<readonly EndpointSlice[]> {
    const labelSelector = `kubernetes.io/service-name=${service}`
    return (await this.api.list(endpointSlices, { namespace: 'other', labelSelector })).items
  }

  /** The addresses of each slice in one line, with a mark if not ready. The lines are sorted. */
  async listed(service: string): Promise<readonly string[]> {
    const lines = (await this.slices(service)).map(({ endpoints }) =>
      (endpoints ?? []).map(({ addresses, conditions }) => `${conditions?.ready ? '' : '!'}${addresses}`).join(' '),
    )
    return lines.sort()
  }

  /** The value of a metric of mirroring. */
  async metric(name: string): Promise<number> {
    const start = `endpoint_slice_mirroring_controller_${name} `
    const line = (await this.metrics.expose()).split('\n').find((line) => line.startsWith(start))
    return Number(line?.slice(start.length))
  }
}
