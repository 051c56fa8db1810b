import type { KubeApi } from '../kube/api.ts'
import type { AvailabilityReporter } from '../kube/availability.ts'
import { Informer } from '../kube/informer.ts'
import type { KubeObject } from '../kube/json.ts'
import { LookLoop, type LookReason } from '../kube/look-loop.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type Resource,
  type Service,
  services,
} from '../kube/resources.ts'
import type { Address } from '../net/address.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import type { Logger } from '../telemetry/logger.ts'
import { samePorts } from './endpoints-plan.ts'
import { type EndpointPort, endpointPorts, KUBERNETES_SERVICE } from './identity.ts'
import type { ObjectWriter } from './object-writer.ts'
import type { EndpointReconciler, ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'
import { secondSliceName } from './second-slice-plan.ts'
import type { ServiceStack } from './service-families-plan.ts'
import { ServiceKeeper } from './service-keeper.ts'
import type { ServiceSettings } from './service-plan.ts'

/** Why a look is due, besides the start and the interval: the objects changed, or who is a member. */
type Cause = 'objects' | 'leases'

export interface KubernetesServiceOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly writer: ObjectWriter
  readonly availability: AvailabilityReporter
  readonly reconciler: EndpointReconciler
  /** Undefined with a reconciler that lists nobody. */
  readonly address: Address | undefined
  readonly service: ServiceSettings
  /** How often everything is looked at when nothing seems to happen, in milliseconds. */
  readonly intervalMs: number
}

/**
 * Keeps `default/kubernetes`: the Service, its Endpoints and their slice.
 *
 * Each change of one of the three, of the leases, and each interval asks for a look; looks never overlap, and any number of causes
 * make one. A look that finds everything right in what the watches show ends there, without a request but the one for the leases
 * at each interval.
 */
export class KubernetesServiceController {
  readonly #options: KubernetesServiceOptions
  readonly #loop: LookLoop<Cause>
  readonly #services: Informer<Service>
  readonly #endpoints: Informer<Endpoints>
  readonly #slices: Informer<EndpointSlice>
  /** Undefined with a reconciler that never makes one. */
  readonly #secondSlices: Informer<EndpointSlice> | undefined
  readonly #secondSlice: string
  readonly #keeper: ServiceKeeper
  readonly #ports: readonly EndpointPort[]
  #keptPorts = ''

  constructor(options: KubernetesServiceOptions) {
    this.#options = options
    const { api, logger, writer, service, address, reconciler } = options
    this.#services = this.#follow(services)
    this.#endpoints = this.#follow(endpoints)
    this.#slices = this.#follow(endpointSlices)
    this.#secondSlice = secondSliceName(address?.family === 6 ? 4 : 6)
    this.#secondSlices =
      address === undefined || reconciler.isDualStack === undefined
        ? undefined
        : this.#follow(endpointSlices, this.#secondSlice)
    this.#keeper = new ServiceKeeper({ api, logger, writer, settings: service })
    this.#ports = endpointPorts(service.securePort)
    this.#loop = new LookLoop({
      ...options,
      source: 'kubernetes-service',
      reconcile: (reasons, signal) => this.#reconcile(reasons, signal),
    })
  }

  /** Asks for a look. */
  look(cause: Cause): void {
    this.#loop.look(cause)
  }

  /** Resolves after the first look that left everything right. */
  get settled(): Promise<void> {
    return this.#loop.settled
  }

  /** What the watches show. */
  observed(): ObservedEndpoints & { readonly service: Service | undefined } {
    return {
      service: this.#services.store.get(KUBERNETES_SERVICE),
      endpoints: this.#endpoints.store.get(KUBERNETES_SERVICE),
      slice: this.#slices.store.get(KUBERNETES_SERVICE),
      secondSlice: this.#secondSlices?.store.get({ ...KUBERNETES_SERVICE, name: this.#secondSlice }),
    }
  }

  /** Follows the objects; {@link run} needs it under way. Ends with the signal. */
  async watch(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#informers().map((informer) => informer.run(signal)))
  }

  /** Looks until the signal is aborted, beginning as soon as the watches show the present state. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#informers().map((informer) => informer.whenSynced(signal)))
    // What must wait while it runs goes through once it does not: leaving is not held up.
    const release = this.#options.writer.holdBack(() => this.look('objects'))
    try {
      await this.#loop.run(signal)
    } finally {
      release()
    }
  }

  async #reconcile(reasons: ReadonlySet<LookReason<Cause>>, signal: AbortSignal): Promise<void> {
    const onlyObjects = reasons.size === 1 && reasons.has('objects')
    // The Service must be there whoever the members are.
    const members = onlyObjects ? Promise.resolve() : this.#options.reconciler.readMembers?.(signal)
    const [read] = await Promise.allSettled([members])
    if (reasons.has('interval')) this.#keeper.renewDemand(this.observed().service)
    if (read.status === 'fulfilled') this.#noticeKeptPorts()
    // Neither waits for the other: a Service that is refused must not keep an address off the list.
    const results = await Promise.allSettled([
      this.#reconcileService(read.status === 'fulfilled', signal),
      read.status === 'fulfilled' ? this.#reconcileEndpoints(signal) : Promise.reject(read.reason),
    ])
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  /** `known`: whether it is known who the members are; if not, what depends on them stays as it is found. */
  async #reconcileService(known: boolean, signal: AbortSignal): Promise<void> {
    const settled = known && this.#portsAgreed()
    const stack = known ? this.#stack() : 'as-found'
    const cached = this.observed().service
    if (!this.#keeper.isSatisfied(cached, settled, stack)) await this.#keeper.reconcile(cached, settled, signal, stack)
  }

  #stack(): ServiceStack {
    const isDualStack = this.#options.reconciler.isDualStack?.()
    return isDualStack === undefined ? 'as-found' : isDualStack ? 'dual' : 'single'
  }

  async #reconcileEndpoints(signal: AbortSignal): Promise<void> {
    const { reconciler, address } = this.#options
    if (address === undefined) return
    if (reconciler.isSatisfied?.(this.observed(), this.#ports, this.#portsAgreed())) return
    await reconciler.reconcileEndpoints(address, this.#ports, 'agreed', signal)
  }

  /** Says once that the Endpoints have other ports than this master wants, and why they are left. */
  #noticeKeptPorts(): void {
    const [subset] = this.observed().endpoints?.subsets ?? []
    const found = subset?.ports ?? []
    const kept =
      subset === undefined || this.#portsAgreed() || samePorts(found, this.#ports) ? '' : JSON.stringify(found)
    if (kept !== '' && kept !== this.#keptPorts) {
      this.#options.logger.warn(
        { found, wanted: this.#ports },
        'the Endpoints have other ports than this master wants; they are kept while another master may want them, such as a kube-apiserver, which does not say',
      )
    }
    this.#keptPorts = kept
  }

  #portsAgreed(): boolean {
    return this.#options.reconciler.portsAgreed?.() ?? true
  }

  #informers(): readonly Pick<Informer<KubeObject>, 'run' | 'whenSynced'>[] {
    const informers = [this.#services, this.#endpoints, this.#slices]
    return this.#secondSlices === undefined ? informers : [...informers, this.#secondSlices]
  }

  // Each by its name: rights to a whole namespace are not needed.
  #follow<T extends KubeObject>(resource: Resource<T>, name: string = KUBERNETES_SERVICE.name): Informer<T> {
    const query = { namespace: KUBERNETES_SERVICE.namespace, fieldSelector: `metadata.name=${name}` }
    const informer = new Informer<T>({ ...this.#options, resource, query })
    informer.subscribe(() => this.look('objects'))
    return informer
  }
}
