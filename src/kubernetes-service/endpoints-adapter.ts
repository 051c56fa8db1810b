import type { KubeApi } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints as endpointsResource,
} from '../kube/resources.ts'
import { RemoteError } from '../runtime/remote-error.ts'
import { allEnded } from '../runtime/together.ts'
import { planEndpointSlice } from './endpoint-slice-plan.ts'
import type { EndpointsAction } from './endpoints-plan.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import type { ObjectWriter } from './object-writer.ts'
import type { ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'
import { planSecondSlice, type SecondSliceAction, secondSliceName, secondSliceOf } from './second-slice-plan.ts'

/** What is stored of `default/kubernetes`, as a write that follows was decided on. */
export interface StoredEndpoints {
  readonly endpoints: Endpoints | undefined
  readonly slice: EndpointSlice | undefined
  /** Those with the name of a second family. */
  readonly secondSlices: readonly EndpointSlice[]
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
    return orUndefined(this.#api.get(endpointsResource, KUBERNETES_SERVICE, { signal }))
  }

  /** Everything as it is, the slices read before what they follow: what is then written to one is not older than it. */
  async read(signal?: AbortSignal): Promise<StoredEndpoints> {
    const [slice, ...seconds] = await Promise.all([
      this.getSlice(signal),
      this.getSlice(signal, secondSliceName(4)),
      this.getSlice(signal, secondSliceName(6)),
    ])
    const secondSlices = seconds.filter((second) => second !== undefined)
    return { slice, secondSlices, endpoints: await this.getEndpoints(signal) }
  }

  /** The live slice; undefined when there is none. */
  getSlice(signal?: AbortSignal, name: string = KUBERNETES_SERVICE.name): Promise<EndpointSlice | undefined> {
    return orUndefined(this.#api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }, { signal }))
  }

  /**
   * Whether there is nothing to be done for a plan now, as far as the watches show: all is right, or what is not must wait because
   * somebody else keeps undoing it.
   *
   * @param secondAddresses - as in {@link execute}.
   */
  isSettled(action: EndpointsAction, observed: ObservedEndpoints, secondAddresses: readonly string[] = []): boolean {
    if (action.type === 'refuse') return false
    const wanted = action.type === 'none' ? observed.endpoints : action.endpoints
    if (action.type === 'none') {
      if (action.forNow !== true) this.#writer.right(endpointsResource, observed.endpoints)
    } else if (!this.#writer.isWaiting(endpointsResource, action.endpoints, observed.endpoints)) {
      return false
    }
    if (wanted === undefined) return true
    const first = planEndpointSlice(wanted, observed.slice)
    const second = planSecondSlice(secondSliceOf(wanted, secondAddresses), observed.secondSlice)
    return this.#isSliceSettled(first, observed.slice) && this.#isSliceSettled(second, observed.secondSlice)
  }

  /**
   * Carries out a plan for the Endpoints, then makes the slices follow what is stored. Of what somebody else keeps undoing, each waits
   * for itself: slices follow the plan also while the Endpoints must wait, or are refused for good.
   * Endpoints that somebody else made in the meantime are not an error: the next look sees them.
   *
   * @param secondAddresses - what the slice of the second family lists; without any there is no such slice.
   */
  async execute(
    action: EndpointsAction,
    stored: StoredEndpoints,
    signal?: AbortSignal,
    secondAddresses: readonly string[] = [],
  ): Promise<void> {
    const { endpoints: current } = stored
    const ensureSlices = (endpoints: Endpoints | undefined): Promise<void> =>
      this.#ensureSlices(endpoints, stored, secondAddresses, signal)
    if (action.type === 'refuse') throw new NoLiveMasters()
    if (action.type === 'none') {
      if (action.forNow !== true) this.#writer.right(endpointsResource, current)
      return ensureSlices(current)
    }
    if (this.#writer.mustWait(endpointsResource, action.endpoints, current)) return ensureSlices(action.endpoints)
    let written: Endpoints
    try {
      written = await this.#writeEndpoints(action, signal)
    } catch (error) {
      if (action.type === 'create' && isKubeError(error, 'AlreadyExists')) return
      // Most clients follow the slices: they must not lead to the dead because somebody may write no Endpoints.
      if (error instanceof RemoteError && error.nature === 'lasting') await ensureSlices(action.endpoints)
      throw error
    }
    await ensureSlices(written)
  }

  #writeEndpoints(
    { type, endpoints, reasons }: Exclude<EndpointsAction, { readonly type: 'none' | 'refuse' }>,
    signal?: AbortSignal,
  ): Promise<Endpoints> {
    return type === 'create'
      ? this.createEndpoints(endpoints, reasons, signal)
      : this.updateEndpoints(endpoints, reasons, signal)
  }

  createEndpoints(endpoints: Endpoints, reasons: readonly string[], signal?: AbortSignal): Promise<Endpoints> {
    return this.#writer.create(endpointsResource, endpoints, reasons, signal)
  }

  updateEndpoints(endpoints: Endpoints, reasons: readonly string[], signal?: AbortSignal): Promise<Endpoints> {
    return this.#writer.update(endpointsResource, endpoints, reasons, signal)
  }

  /** Makes the slice say what these Endpoints say. */
  async ensureEndpointSlice(endpoints: Endpoints, signal?: AbortSignal): Promise<void> {
    const current = await this.getSlice(signal)
    await this.#executeSlice(planEndpointSlice(endpoints, current), current, signal)
  }

  async #ensureSlices(
    endpoints: Endpoints | undefined,
    stored: StoredEndpoints,
    secondAddresses: readonly string[],
    signal?: AbortSignal,
  ): Promise<void> {
    const first = endpoints && planEndpointSlice(endpoints, stored.slice)
    const wanted = secondSliceOf(endpoints, secondAddresses)
    // None waits for another: one that is refused must not keep an address in the others.
    await allEnded([
      first && this.#executeSlice(first, stored.slice, signal),
      // Both names: the fleet may have had its families in the other order before.
      ...([4, 6] as const).map((family) => {
        const name = secondSliceName(family)
        const current = stored.secondSlices.find((slice) => slice.metadata?.name === name)
        const wantedHere = wanted?.metadata?.name === name ? wanted : undefined
        return this.#executeSlice(planSecondSlice(wantedHere, current), current, signal)
      }),
    ])
  }

  #isSliceSettled(action: SecondSliceAction, current: EndpointSlice | undefined): boolean {
    switch (action.type) {
      case 'none':
        this.#writer.right(endpointSlices, current)
        return true
      case 'remove':
        return this.#writer.isWaiting(endpointSlices, undefined, current)
      default:
        return this.#writer.isWaiting(endpointSlices, action.slice, current)
    }
  }

  async #executeSlice(
    action: SecondSliceAction,
    current: EndpointSlice | undefined,
    signal?: AbortSignal,
  ): Promise<void> {
    if (action.type === 'none') {
      this.#writer.right(endpointSlices, current)
      return
    }
    const wanted = action.type === 'remove' ? undefined : action.slice
    if (this.#writer.mustWait(endpointSlices, wanted, current)) return
    switch (action.type) {
      case 'create':
        await this.#createSlice(action.slice, action.reasons, signal)
        return
      case 'update':
        await this.#writer.update(endpointSlices, action.slice, action.reasons, signal)
        return
      case 'replace':
        await this.#writer.delete(endpointSlices, action.current, action.reasons, signal)
        await this.#createSlice(action.slice, action.reasons, signal)
        return
      case 'remove':
        try {
          await this.#writer.delete(endpointSlices, action.current, action.reasons, signal)
        } catch (error) {
          if (!isKubeError(error, 'NotFound')) throw error
        }
        return
    }
  }

  async #createSlice(slice: EndpointSlice, reasons: readonly string[], signal?: AbortSignal): Promise<void> {
    try {
      await this.#writer.create(endpointSlices, slice, reasons, signal)
    } catch (error) {
      if (!isKubeError(error, 'AlreadyExists')) throw error
    }
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

async function orUndefined<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return undefined
    throw error
  }
}
