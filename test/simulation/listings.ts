import type { KubeApi } from '../../src/kube/api.ts'
import type { KubeObject } from '../../src/kube/json.ts'
import { endpointSlices, endpoints, type Resource } from '../../src/kube/resources.ts'

/** What `default/kubernetes` listed from a moment on. */
export interface Listing {
  readonly atMs: number
  readonly object: 'endpoints' | 'slice'
  /** Undefined when the object was gone. */
  readonly addresses: readonly string[] | undefined
  readonly byDamage: boolean
  /** Who wrote it; undefined for what somebody else did. */
  readonly by: string | undefined
}

/** Hears every version of the Endpoints or of the slice of `kubernetes`, until the signal is aborted. */
export async function followListings(
  api: KubeApi,
  object: Listing['object'],
  hear: (addresses: readonly string[] | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  const resource = (object === 'endpoints' ? endpoints : endpointSlices) as Resource<KubeObject>
  const query = { namespace: 'default', fieldSelector: 'metadata.name=kubernetes', signal }
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
    endpoints?: { addresses: string[] }[] | null
  }
  const listed = (subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
  return [...listed, ...(sliced ?? []).flatMap((endpoint) => endpoint.addresses)].sort()
}
