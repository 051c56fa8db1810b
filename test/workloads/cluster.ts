import assert from 'node:assert/strict'
import { type FaultRule, type Faults, faultyTransport } from '../../src/apiserver/faults.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { SharedInformers } from '../../src/kube/informer.ts'
import { namespaces, type Pod, pods, type Service, services } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../src/kube/transport.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { ServiceMembers } from '../../src/workloads/service-members.ts'
import type { WorkloadContext, WorkloadController } from '../../src/workloads/service-queue.ts'
import { trimPod, trimService } from '../../src/workloads/trimmed.ts'
import { Embedded } from '../apiserver/embedded.ts'

/** A request that changed something, or should have. The status is 0 if the answer was lost. */
export interface WriteRequest {
  readonly method: ApiRequest['method']
  readonly path: string
  readonly status: number
  readonly body: unknown
}

/** What a test sets of a Pod. By default the Pod is ready, on node-a, and has the label `app: web`. */
export interface PodLike {
  readonly namespace?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly ip?: string
  readonly ips?: readonly string[]
  readonly ready?: boolean
  readonly phase?: string
  /** The time since which it is ready or not ready. @default now */
  readonly since?: string
  readonly spec?: Partial<NonNullable<Pod['spec']>>
}

/**
 * An embedded API server in simulated time with the namespace `other`, a controller, and the writes of that controller.
 */
export abstract class WorkloadCluster<Options extends WorkloadContext> {
  readonly embedded: Embedded
  readonly api: KubeApi
  readonly events: EventToRecord[] = []
  /** What the controller wrote, in order. */
  readonly requests: WriteRequest[] = []
  /** Between the server and the controller. */
  readonly faults: Faults
  readonly metrics = prometheusMetrics()
  /** The controller of the present term. */
  controller: WorkloadController | undefined
  readonly #transport: Transport
  #terms = 0

  protected constructor(embedded: Embedded) {
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

  protected static async open(): Promise<Embedded> {
    const embedded = await Embedded.started(['10.96.0.0/16', '2001:db8:96::/108'])
    await embedded.api.create(namespaces, { metadata: { name: 'other' } })
    return embedded
  }

  protected abstract make(options: WorkloadContext & Partial<Options>): WorkloadController

  /** Begins a term of a controller, and lets it run for `ms`. Returns the function that ends it. */
  async lead(options: Partial<Options> = {}, ms = 1_000): Promise<() => Promise<void>> {
    const { clock } = this.embedded
    const random = seededRandom(++this.#terms, 'term')
    const api = restKubeApi({ transport: this.#transport, clock, random, retry: { attempts: 1 } })
    const context = { api, clock, random, logger: silentLogger }
    const informers = new SharedInformers(context)
    const members = new ServiceMembers({
      services: informers.get(services, { transform: trimService }),
      pods: informers.get(pods, { transform: trimPod }),
    })
    const controller = this.make({
      ...context,
      informers,
      members,
      events: { record: (event) => this.events.push(event) },
      observer: { added() {}, started() {}, finished() {}, retried() {} },
      workers: 5,
      batchPeriodMs: 0,
      ...options,
    })
    this.controller = controller
    const ending = new AbortController()
    const led = controller.run(ending.signal).then(
      () => assert.ok(ending.signal.aborted, 'it ended before its signal was aborted'),
      (error: unknown) => assert.equal(error, ending.signal.reason),
    )
    const running = Promise.all([informers.run(ending.signal), led])
    await this.pass(ms)
    return async () => {
      ending.abort()
      await running
    }
  }

  pass(ms = 1_000): Promise<void> {
    return this.embedded.time.advance(ms)
  }

  fault(rule: FaultRule): () => void {
    return this.faults.add(rule)
  }

  /** Ends the watch of Services, and refuses further reads of them until the returned function is called. */
  loseServices(): () => void {
    const end = this.fault({ fault: { type: 'status', status: 500 }, methods: ['GET'], pathPrefix: '/api/v1/services' })
    this.faults.resetStreams()
    return end
  }

  /** The writes of the controller since the last call, with the statuses: `PUT 200`. */
  written(): readonly string[] {
    return this.requests.splice(0).map(({ method, status }) => `${method} ${status === 0 ? 'lost' : status}`)
  }

  service(name: string, spec: object = {}, metadata: object = {}): Promise<Service> {
    const whole = { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }], ...spec }
    return this.api.create(services, { metadata: { name, namespace: 'other', ...metadata }, spec: whole as object })
  }

  deleteService(name: string): Promise<void> {
    return this.api.delete(services, { namespace: 'other', name })
  }

  async updateService(name: string, change: (service: Service) => Service): Promise<void> {
    await this.api.update(services, change(await this.api.get(services, { namespace: 'other', name })))
  }

  async pod(name: string, like: PodLike = {}): Promise<void> {
    const { namespace = 'other', labels = { app: 'web' }, spec } = like
    const containers = [{ name: 'main', image: 'example.com/web' }]
    await this.api.create(pods, {
      metadata: { namespace, name, labels },
      spec: { nodeName: 'node-a', containers, ...(spec as object) },
    })
    await this.podStatus(name, like)
  }

  async podStatus(
    name: string,
    { namespace = 'other', phase = 'Running', ready = true, since, ...like }: PodLike,
  ): Promise<void> {
    const ips = like.ips ?? (like.ip === undefined ? [] : [like.ip])
    const [podIP] = ips
    const now = `${new Date(this.embedded.clock.wallMs()).toISOString().slice(0, 19)}Z`
    const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: since ?? now }]
    const ipFields = podIP === undefined ? {} : { podIP, podIPs: ips.map((ip) => ({ ip })) }
    const live = await this.api.get(pods, { namespace, name })
    await this.api.update(pods, { ...live, status: { phase, conditions, ...ipFields } }, { subresource: 'status' })
  }

  /** Deletes a Pod as a kubelet completes the deletion. */
  async deletePod(name: string, namespace = 'other'): Promise<void> {
    await this.embedded.send('DELETE', `/api/v1/namespaces/${namespace}/pods/${name}?gracePeriodSeconds=0`)
  }

  async #send(inner: Transport, request: ApiRequest, signal: AbortSignal) {
    const { method, path, body } = request
    if (method === 'GET') return inner.send(request, signal)
    try {
      const response = await inner.send(request, signal)
      this.requests.push({ method, path, status: response.status, body })
      return response
    } catch (error) {
      this.requests.push({ method, path, status: 0, body })
      throw error
    }
  }
}
