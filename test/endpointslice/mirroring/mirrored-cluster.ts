import { type Faults, faultyTransport } from '../../../src/apiserver/faults.ts'
import {
  EndpointSliceMirroringController,
  type EndpointSliceMirroringOptions,
} from '../../../src/endpointslice/mirroring/controller.ts'
import { MirroringMetrics } from '../../../src/endpointslice/mirroring/mirroring-metrics.ts'
import type { EventToRecord } from '../../../src/kube/event-object.ts'
import { SharedInformers } from '../../../src/kube/informer.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  namespaces,
  pods,
  type Service,
  services,
} from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../../src/kube/transport.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import { keptOfPod, keptOfService } from '../../../src/workloads/kept.ts'
import { ServiceMembers } from '../../../src/workloads/service-members.ts'
import { Embedded } from '../../apiserver/embedded.ts'

type Subsets = NonNullable<Endpoints['subsets']>

/** One subset of Endpoints with port 80: those with a mark are not ready. */
export function subsetOf(...ips: readonly string[]): Subsets {
  const addresses = ips.filter((ip) => !ip.startsWith('!')).map((ip) => ({ ip }))
  const notReadyAddresses = ips.filter((ip) => ip.startsWith('!')).map((ip) => ({ ip: ip.slice(1) }))
  return [{ addresses, notReadyAddresses, ports: [{ port: 80, protocol: 'TCP' }] }]
}

/** An embedded API server in simulated time, an endpointslice-mirroring controller, and what it wrote. */
export class MirroredCluster {
  readonly events: EventToRecord[] = []
  /** Between the server and the controller. */
  readonly faults: Faults
  readonly metrics = prometheusMetrics()
  readonly #embedded: Embedded
  readonly #mirroringMetrics = new MirroringMetrics(this.metrics)
  readonly #transport: Transport
  readonly #written: string[] = []
  #terms = 0

  private constructor(embedded: Embedded) {
    this.#embedded = embedded
    const { clock } = embedded
    const transport = faultyTransport(embedded.transport, { clock, random: seededRandom(1, 'faults') })
    this.faults = transport.faults
    this.#transport = {
      send: (request, signal) => this.#send(transport, request, signal),
      close: () => transport.close(),
    }
  }

  static async started(): Promise<MirroredCluster> {
    const embedded = await Embedded.started(['10.96.0.0/16', '2001:db8:96::/108'])
    await embedded.api.create(namespaces, { metadata: { name: 'other' } })
    return new MirroredCluster(embedded)
  }

  get api() {
    return this.#embedded.api
  }

  /** Begins a term of a controller and lets it work for a while. Returns what ends it, and the controller. */
  async lead(options: Partial<EndpointSliceMirroringOptions> = {}) {
    const { clock } = this.#embedded
    const random = seededRandom(++this.#terms, 'term')
    const api = restKubeApi({ transport: this.#transport, clock, random, retry: { attempts: 1 } })
    const context = { api, clock, random, logger: silentLogger }
    const informers = new SharedInformers(context)
    const members = new ServiceMembers({
      services: informers.get(services, { transform: keptOfService }),
      pods: informers.get(pods, { transform: keptOfPod }),
    })
    const controller = new EndpointSliceMirroringController({
      ...context,
      informers,
      members,
      events: { record: (event) => this.events.push(event) },
      observer: { added() {}, started() {}, finished() {}, retried() {} },
      workers: 5,
      batchPeriodMs: 0,
      maxEndpointsPerSubset: 1000,
      metrics: this.#mirroringMetrics,
      ...options,
    })
    const ending = new AbortController()
    const running = Promise.all([informers.run(ending.signal), controller.run(ending.signal)])
    await this.pass()
    const stop = async (): Promise<void> => {
      ending.abort()
      await running
    }
    return { stop, controller }
  }

  /** Lets time pass. */
  pass(ms = 1_000): Promise<void> {
    return this.#embedded.time.advance(ms)
  }

  /** What the controller wrote since this was last asked, with the statuses: `PUT 200`. */
  written(): readonly string[] {
    return this.#written.splice(0)
  }

  service(name: string, spec: object = {}, namespace = 'other'): Promise<Service> {
    return this.api.create(services, { metadata: { name, namespace }, spec: { ports: [{ port: 80 }], ...spec } })
  }

  async updateService(name: string, spec: object): Promise<void> {
    const live = await this.api.get(services, { namespace: 'other', name })
    await this.api.update(services, { ...live, spec: { ...live.spec, ...spec } as never })
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

  /** The addresses of each slice in one line, those that are not ready with a mark; sorted. */
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

  async #send(inner: Transport, request: ApiRequest, signal: AbortSignal) {
    if (request.method === 'GET') return inner.send(request, signal)
    try {
      const response = await inner.send(request, signal)
      this.#written.push(`${request.method} ${response.status}`)
      return response
    } catch (error) {
      this.#written.push(`${request.method} lost`)
      throw error
    }
  }
}
