import type { Availability, AvailabilityReporter } from '../kube/availability.ts'
import { FollowedObject } from '../kube/followed-object.ts'
import type { InformerContext } from '../kube/informer.ts'
import { ReconcileLoop, type ReconcileReason } from '../kube/reconcile-loop.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type KubeObject,
  type Resource,
  type Service,
  services,
} from '../kube/resources.ts'
import type { Address } from '../net/address.ts'
import { sleep } from '../runtime/clock.ts'
import { within } from '../runtime/request-limit.ts'
import { abortable, allEnded, together } from '../runtime/signals.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { secondSliceName } from './endpoints-plan.ts'
import type { ObjectWriter } from './guarded-writes/object-writer.ts'
import { addressesIn, type EndpointPort, endpointPorts, KUBERNETES_SERVICE, samePorts } from './identity.ts'
import type { ListReconciler, ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'
import type { ServiceDemand, ServiceSettings } from './service-plan.ts'
import { ServiceWriter } from './service-writer.ts'

type Followed = Pick<FollowedObject<KubeObject>, 'run' | 'whenSynced' | 'readLive'>

/** While the members are unknown, everything that depends on them stays as found. */
const unknownMembers: ServiceDemand = { portsAgreed: false, stack: 'as-found' }

/** The longest wait after a failed reconciliation, so that a new permission soon takes effect. */
const LONGEST_WAIT_MS = 1_500
/** How long the list waits for its watches at the start, in milliseconds. A server may refuse or fail them for ever. */
const LONGEST_SYNC_MS = 5_000
/** Names the live reads for {@link Availability}. */
const LIVE_READS = 'live reads of default/kubernetes'

export interface KubernetesServiceOptions extends InformerContext {
  readonly metrics: Metrics
  readonly writer: ObjectWriter
  /** `subscribe` reports when the API server is lost, or is back. */
  readonly availability: AvailabilityReporter & Pick<Availability, 'subscribe'>
  readonly reconciler: ListReconciler
  /** Undefined with a reconciler that lists no master. */
  readonly address: Address | undefined
  readonly service: ServiceSettings
  /** The time between two reconciliations without a change, in milliseconds. */
  readonly intervalMs: number
}

/**
 * Manages `default/kubernetes`: the Service, its Endpoints and their slices.
 *
 * Each change of these objects or of the leases, and each interval, triggers a reconciliation. Reconciliations of one
 * object never overlap, and triggers that wait are merged into one. If the watches show everything in sync, a
 * reconciliation sends no request, except the read of the leases at each interval.
 *
 * A watch may lose an event and continue. So at each interval the controller also reads the Service, the Endpoints and
 * a slice live: at most three requests, besides the read of the leases. Reconciliations never wait for these reads.
 *
 * The Service and the list have separate loops and back-off: a refused or contested write of one must not delay the
 * other.
 */
export class KubernetesServiceController {
  readonly #options: KubernetesServiceOptions
  readonly #serviceLoop: ReconcileLoop<'objects' | 'members'>
  readonly #endpointsLoop: ReconcileLoop<'objects'>
  readonly #service: FollowedObject<Service>
  readonly #endpoints: FollowedObject<Endpoints>
  readonly #slice: FollowedObject<EndpointSlice>
  /** Undefined without an address, and with a reconciler that has no `isDualStack`. */
  readonly #secondSlice: FollowedObject<EndpointSlice> | undefined
  readonly #followed: readonly Followed[]
  readonly #serviceWriter: ServiceWriter
  readonly #ports: readonly EndpointPort[]
  /** Resolves after the first read of the members, successful or not. */
  readonly #membersAsked = Promise.withResolvers<void>()
  /** Whether the last read of the members succeeded. */
  #known = false
  #lastDemand: ServiceDemand = unknownMembers
  #foreignPorts = ''
  /** Whether the last reconciliation of the list succeeded. After a failure the watches may be behind. */
  #trustsWatches = false

  constructor(options: KubernetesServiceOptions) {
    this.#options = options
    const { api, logger, metrics, writer, service, address, reconciler } = options
    const triggerEndpoints = (): void => this.#endpointsLoop.trigger('objects')
    this.#service = this.#follow(services, () => this.#serviceLoop.trigger('objects'))
    this.#endpoints = this.#follow(endpoints, triggerEndpoints)
    this.#slice = this.#follow(endpointSlices, triggerEndpoints)
    this.#secondSlice =
      address === undefined || reconciler.isDualStack === undefined
        ? undefined
        : this.#follow(endpointSlices, triggerEndpoints, secondSliceName(address.family === 6 ? 'IPv4' : 'IPv6'))
    const followed = [this.#service, this.#endpoints, this.#slice, this.#secondSlice]
    this.#followed = followed.filter((object) => object !== undefined)
    const listed = metrics.gauge({
      name: 'apiserver_bootstrap_listed_addresses',
      help: 'Number of addresses in Endpoints default/kubernetes; absent until they are read.',
    })
    metrics.onCollect(() => {
      if (this.#endpoints.hasSynced) listed.set({}, addressesIn(this.#endpoints.current).length)
      else listed.remove({})
    })
    this.#serviceWriter = new ServiceWriter({ api, logger, writer, settings: service })
    this.#ports = endpointPorts(service.securePort)
    this.#serviceLoop = new ReconcileLoop({
      ...options,
      source: 'kubernetes-service',
      longestWaitMs: LONGEST_WAIT_MS,
      reconcile: (reasons, signal) => this.#reconcileService(reasons, signal),
    })
    this.#endpointsLoop = new ReconcileLoop({
      ...options,
      source: 'kubernetes-endpoints',
      longestWaitMs: LONGEST_WAIT_MS,
      severalObjects: true,
      reconcile: (reasons, signal) => this.#reconcileEndpoints(reasons, signal),
    })
  }

  request(): void {
    this.#serviceLoop.trigger('objects')
    this.#endpointsLoop.trigger('objects')
  }

  /** Resolves after the first successful reconciliation of the Service and of the Endpoints. */
  get settled(): Promise<void> {
    return Promise.all([this.#serviceLoop.settled, this.#endpointsLoop.settled]).then(() => {})
  }

  /** Watches the objects until the signal is aborted; {@link run} requires this. */
  async watch(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#followed.map((object) => object.run(signal)))
  }

  /**
   * Reconciles until the signal is aborted. The Service waits until its watch has synced. The list waits for its own
   * watches only, and not for long, because without them it can still be reconciled by reads.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const synced = (objects: readonly Followed[], until: AbortSignal): Promise<unknown> =>
      Promise.all(objects.map((object) => object.whenSynced(until)))
    const ofList = this.#followed.filter((object) => object !== this.#service)
    // Corrections may wait only during this run, because a departure must not wait.
    const release = this.#options.writer.holdBack(() => this.request())
    const unsubscribe = this.#options.availability.subscribe((available) => {
      this.#serviceWriter.noticeAvailability(available)
      if (available) this.#serviceLoop.trigger('objects')
    })
    try {
      await together(signal, [
        async (ending) => {
          await synced([this.#service], ending)
          await this.#serviceLoop.run(ending)
        },
        async (ending) => {
          const ofListSynced = within(clock, LONGEST_SYNC_MS, ending, (limited) => synced(ofList, limited))
          await ofListSynced.catch(() => ending.throwIfAborted())
          await this.#endpointsLoop.run(ending)
        },
        async (ending) => {
          await synced(this.#followed, ending)
          await this.#readLive(ending)
        },
      ])
    } finally {
      unsubscribe()
      release()
    }
  }

  async #readLive(signal: AbortSignal): Promise<never> {
    const { clock, intervalMs, availability } = this.#options
    try {
      for (let round = 0; ; round++) {
        await sleep(clock, intervalMs, signal)
        try {
          await allEnded(this.#toRead(round).map((object) => object.readLive(signal)))
          availability.succeeded(LIVE_READS)
        } catch (error) {
          signal.throwIfAborted()
          // A defect of this program, as in a reconciliation: neither must end the process, which renews the lease.
          availability.failed(LIVE_READS, error)
        }
      }
    } finally {
      availability.forget(LIVE_READS)
    }
  }

  /**
   * The objects to read live in this round; without an address only the Service. If the second slice is wanted, or a
   * watch shows it, the two slices take turns.
   */
  #toRead(round: number): readonly Followed[] {
    const { address, reconciler } = this.#options
    if (address === undefined) return [this.#service]
    const second = this.#secondSlice
    const hasSecond =
      second !== undefined && (second.current !== undefined || reconciler.isDualStack?.(this.#observed) === true)
    return [this.#service, this.#endpoints, hasSecond && round % 2 === 1 ? second : this.#slice]
  }

  async #reconcileService(reasons: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    // The fields of a new Service depend on the members, so this call waits for the first read of the members. If that
    // read fails, the Service is created all the same.
    await abortable(this.#membersAsked.promise, signal)
    const cached = this.#service.current
    if (reasons.has('interval')) this.#serviceWriter.renewDemand(cached)
    const demand = this.#demand()
    if (this.#serviceWriter.isSatisfied(cached, demand)) return
    // If only the IP families differ, another master may have written them because it knows of a member that has just
    // joined or left. So this master reads the members again.
    const { familiesFollowMembers = true } = this.#options.reconciler
    const isOfFamilies = this.#serviceWriter.isSatisfied(cached, { ...demand, stack: 'as-found' })
    if (familiesFollowMembers && isOfFamilies) await this.#refreshMembers(signal).catch(() => {})
    await this.#serviceWriter.reconcile(cached, this.#demand(), signal)
  }

  async #reconcileEndpoints(reasons: ReadonlySet<ReconcileReason<'objects'>>, signal: AbortSignal): Promise<void> {
    const { reconciler, address, served } = this.#options
    const onlyObjects = reasons.size === 1 && reasons.has('objects')
    if (!onlyObjects) await this.#refreshMembers(signal)
    if (!this.#endpoints.hasSynced) await served?.untilUndenied(endpoints, signal)
    this.#noteDemand()
    this.#reportForeignPorts()
    const observed = this.#observed
    // Until the watches have synced, missing objects prove nothing, not even to the reconciler.
    const isKnown = this.#endpoints.hasSynced && this.#slice.hasSynced
    const isSatisfied = isKnown && (reconciler.isSatisfied?.(observed, this.#ports, this.#portsAgreed()) ?? false)
    // These reconciliations also find a slice that no watch follows: one of this master's own family.
    const isFirst = reasons.has('start')
    const suffices = this.#trustsWatches && !isFirst && !reasons.has('interval')
    this.#trustsWatches = isSatisfied
    if (address === undefined || (isSatisfied && !isFirst)) return
    const hasSynced = [this.#slice, this.#secondSlice].every((object) => object?.hasSynced !== false)
    const watched = hasSynced ? { ...observed, suffices } : undefined
    await reconciler.reconcileEndpoints(address, this.#ports, 'agreed', signal, watched)
    this.#trustsWatches = true
    this.#noteDemand()
  }

  get #observed(): ObservedEndpoints {
    return {
      endpoints: this.#endpoints.current,
      slice: this.#slice.current,
      secondSlices: [this.#secondSlice?.current].filter((slice) => slice !== undefined),
    }
  }

  async #refreshMembers(signal: AbortSignal): Promise<void> {
    try {
      await this.#options.reconciler.refreshMembers?.(signal)
      this.#known = true
    } catch (error) {
      this.#known = false
      this.#noteDemand()
      throw error
    } finally {
      this.#membersAsked.resolve()
    }
  }

  #demand(): ServiceDemand {
    if (!this.#known) return unknownMembers
    const isDualStack = this.#endpoints.hasSynced ? this.#options.reconciler.isDualStack?.(this.#observed) : undefined
    const stack = isDualStack === undefined ? 'as-found' : isDualStack ? 'dual' : 'single'
    return { portsAgreed: this.#portsAgreed(), stack }
  }

  /** Requests a reconciliation of the Service if the members' demand has changed. */
  #noteDemand(): void {
    const { portsAgreed, stack } = this.#lastDemand
    this.#lastDemand = this.#demand()
    if (this.#lastDemand.portsAgreed !== portsAgreed || this.#lastDemand.stack !== stack)
      this.#serviceLoop.trigger('members')
  }

  /** Reports once that the Endpoints have other ports than this master wants, and why they stay. */
  #reportForeignPorts(): void {
    const [subset] = this.#endpoints.current?.subsets ?? []
    const found = subset?.ports ?? []
    const foreign =
      subset === undefined || this.#portsAgreed() || samePorts(found, this.#ports) ? '' : JSON.stringify(found)
    if (foreign !== '' && foreign !== this.#foreignPorts) {
      this.#options.logger.warn(
        { found, wanted: this.#ports },
        'the ports of the Endpoints differ from those of this master; not changing them, because another master may need them (a kube-apiserver does not publish its ports)',
      )
    }
    this.#foreignPorts = foreign
  }

  #portsAgreed(): boolean {
    return this.#options.reconciler.portsAgreed?.() ?? true
  }

  #follow<T extends KubeObject>(
    resource: Resource<T>,
    onChange: () => void,
    name: string = KUBERNETES_SERVICE.name,
  ): FollowedObject<T> {
    return new FollowedObject<T>({ ...this.#options, resource, ref: { ...KUBERNETES_SERVICE, name }, onChange })
  }
}
