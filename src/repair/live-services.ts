import type { KubeApi, ObjectRef } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import { listPages } from '../kube/list-pages.ts'
import { type Service, services } from '../kube/resources.ts'
import { keyOf, keyOfObject } from '../kube/store.ts'

/** Up to this many Services are read one by one, at once; more come cheaper in one list. */
const fewServices = 8

/**
 * Reads Services as they are now, from the store itself, by `namespace/name`: those asked for that exist.
 * What is read was so at some moment after the call. Rejects with a KubeError.
 */
export async function readServices(
  api: KubeApi,
  refs: readonly ObjectRef[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Service>> {
  const found =
    refs.length <= fewServices
      ? await Promise.all(refs.map((ref) => readService(api, ref, signal)))
      : await listServices(api, signal)
  const wanted = new Set(refs.map(keyOf))
  return new Map(
    found
      .filter((service) => service !== undefined)
      .map((service): [string, Service] => [keyOfObject(service), service])
      .filter(([key]) => wanted.has(key)),
  )
}

/** All Services as they are now: each as it was at one moment after the call. */
export async function listServices(api: KubeApi, signal: AbortSignal): Promise<readonly Service[]> {
  return (await Array.fromAsync(listPages(api, services, { signal }))).flat()
}

async function readService(api: KubeApi, ref: ObjectRef, signal: AbortSignal): Promise<Service | undefined> {
  try {
    return await api.get(services, ref, { signal })
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return undefined
    throw error
  }
}
