import type { KubeApi } from '../kube/api.ts'
import type { AvailabilityReporter } from '../kube/availability.ts'
import { isKubeError } from '../kube/errors.ts'
import { Informer } from '../kube/informer.ts'
import type { KubeObject } from '../kube/json.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type Resource,
  type Service,
  services,
} from '../kube/resources.ts'
import { WriteRetry } from '../kube/write-retry.ts'
import type { Address } from '../net/address.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { Logger } from '../telemetry/logger.ts'
import { type EndpointPort, endpointPorts, KUBERNETES_SERVICE } from './identity.ts'
import type { EndpointReconciler, ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'
import { ServiceKeeper } from './service-keeper.ts'
import type { ServiceSettings } from './service-plan.ts'
import type { WriteRecorder } from './write-recorder.ts'

/** Why a look is due. */
export type LookReason = 'start' | 'interval' | 'objects' | 'leases'

export interface KubernetesServiceOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly recorder: WriteRecorder
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
  readonly #looks = new Trigger<LookReason>()
  readonly #services: Informer<Service>
  readonly #endpoints: Informer<Endpoints>
  readonly #slices: Informer<EndpointSlice>
  readonly #keeper: ServiceKeeper
  readonly #ports: readonly EndpointPort[]
  readonly #settled = Promise.withResolvers<void>()

  constructor(options: KubernetesServiceOptions) {
    this.#options = options
    const { api, logger, recorder, service } = options
    this.#services = this.#follow(services)
    this.#endpoints = this.#follow(endpoints)
    this.#slices = this.#follow(endpointSlices)
    this.#keeper = new ServiceKeeper({ api, logger, recorder, settings: service })
    this.#ports = endpointPorts(service.securePort)
  }

  /** Asks for a look. */
  look(reason: LookReason): void {
    this.#looks.fire(reason)
  }

  /** Resolves after the first look that left everything right. */
  get settled(): Promise<void> {
    return this.#settled.promise
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

  /** Looks until the signal is aborted, beginning at once. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, intervalMs } = this.#options
    const retry = new WriteRetry(random)
    await Promise.all([this.#services, this.#endpoints, this.#slices].map((informer) => informer.whenSynced(signal)))
    this.look('start')
    let nextIntervalMs = clock.monotonicMs() + intervalMs
    for (;;) {
      const cancel = clock.schedule(nextIntervalMs - clock.monotonicMs(), () => this.look('interval'))
      const reasons = await this.#looks.take(signal).finally(cancel)
      if (reasons.has('interval')) nextIntervalMs = clock.monotonicMs() + intervalMs
      for (;;) {
        const failure = await this.#reconcile(reasons, signal)
        if (failure === undefined) break
        await sleep(clock, retry.next(failure), signal)
      }
      retry.reset()
      this.#settled.resolve()
    }
  }

  async #reconcile(reasons: ReadonlySet<LookReason>, signal: AbortSignal): Promise<unknown> {
    const { reconciler, availability } = this.#options
    try {
      if (!reasons.has('objects') || reasons.size > 1) await reconciler.readMembers?.(signal)
      const results = await Promise.allSettled([this.#reconcileService(signal), this.#reconcileEndpoints(signal)])
      for (const result of results) if (result.status === 'rejected') throw result.reason
      availability.succeeded('kubernetes-service')
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      if (!isKubeError(error, 'Conflict')) availability.failed('kubernetes-service', error)
      return error
    }
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
