import type { KubeApi } from '../../kube/api.ts'
import { endpointSlices, endpoints, type KubeObject, type Resource, services } from '../../kube/resources.ts'
import { keyOf } from '../../kube/store.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { linkedController } from '../../runtime/signals.ts'
import type { WatchedWrites } from './state.ts'

const watched: readonly Resource<KubeObject>[] = [services, endpoints, endpointSlices]
/** The pause before the next list after the server has ended a watch, in milliseconds. */
const AGAIN_AFTER_MS = 100
/** The most states of one object that are collected. A finding needs no more. */
const MOST_STATES = 10_000

/**
 * Collects the states of Service, Endpoints and EndpointSlice `default/kubernetes` for `forMs` milliseconds. Rejects
 * with a KubeError, or with the reason of an aborted signal.
 */
export async function watchWrites(
  { api, clock }: { readonly api: KubeApi; readonly clock: Clock },
  forMs: number,
  signal: AbortSignal,
): Promise<WatchedWrites> {
  const { controller, unlink } = linkedController(signal)
  const cancel = clock.schedule(forMs, () => controller.abort())
  try {
    const of = { api, clock, signal: controller.signal }
    const states = await Promise.all(watched.map((resource) => statesOf(resource, of)))
    signal.throwIfAborted()
    return { forMs, states: new Map(states) }
  } finally {
    cancel()
    unlink()
    controller.abort()
  }
}

/**
 * Resolves with the name of the object and its states when the signal is aborted, or at the first event after
 * {@link MOST_STATES} are collected. Rejects with a KubeError.
 */
async function statesOf(
  resource: Resource<KubeObject>,
  { api, clock, signal }: { readonly api: KubeApi; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<readonly [string, readonly (KubeObject | undefined)[]]> {
  const query = {
    namespace: KUBERNETES_SERVICE.namespace,
    fieldSelector: `metadata.name=${KUBERNETES_SERVICE.name}`,
    signal,
  }
  const states: (KubeObject | undefined)[] = []
  try {
    while (states.length < MOST_STATES) {
      const { items, metadata } = await api.list(resource, query)
      states.push(items[0])
      const { resourceVersion } = metadata
      for await (const { type, object } of api.watch(resource, { ...query, resourceVersion })) {
        if (type === 'ERROR' || states.length >= MOST_STATES) break
        if (type !== 'BOOKMARK') states.push(type === 'DELETED' ? undefined : object)
      }
      if (signal.aborted) break
      await sleep(clock, AGAIN_AFTER_MS, signal)
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
  return [`${resource.kind} ${keyOf(KUBERNETES_SERVICE)}`, states]
}
