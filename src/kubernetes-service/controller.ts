import type { Availability, AvailabilityReporter } from '../kube/availability.ts'
import { FollowedObject } from '../kube/followed-object.ts'
import type { InformerContext } from '../kube/informer.ts'
import type { KubeObject } from '../kube/json.ts'
import { LookLoop, type LookReason } from '../kube/look-loop.ts'
import type { ObjectWriter } from '../kube/object-writer.ts'
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
import { sleep } from '../runtime/clock.ts'
import { abortable } from '../runtime/signals.ts'
import { allEnded, together } from '../runtime/together.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { secondSliceName } from './endpoint-slice-plan.ts'
import { addressesIn, type EndpointPort, endpointPorts, KUBERNETES_SERVICE, samePorts } from './identity.ts'
import type { EndpointReconciler, ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'
import { ServiceKeeper } from './service-keeper.ts'
import type { ServiceSettings, ServiceWishes } from './service-plan.ts'

/** One of the objects that are kept, whatever its kind. */
type Followed = Pick<FollowedObject<KubeObject>, 'run' | 'whenSynced' | 'readLive'>

/** While nobody knows who they are, what depends on them stays as it is found. */
const unknownMembers: ServiceWishes = { settled: false, stack: 'as-found' }

/** So often it tries what it was refused, in milliseconds: the list is right within two seconds of the right being granted. */
const REFUSED_MS = 1_500

export interface KubernetesServiceOptions extends InformerContext {
  readonly metrics: Metrics
  readonly writer: ObjectWriter
  /** `subscribe`: of the API server. */
  readonly availability: AvailabilityReporter & Pick<Availability, 'subscribe'>
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
 * Each change of one of the three, of the leases, and each interval asks for a look; looks at one thing never overlap, and any number of
 * causes make one. A look that finds everything right in what the watches show ends there, without a request but the one for the leases
 * at each interval.
 *
 * A watch may lose an event and go on. So each interval also reads the Service, the Endpoints and a slice live: with the leases that is at most
 * four requests. These reads are apart from the looks, so that one that hangs holds up nothing.
 *
 * The Service has looks of its own, with waits of their own between two tries: one that is refused, or fought over, must not keep an
 * address on the list or off it, nor the other way round.
 */
export class KubernetesServiceController {
  readonly #options: KubernetesServiceOptions
  readonly #serviceLoop: LookLoop<'objects' | 'members'>
  readonly #endpointsLoop: LookLoop<'objects'>
  readonly #service: FollowedObject<Service>
  readonly #endpoints: FollowedObject<Endpoints>
  readonly #slice: FollowedObject<EndpointSlice>
  /** Undefined with a reconciler that never makes one. */
  readonly #secondSlice: FollowedObject<EndpointSlice> | undefined
  readonly #followed: readonly Followed[]
  readonly #keeper: ServiceKeeper
  readonly #ports: readonly EndpointPort[]
  /** Resolves when the members were asked for once, whatever came of it. */
  readonly #membersAsked = Promise.withResolvers<void>()
  /** Whether the last read of them was answered. */
  #known = false
  #told: ServiceWishes = unknownMembers
  #keptPorts = ''

  constructor(options: KubernetesServiceOptions) {
    this.#options = options
    const { api, logger, metrics, writer, service, address, reconciler } = options
    const lookAtEndpoints = (): void => this.#endpointsLoop.look('objects')
    this.#service = this.#follow(services, () => this.#serviceLoop.look('objects'))
    this.#endpoints = this.#follow(endpoints, lookAtEndpoints)
    this.#slice = this.#follow(endpointSlices, lookAtEndpoints)
    this.#secondSlice =
      address === undefined || reconciler.isDualStack === undefined
        ? undefined
        : this.#follow(endpointSlices, lookAtEndpoints, secondSliceName(address.family === 6 ? 4 : 6))
    const followed = [this.#service, this.#endpoints, this.#slice, this.#secondSlice]
    this.#followed = followed.filter((object) => object !== undefined)
    const listed = metrics.gauge({
      name: 'apiserver_bootstrap_listed_addresses',
      help: 'Addresses that Endpoints default/kubernetes list; absent until they were read.',
    })
    metrics.onCollect(() => {
      if (this.#endpoints.hasSynced) listed.set({}, addressesIn(this.#endpoints.current).length)
      else listed.remove({})
    })
    this.#keeper = new ServiceKeeper({ api, logger, writer, settings: service })
    this.#ports = endpointPorts(service.securePort)
    this.#serviceLoop = new LookLoop({
      ...options,
      source: 'kubernetes-service',
      longestWaitMs: REFUSED_MS,
      reconcile: (reasons, signal) => this.#reconcileService(reasons, signal),
    })
    this.#endpointsLoop = new LookLoop({
      ...options,
      source: 'kubernetes-endpoints',
      longestWaitMs: REFUSED_MS,
      severalObjects: true,
      reconcile: (reasons, signal) => this.#reconcileEndpoints(reasons, signal),
    })
  }

  /** Asks for a look. */
  look(): void {
    this.#serviceLoop.look('objects')
    this.#endpointsLoop.look('objects')
  }

  /** Resolves when a look has left the Service right, and one the Endpoints. */
  get settled(): Promise<void> {
    return Promise.all([this.#serviceLoop.settled, this.#endpointsLoop.settled]).then(() => {})
  }

  /** Follows the objects; {@link run} needs it under way. Ends with the signal. */
  async watch(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#followed.map((object) => object.run(signal)))
  }

  /** Looks until the signal is aborted, beginning as soon as the watches show the present state. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#followed.map((object) => object.whenSynced(signal)))
    // What must wait while it runs goes through once it does not: leaving is not held up.
    const release = this.#options.writer.holdBack(() => this.look())
    const unsubscribe = this.#options.availability.subscribe((available) => {
      this.#keeper.noticeAvailability(available)
      if (available) this.#serviceLoop.look('objects')
    })
    try {
      await together(signal, [
        (ending) => this.#serviceLoop.run(ending),
        (ending) => this.#endpointsLoop.run(ending),
        (ending) => this.#readLive(ending),
      ])
    } finally {
      unsubscribe()
      release()
    }
  }

  async #readLive(signal: AbortSignal): Promise<never> {
    const { clock, intervalMs } = this.#options
    for (let round = 0; ; round++) {
      await sleep(clock, intervalMs, signal)
      await allEnded(this.#toRead(round).map((object) => object.readLive(signal)))
    }
  }

  /** Two slices take turns. A second one that nobody wants and no watch shows is not asked for. */
  #toRead(round: number): readonly Followed[] {
    const { address, reconciler } = this.#options
    if (address === undefined) return [this.#service]
    const second = this.#secondSlice
    const hasSecond = second !== undefined && (second.current !== undefined || reconciler.isDualStack?.() === true)
    return [this.#service, this.#endpoints, hasSecond && round % 2 === 1 ? second : this.#slice]
  }

  async #reconcileService(reasons: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    // Made with what the members want at once, or else without: it must be there whoever they are.
    await abortable(this.#membersAsked.promise, signal)
    const cached = this.#service.current
    if (reasons.has('interval')) this.#keeper.renewDemand(cached)
    const wishes = this.#wishes()
    if (this.#keeper.isSatisfied(cached, wishes)) return
    // Where only its families are to be others, another master may know of one that has just come or gone, and have written what that wants.
    const isOfFamilies = this.#keeper.isSatisfied(cached, { ...wishes, stack: 'as-found' })
    if (isOfFamilies) await this.#readMembers(signal).catch(() => {})
    await this.#keeper.reconcile(cached, this.#wishes(), signal)
  }

  async #reconcileEndpoints(reasons: ReadonlySet<LookReason<'objects'>>, signal: AbortSignal): Promise<void> {
    const { reconciler, address } = this.#options
    const onlyObjects = reasons.size === 1 && reasons.has('objects')
    if (!onlyObjects) await this.#readMembers(signal)
    this.#tellWishes()
    this.#noticeKeptPorts()
    const observed: ObservedEndpoints = {
      endpoints: this.#endpoints.current,
      slice: this.#slice.current,
      secondSlice: this.#secondSlice?.current,
    }
    if (address === undefined || reconciler.isSatisfied?.(observed, this.#ports, this.#portsAgreed())) return
    await reconciler.reconcileEndpoints(address, this.#ports, 'agreed', signal)
    this.#tellWishes()
  }

  async #readMembers(signal: AbortSignal): Promise<void> {
    try {
      await this.#options.reconciler.readMembers?.(signal)
      this.#known = true
    } catch (error) {
      this.#known = false
      this.#tellWishes()
      throw error
    } finally {
      this.#membersAsked.resolve()
    }
  }

  #wishes(): ServiceWishes {
    if (!this.#known) return unknownMembers
    const isDualStack = this.#options.reconciler.isDualStack?.()
    const stack = isDualStack === undefined ? 'as-found' : isDualStack ? 'dual' : 'single'
    return { settled: this.#portsAgreed(), stack }
  }

  /** Has the Service looked at when the members mean something else for it than before. */
  #tellWishes(): void {
    const { settled, stack } = this.#told
    this.#told = this.#wishes()
    if (this.#told.settled !== settled || this.#told.stack !== stack) this.#serviceLoop.look('members')
  }

  /** Says once that the Endpoints have other ports than this master wants, and why they are left. */
  #noticeKeptPorts(): void {
    const [subset] = this.#endpoints.current?.subsets ?? []
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

  #follow<T extends KubeObject>(
    resource: Resource<T>,
    onChange: () => void,
    name: string = KUBERNETES_SERVICE.name,
  ): FollowedObject<T> {
    return new FollowedObject<T>({ ...this.#options, resource, ref: { ...KUBERNETES_SERVICE, name }, onChange })
  }
}
