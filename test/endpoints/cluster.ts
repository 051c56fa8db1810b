import { type FaultRule, type Faults, faultyTransport } from '../../src/apiserver/faults.ts'
import { EndpointsController, type EndpointsControllerOptions } from '../../src/endpoints/controller.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { SharedInformers } from '../../src/kube/informer.ts'
import {
  type Endpoints,
  endpoints,
  namespaces,
  type Pod,
  pods,
  type Service,
  services,
} from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../src/kube/transport.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import type { WorkQueueObserver } from '../../src/runtime/work-queue.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { keptOfPod, keptOfService } from '../../src/workloads/kept.ts'
import { ServiceMembers } from '../../src/workloads/service-members.ts'
import { Embedded } from '../apiserver/embedded.ts'

const noObserver: WorkQueueObserver = { added() {}, started() {}, finished() {}, retried() {} }

/** One request that changed something, or should have: `PUT other/foo 200`. */
export interface WriteRequest {
  readonly method: ApiRequest['method']
  readonly key: string
  readonly status: number
  readonly body: unknown
}

/** What a Pod of these tests is like; the rest is a ready Pod on a Node that is selected by `app: web`. */
export interface PodLike {
  readonly namespace?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly ip?: string
  readonly ips?: readonly string[]
  readonly ready?: boolean
  readonly phase?: string
  /** Since when it is ready, or not. */
  readonly since?: string
  readonly spec?: Partial<NonNullable<Pod['spec']>>
}

/** An embedded API server in simulated time, an Endpoints controller, and what it asked for. */
export class Cluster {
  readonly embedded: Embedded
  /** Of what the controller does, in order. */
  readonly requests: WriteRequest[] = []
  readonly events: EventToRecord[] = []
  /** Between the server and the controller. */
  readonly faults: Faults
  readonly api: KubeApi
  /** The one of the present term. */
  controller: EndpointsController | undefined
  readonly #transport: Transport
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
    return new Cluster(embedded)
  }

  /** Begins a term of a controller and lets it work for a while. Returns what ends it. */
  async lead(options: Partial<EndpointsControllerOptions> = {}, ms = 1_000): Promise<() => Promise<void>> {
    const { clock } = this.embedded
    const random = seededRandom(++this.#terms, 'term')
    const api = restKubeApi({ transport: this.#transport, clock, random, retry: { attempts: 1 } })
    const context = { api, clock, random, logger: silentLogger }
    const informers = new SharedInformers(context)
    const members = new ServiceMembers({
      services: informers.get(services, { transform: keptOfService }),
      pods: informers.get(pods, { transform: keptOfPod }),
    })
    const controller = new EndpointsController({
      ...context,
      informers,
      members,
      events: { record: (event) => this.events.push(event) },
      observer: noObserver,
      workers: 5,
      batchPeriodMs: 0,
      ...options,
    })
    this.controller = controller
    const ending = new AbortController()
    const running = Promise.all([informers.run(ending.signal), controller.run(ending.signal)])
    await this.pass(ms)
    return async () => {
      ending.abort()
      await running
    }
  }

  /** Lets time pass. */
  pass(ms = 1_000): Promise<void> {
    return this.embedded.time.advance(ms)
  }

  fault(rule: FaultRule): () => void {
    return this.faults.add(rule)
  }

  /** The methods of the requests since this was last asked, with the key and the status: `PUT other/foo 200`. */
  written(): readonly string[] {
    return this.requests.splice(0).map(({ method, key, status }) => `${method} ${key} ${status}`)
  }

  service(name: string, spec: object = {}, metadata: object = {}): Promise<Service> {
    const whole = { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }], ...spec }
    return this.api.create(services, { metadata: { name, namespace: 'other', ...metadata }, spec: whole as object })
  }

  deleteService(name: string): Promise<void> {
    return this.api.delete(services, { namespace: 'other', name })
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
    { namespace = 'other', phase = 'Running', ready = true, ...like }: PodLike,
  ): Promise<void> {
    const ips = like.ips ?? (like.ip === undefined ? [] : [like.ip])
    const [podIP] = ips
    const lastTransitionTime = like.since === undefined ? {} : { lastTransitionTime: like.since }
    const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False', ...lastTransitionTime }]
    const ipFields = podIP === undefined ? {} : { podIP, podIPs: ips.map((ip) => ({ ip })) }
    const live = await this.api.get(pods, { namespace, name })
    await this.api.update(pods, { ...live, status: { phase, conditions, ...ipFields } }, { subresource: 'status' })
  }

  /** Deletes a Pod as a kubelet ends the deletion. */
  async deletePod(name: string, namespace = 'other'): Promise<void> {
    await this.embedded.send('DELETE', `/api/v1/namespaces/${namespace}/pods/${name}?gracePeriodSeconds=0`)
  }

  /** The Endpoints as the server has them; undefined where there are none. */
  async endpoints(name: string, namespace = 'other'): Promise<Endpoints | undefined> {
    const { items } = await this.api.list(endpoints, { namespace })
    return items.find(({ metadata }) => metadata?.name === name)
  }

  /** The addresses of Endpoints in one line: `192.0.2.1 192.0.2.2 !192.0.2.3 :8080`, those that are not ready with a mark. */
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

  async #send(inner: Transport, request: ApiRequest, signal: AbortSignal) {
    const method = request.method
    const [, namespace, name] = /namespaces\/([^/]+)\/endpoints(?:\/([^/]+))?$/.exec(request.path) ?? []
    if (method === 'GET') return inner.send(request, signal)
    const body = request.body as { readonly metadata?: { readonly name?: string } } | undefined
    const note = (status: number): void => {
      this.requests.push({ method, key: `${namespace}/${name ?? body?.metadata?.name}`, status, body })
    }
    try {
      const response = await inner.send(request, signal)
      note(response.status)
      return response
    } catch (error) {
      note(0)
      throw error
    }
  }
}
