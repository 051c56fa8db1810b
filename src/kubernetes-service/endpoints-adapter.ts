import type { KubeApi } from '../kube/api.ts'
import { ifFound } from '../kube/errors.ts'
import type { ObjectWriter, Outcome, RemovableAction } from '../kube/object-writer.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints as endpointsResource,
} from '../kube/resources.ts'
import { RemoteError } from '../runtime/remote-error.ts'
import { allEnded } from '../runtime/together.ts'
import { planEndpointSlice, planSecondSlice, secondSliceName, secondSliceOf } from './endpoint-slice-plan.ts'
import type { EndpointsAction } from './endpoints-plan.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import type { ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'

/** What is stored of `default/kubernetes`, as a write that follows was decided on. */
export interface StoredEndpoints {
  readonly endpoints: Endpoints | undefined
  readonly slice: EndpointSlice | undefined
  /** Those with the name of a second family. */
  readonly secondSlices: readonly EndpointSlice[]
}

/** What is to be done about the list of masters. */
export interface ListPlan {
  readonly endpoints: EndpointsAction
  /** What the slice of the second family lists; without any there is no such slice. @default none */
  readonly secondAddresses?: readonly string[] | undefined
}

/**
 * Reads and writes Endpoints `default/kubernetes` together with the EndpointSlice of that name.
 *
 * Nothing is remembered between calls; every write is guarded by what was read in the same call, and a conflict rejects: the
 * caller looks again. Upstream: pkg/controlplane/reconcilers/endpointsadapter.go.
 */
export class EndpointsAdapter {
  readonly #api: KubeApi
  readonly #writer: ObjectWriter

  constructor(options: { readonly api: KubeApi; readonly writer: ObjectWriter }) {
    this.#api = options.api
    this.#writer = options.writer
  }

  /** The live Endpoints; undefined when there are none. */
  getEndpoints(signal?: AbortSignal): Promise<Endpoints | undefined> {
    return ifFound(this.#api.get(endpointsResource, KUBERNETES_SERVICE, { signal }))
  }

  /** Everything as it is, the slices read before what they follow: what is then written to one is not older than it. */
  async read(signal?: AbortSignal): Promise<StoredEndpoints> {
    const names = [KUBERNETES_SERVICE.name, secondSliceName(4), secondSliceName(6)]
    const [slice, ...seconds] = await Promise.all(
      names.map((name) => ifFound(this.#api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }, { signal }))),
    )
    const secondSlices = seconds.filter((second) => second !== undefined)
    return { slice, secondSlices, endpoints: await this.getEndpoints(signal) }
  }

  /**
   * Whether there is nothing to be done for a plan now, as far as the watches show: all is right, or what is not must wait because
   * somebody else keeps undoing it.
   */
  isSettled({ endpoints: action, secondAddresses }: ListPlan, observed: ObservedEndpoints): boolean {
    if (action.type === 'refuse') return false
    if (!this.#writer.isSettled(endpointsResource, action, observed.endpoints)) return false
    const wanted = action.type === 'none' ? observed.endpoints : action.object
    if (wanted === undefined) return true
    const { slice, secondSlice } = observed
    const second = planSecondSlice(secondSliceOf(wanted, secondAddresses), secondSlice)
    return (
      this.#writer.isSettled(endpointSlices, planEndpointSlice(wanted, slice), slice) &&
      this.#writer.isSettled(endpointSlices, second, secondSlice)
    )
  }

  /**
   * Makes the list what `plan` wants it to be, given what is stored; whether it wanted anything. It reads the leases last: a write that rests
   * on older ones than somebody else's then finds that the objects have changed.
   */
  async reconcile(
    plan: (stored: StoredEndpoints) => Promise<ListPlan | undefined>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const stored = await this.read(signal)
    const wanted = await plan(stored)
    if (wanted !== undefined) await this.execute(wanted, stored, signal)
    return wanted !== undefined
  }

  /**
   * Carries out a plan for the Endpoints, then makes the slices follow what is stored. Of what somebody else keeps undoing, each waits
   * for itself: slices follow the plan also while the Endpoints must wait, or are refused for good.
   * Endpoints that somebody else made in the meantime are not an error: the next look sees them.
   */
  async execute(
    { endpoints: action, secondAddresses }: ListPlan,
    stored: StoredEndpoints,
    signal?: AbortSignal,
  ): Promise<void> {
    if (action.type === 'refuse') throw new NoLiveMasters()
    let outcome: Outcome<Endpoints>
    try {
      outcome = await this.#writer.execute(endpointsResource, action, stored.endpoints, signal)
    } catch (error) {
      // Most clients follow the slices: they must not lead to the dead because somebody may write no Endpoints.
      if (action.type !== 'none' && error instanceof RemoteError && error.nature === 'lasting') {
        await this.#ensureSlices(action.object, stored, secondAddresses, signal)
      }
      throw error
    }
    if (outcome.type !== 'overtaken') await this.#ensureSlices(outcome.object, stored, secondAddresses, signal)
  }

  async #ensureSlices(
    endpoints: Endpoints | undefined,
    stored: StoredEndpoints,
    secondAddresses: ListPlan['secondAddresses'],
    signal?: AbortSignal,
  ): Promise<void> {
    const wanted = secondSliceOf(endpoints, secondAddresses)
    const execute = (action: RemovableAction<EndpointSlice>, current: EndpointSlice | undefined) =>
      this.#writer.execute(endpointSlices, action, current, signal)
    // None waits for another: one that is refused must not keep an address in the others.
    await allEnded([
      endpoints && execute(planEndpointSlice(endpoints, stored.slice), stored.slice),
      // Both names: the fleet may have had its families in the other order before.
      ...([4, 6] as const).map((family) => {
        const name = secondSliceName(family)
        const current = stored.secondSlices.find((slice) => slice.metadata?.name === name)
        return execute(planSecondSlice(wanted?.metadata?.name === name ? wanted : undefined, current), current)
      }),
    ])
  }
}

/** The leases name nobody: writing that down would take the API away from every client, so it is not done. */
export class NoLiveMasters extends Error {
  override readonly name = 'NoLiveMasters'
  readonly code = 'NoLiveMasters'
  constructor() {
    super('no API server addresses are in the lease store; refusing to erase all endpoints of the kubernetes service')
  }
}
