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
import { type EndpointPort, endpointPorts, KUBERNETES_SERVICE } from './identity.ts'
import type { ObjectWriter } from './object-writer.ts'
import type { EndpointReconciler, ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'
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
  readonly #keeper: ServiceKeeper
  readonly #ports: readonly EndpointPort[]

  constructor(options: KubernetesServiceOptions) {
    this.#options = options
    const { api, logger, writer, service } = options
    this.#services = this.#follow(services)
    this.#endpoints = this.#follow(endpoints)
    this.#slices = this.#follow(endpointSlices)
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
    }
  }

  /** Follows the objects; {@link run} needs it under way. Ends with the signal. */
  async watch(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#services.run(signal), this.#endpoints.run(signal), this.#slices.run(signal)])
  }

  /** Looks until the signal is aborted, beginning as soon as the watches show the present state. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#services, this.#endpoints, this.#slices].map((informer) => informer.whenSynced(signal)))
    await this.#loop.run(signal)
  }

  async #reconcile(reasons: ReadonlySet<LookReason<Cause>>, signal: AbortSignal): Promise<void> {
    const onlyObjects = reasons.size === 1 && reasons.has('objects')
    if (!onlyObjects) await this.#options.reconciler.readMembers?.(signal)
    // Neither waits for the other: a Service that is refused must not keep an address off the list.
    const results = await Promise.allSettled([this.#reconcileService(signal), this.#reconcileEndpoints(signal)])
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  async #reconcileService(signal: AbortSignal): Promise<void> {
    const settled = this.#portsAgreed()
    const cached = this.observed().service
    if (!this.#keeper.isSatisfied(cached, settled)) await this.#keeper.reconcile(cached, settled, signal)
  }

  async #reconcileEndpoints(signal: AbortSignal): Promise<void> {
    const { reconciler, address } = this.#options
    if (address === undefined) return
    if (reconciler.isSatisfied?.(this.observed(), this.#ports, this.#portsAgreed())) return
    await reconciler.reconcileEndpoints(address, this.#ports, this.#portsAgreed(), signal)
  }

  #portsAgreed(): boolean {
    return this.#options.reconciler.portsAgreed?.() ?? true
  }

  #follow<T extends KubeObject>(resource: Resource<T>): Informer<T> {
    const query = { namespace: KUBERNETES_SERVICE.namespace, fieldSelector: `metadata.name=${KUBERNETES_SERVICE.name}` }
    const informer = new Informer<T>({ ...this.#options, resource, query })
    informer.subscribe(() => this.look('objects'))
    return informer
  }
}
