import type { KubeApi } from '../kube/api.ts'
import type { KubeObject } from '../kube/json.ts'
import { endpointSlices, endpoints, type Resource } from '../kube/resources.ts'
import type { Listing } from '../verify/listing.ts'

/** Longer than any drill, so that no server ends the watches of those who look on, in seconds. */
export const WATCH_SECONDS = 172_800

/** Hears every version of the Endpoints or of the slice of `kubernetes`, until the signal is aborted. */
export async function followListings(
  api: KubeApi,
  object: Listing['object'],
  hear: (addresses: readonly string[] | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  const resource = (object === 'endpoints' ? endpoints : endpointSlices) as Resource<KubeObject>
  const query = {
    namespace: 'default',
    fieldSelector: 'metadata.name=kubernetes',
    timeoutSeconds: WATCH_SECONDS,
    signal,
  }
  for await (const event of api.watch(resource, { ...query, sendInitialEvents: true, allowWatchBookmarks: true })) {
    if (event.type === 'BOOKMARK' || event.type === 'ERROR') continue
    hear(event.type === 'DELETED' ? undefined : addressesOf(event.object))
  }
}

/** The addresses that clients are told to use, sorted. */
export function addressesOf(object: unknown): readonly string[] {
  // A Go server says null for a list that has nothing in it.
  const { subsets, endpoints: sliced } = object as {
    subsets?: { addresses?: { ip: string }[] }[] | null
    endpoints?: { addresses: string[]; conditions?: { ready?: boolean } }[] | null
  }
  const listed = (subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
  // Only false says that nobody should go there: a kube-apiserver carries foreign unready addresses over.
  const usable = (sliced ?? []).filter(({ conditions }) => conditions?.ready !== false)
  return [...listed, ...usable.flatMap(({ addresses }) => addresses)].sort()
}
