import type { KubeApi } from '../kube/api.ts'
import { ifFound, KubeError } from '../kube/errors.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints as endpointsResource,
} from '../kube/resources.ts'
import type { ServedResources } from '../kube/served-resources.ts'
import { RemoteError } from '../runtime/errors.ts'
import { allEnded } from '../runtime/signals.ts'
import {
  type EndpointsAction,
  planEndpointSlice,
  planSecondSlice,
  secondSliceName,
  secondSliceOf,
} from './endpoints-plan.ts'
import type { ObjectWriter, Outcome, RemovableAction } from './guarded-writes/object-writer.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import type { ObservedEndpoints, WatchedList } from './reconcilers/endpoint-reconciler.ts'

/** The stored objects. `slicesError`: why the slices are not known; they then stay as they are. */
export interface StoredEndpoints extends ObservedEndpoints {
  readonly slicesError?: RemoteError
}

export interface ListPlan {
  readonly endpoints: EndpointsAction
  /** The addresses of the slice of the second family. Without any, there must be no such slice. */
  readonly secondAddresses: readonly string[]
  /**
   * Whether the plan was made without leases, so that each master may plan a different list. If the write of the
   * Endpoints fails, the slices then stay as they are, because masters would overwrite each other's slices without
   * end. @default false
   */
  readonly withoutLeases?: boolean | undefined
}

/**
 * Reads and writes Endpoints `default/kubernetes` together with its EndpointSlices: one for each address family. Every
 * write is guarded by a read in the same call. After a conflict the call rejects, and the caller reconciles again.
 * Upstream: pkg/controlplane/reconcilers/endpointsadapter.go.
 */
export class EndpointsAdapter {
  readonly #api: KubeApi
  readonly #writer: ObjectWriter
  readonly #served: ServedResources | undefined

  constructor(options: {
    readonly api: KubeApi
    readonly writer: ObjectWriter
    readonly served?: ServedResources | undefined
  }) {
    this.#api = options.api
    this.#writer = options.writer
    this.#served = options.served
  }

  getEndpoints(signal?: AbortSignal): Promise<Endpoints | undefined> {
    return ifFound(this.#api.get(endpointsResource, KUBERNETES_SERVICE, { signal }))
  }

  /**
   * Reads the stored objects; the slices only if the watched ones do not suffice. The slices are older than the
   * Endpoints that they follow, so that no slice is overwritten from Endpoints that are older than the slice.
   */
  async read(signal?: AbortSignal, watched?: WatchedList): Promise<StoredEndpoints> {
    const slices = watched?.suffices ? watched : await this.#readSlices(signal).catch(insteadOf(watched))
    return { ...slices, endpoints: await this.getEndpoints(signal) }
  }

  async #readSlices(signal: AbortSignal | undefined): Promise<Omit<ObservedEndpoints, 'endpoints'>> {
    const names = [KUBERNETES_SERVICE.name, secondSliceName('IPv4'), secondSliceName('IPv6')]
    const [slice, ...seconds] = await Promise.all(
      names.map((name) => ifFound(this.#api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }, { signal }))),
    )
    return { slice, secondSlices: seconds.filter((second) => second !== undefined) }
  }

  /**
   * Whether a plan needs no write now, according to the watches: everything is in sync, or another writer keeps
   * overwriting an object, so that its correction must wait.
   */
  isSettled({ endpoints: action, secondAddresses }: ListPlan, observed: ObservedEndpoints): boolean {
    if (action.type === 'refuse') return false
    if (!this.#writer.isSettled(endpointsResource, action, observed.endpoints)) return false
    const wanted = action.type === 'none' ? observed.endpoints : action.object
    return slicePlans(wanted, secondAddresses, observed).every(([action, slice]) =>
      this.#writer.isSettled(endpointSlices, action, slice),
    )
  }

  /**
   * Gets a plan for the stored objects from `plan`, and executes it. Resolves with whether there was a plan. `plan`
   * must read the leases after the objects were read: this write then conflicts if another master wrote a plan from
   * newer leases. If the server does not serve the resource Endpoints, no list can be out of sync, and the result is
   * true. `watched`: see {@link read}.
   */
  async reconcile(
    plan: (stored: StoredEndpoints) => Promise<ListPlan | undefined>,
    signal: AbortSignal,
    watched?: WatchedList,
  ): Promise<boolean> {
    const served = this.#served
    if (served?.isUnserved(endpointsResource) && (await served.confirmUnserved(endpointsResource, signal))) return true
    const stored = await this.read(signal, watched)
    const wanted = await plan(stored)
    if (wanted !== undefined) await this.execute(wanted, stored, signal)
    return wanted !== undefined
  }

  /**
   * Executes a plan for the Endpoints, then makes the slices follow the planned Endpoints. Back-off applies to each
   * object separately: slices follow the plan even while the write of the Endpoints waits or fails (but see
   * {@link ListPlan.withoutLeases}). Rejects with {@link NoLiveMasters} if the plan is to refuse, with a conflict if
   * another client has changed or created the Endpoints meanwhile, and after the write of the Endpoints if the slices
   * are not known.
   */
  async execute(
    { endpoints: action, secondAddresses, withoutLeases = false }: ListPlan,
    stored: StoredEndpoints,
    signal?: AbortSignal,
  ): Promise<void> {
    if (action.type === 'refuse') throw new NoLiveMasters()
    // The slices follow the plan, not the answer: a webhook that changes addresses must not change those too.
    const wanted = action.type === 'none' ? stored.endpoints : action.object
    let outcome: Outcome<Endpoints>
    try {
      outcome = await this.#writer.execute(endpointsResource, action, stored.endpoints, signal)
    } catch (error) {
      // Most clients follow the slices, which must not list dead masters only because Endpoints cannot be written.
      if (action.type !== 'none' && !withoutLeases && (await this.#isUnwritten(error, action, stored, signal))) {
        // The caller decides by the failure of the Endpoints. The next reconciliation corrects the slices.
        await this.#ensureSlices(wanted, stored, secondAddresses, signal).catch(() => {})
      }
      throw error
    }
    if (outcome.type === 'overtaken') throw new KubeError('Conflict', 'another client has created the Endpoints')
    await this.#ensureSlices(wanted, stored, secondAddresses, signal)
  }

  /**
   * Whether the slices follow a plan although the write of the Endpoints failed: only if the Endpoints are still as
   * they were read, or still missing, so that the plan is the newest one. A webhook may hang, or refuse with any
   * status. If the write happens later nevertheless, the slices are right.
   */
  async #isUnwritten(
    error: unknown,
    { type }: EndpointsAction,
    { endpoints }: ObservedEndpoints,
    signal?: AbortSignal,
  ): Promise<boolean> {
    if (!(error instanceof RemoteError)) return false
    const now = await this.getEndpoints(signal).catch(() => 'unknown' as const)
    if (now === undefined || now === 'unknown') return now === undefined && type === 'create'
    const { uid, resourceVersion } = endpoints?.metadata ?? {}
    return now.metadata?.uid === uid && now.metadata?.resourceVersion === resourceVersion
  }

  async #ensureSlices(
    endpoints: Endpoints | undefined,
    stored: StoredEndpoints,
    secondAddresses: ListPlan['secondAddresses'],
    signal?: AbortSignal,
  ): Promise<void> {
    if (stored.slicesError !== undefined) throw stored.slicesError
    // No write waits for another: a refused write must not leave a dead address in the other slices.
    await allEnded(
      slicePlans(endpoints, secondAddresses, stored).map(([action, slice]) =>
        this.#writer.execute(endpointSlices, action, slice, signal),
      ),
    )
  }
}

function insteadOf(watched: ObservedEndpoints | undefined): (error: unknown) => Omit<StoredEndpoints, 'endpoints'> {
  return (error) => {
    if (!(error instanceof RemoteError)) throw error
    return watched ?? { slice: undefined, secondSlices: [], slicesError: error }
  }
}

/** For each slice: the action that makes it follow these Endpoints, and its current state. */
function slicePlans(
  endpoints: Endpoints | undefined,
  secondAddresses: ListPlan['secondAddresses'],
  { slice, secondSlices }: ObservedEndpoints,
): readonly (readonly [RemovableAction<EndpointSlice>, EndpointSlice | undefined])[] {
  const second = secondSliceOf(endpoints, secondAddresses)
  // We plan for both names: the order of the address families may have been reversed since a slice was written.
  const seconds = (['IPv4', 'IPv6'] as const).map((family) => {
    const name = secondSliceName(family)
    const current = secondSlices.find(({ metadata }) => metadata?.name === name)
    return [planSecondSlice(second?.metadata?.name === name ? second : undefined, current), current] as const
  })
  return endpoints === undefined ? seconds : [[planEndpointSlice(endpoints, slice), slice], ...seconds]
}

/**
 * No address remains to be listed. The empty list is not written, because it would cut off every client from the API.
 */
export class NoLiveMasters extends Error {
  override readonly name = 'NoLiveMasters'
  readonly code = 'NoLiveMasters'
  constructor() {
    super('no API server address remains to be listed; refusing to erase all endpoints of the kubernetes service')
  }
}
