import { type FaultRule, type Faults, faultyTransport } from '../../src/apiserver/faults.ts'
import { EndpointSliceController, type EndpointSliceControllerOptions } from '../../src/endpointslice/controller.ts'
import { EndpointSliceMetrics } from '../../src/endpointslice/slice-metrics.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { SharedInformers } from '../../src/kube/informer.ts'
import {
  type EndpointSlice,
  endpointSlices,
  type Node,
  namespaces,
  nodes,
  type Pod,
  pods,
  type Service,
  services,
} from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../src/kube/transport.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { keptOfPod, keptOfService } from '../../src/workloads/kept.ts'
import { ServiceMembers } from '../../src/workloads/service-members.ts'
import { Embedded } from '../apiserver/embedded.ts'

/** What a Pod of these tests is like; the rest is a ready Pod on node-a that is selected by `app: web`. */
export interface PodLike {
  readonly labels?: Readonly<Record<string, string>>
  readonly ip?: string
  readonly ips?: readonly string[]
  readonly ready?: boolean
  readonly phase?: string
  readonly spec?: Partial<NonNullable<Pod['spec']>>
}

/** An embedded API server in simulated time, with the Nodes node-a and node-b, an endpointslice controller, and what it asked for. */
export class Cluster {
  readonly embedded: Embedded
  readonly events: EventToRecord[] = []
  /** Between the server and the controller. */
  readonly faults: Faults
  readonly api: KubeApi
  readonly metrics = prometheusMetrics()
  readonly #sliceMetrics = new EndpointSliceMetrics({ metrics: this.metrics, maxEndpointsPerSlice: 100 })
  readonly #transport: Transport
  readonly #written: string[] = []
  #controller: EndpointSliceController | undefined
  #terms = 0

  private constructor(embedded: Embedded) {
    this.embedded = embedded
    this.api = embedded.api
    const { clock } = embedded
    const transport = faultyTransport(embedded.transport, { clock, random: seededRandom(1, 'faults') })
    this.faults = transport.faults
    this.#transport = {
      send: (request, signal) => this.#send(transport, request, signal),
      close: () => transport.close(),
    }
  }

  static async started(): Promise<Cluster> {
    const embedded = await Embedded.started(['10.96.0.0/16', '2001:db8:96::/108'])
    await embedded.api.create(namespaces, { metadata: { name: 'other' } })
    const cluster = new Cluster(embedded)
    await cluster.node('node-a', 'zone-a')
    await cluster.node('node-b', 'zone-b')
    return cluster
  }

  /** Begins a term of a controller and lets it work for a while. Returns what ends it. */
  async lead(options: Partial<EndpointSliceControllerOptions> = {}, ms = 1_000): Promise<() => Promise<void>> {
    const { clock } = this.embedded
    const random = seededRandom(++this.#terms, 'term')
    const api = restKubeApi({ transport: this.#transport, clock, random, retry: { attempts: 1 } })
    const context = { api, clock, random, logger: silentLogger }
    const informers = new SharedInformers(context)
    const members = new ServiceMembers({
      services: informers.get(services, { transform: keptOfService }),
      pods: informers.get(pods, { transform: keptOfPod }),
    })
    const controller = new EndpointSliceController({
      ...context,
      informers,
      members,
      events: { record: (event) => this.events.push(event) },
      observer: { added() {}, started() {}, finished() {}, retried() {} },
      workers: 5,
      batchPeriodMs: 0,
      maxEndpointsPerSlice: 100,
      metrics: this.#sliceMetrics,
      ...options,
    })
    this.#controller = controller
    const ending = new AbortController()
    const running = Promise.all([informers.run(ending.signal), controller.run(ending.signal)])
    await this.pass(ms)
    return async () => {
      ending.abort()
      await running
    }
  }

  /** Says that the server has come back. */
  hasten(): void {
    this.#controller?.hasten()
  }

  /** Lets time pass. */
  pass(ms = 1_000): Promise<void> {
    return this.embedded.time.advance(ms)
  }

  fault(rule: FaultRule): () => void {
    return this.faults.add(rule)
  }

  /** What the controller wrote since this was last asked, with the statuses: `PUT 200`. */
  written(): readonly string[] {
    return this.#written.splice(0)
  }

  /** The syncs so far, by their result. */
  async syncs(): Promise<Readonly<Record<string, number>>> {
    const lines = (await this.metrics.expose()).matchAll(/^endpoint_slice_controller_syncs\{result="(\w+)"\} (\d+)$/gm)
    return Object.fromEntries([...lines].map(([, result, count]) => [result, Number(count)]))
  }

  service(name: string, spec: object = {}, metadata: object = {}): Promise<Service> {
    const whole = { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }], ...spec }
    return this.api.create(services, { metadata: { name, namespace: 'other', ...metadata }, spec: whole as object })
  }

  async updateService(name: string, change: (service: Service) => Service): Promise<void> {
    await this.api.update(services, change(await this.api.get(services, { namespace: 'other', name })))
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

  async pod(name: string, like: PodLike = {}): Promise<void> {
    const { labels = { app: 'web' }, spec } = like
    const containers = [{ name: 'main', image: 'example.com/web' }]
    await this.api.create(pods, {
      metadata: { namespace: 'other', name, labels },
      spec: { nodeName: 'node-a', containers, ...(spec as object) },
    })
    await this.podStatus(name, like)
  }

  async podStatus(name: string, { phase = 'Running', ready = true, ...like }: PodLike): Promise<void> {
    const ips = like.ips ?? (like.ip === undefined ? [] : [like.ip])
    const [podIP] = ips
    const lastTransitionTime = `${new Date(this.embedded.clock.wallMs()).toISOString().slice(0, 19)}Z`
    const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime }]
    const ipFields = podIP === undefined ? {} : { podIP, podIPs: ips.map((ip) => ({ ip })) }
    const live = await this.api.get(pods, { namespace: 'other', name })
    await this.api.update(pods, { ...live, status: { phase, conditions, ...ipFields } }, { subresource: 'status' })
  }

  /** Deletes a Pod as a kubelet ends the deletion. */
  async deletePod(name: string): Promise<void> {
    await this.embedded.send('DELETE', `/api/v1/namespaces/other/pods/${name}?gracePeriodSeconds=0`)
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

  /** The endpoints of each slice in one line, sorted: `192.0.2.1 !192.0.2.2 :8080`, those that are not ready with a mark. */
  async listed(service: string): Promise<readonly string[]> {
    return (await this.slices(service)).map(({ endpoints, ports }) =>
      [
        ...(endpoints ?? []).map(({ addresses, conditions }) => `${conditions?.ready ? '' : '!'}${addresses}`).sort(),
        ...(ports ?? []).map(({ port }) => `:${port}`),
      ].join(' '),
    )
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
