import type { EndpointSlice } from '../../src/kube/resources.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import { oneOf } from './churn-objects.ts'

export interface VandalTools {
  readonly slices: readonly EndpointSlice[]
  /** The names of Services. */
  readonly services: readonly string[]
  readonly namespace: string
  readonly random: Random
  readonly did: (method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown) => Promise<boolean>
}

/** Damages objects of the controllers in a way that upstream's controllers notice. Resolves with what it did. */
export async function spoil({ slices, services, namespace, random, did }: VandalTools): Promise<string | undefined> {
  const own = slices.filter(({ metadata }) => metadata?.namespace === namespace)
  const slice = own.length === 0 ? undefined : oneOf(random, own)
  const choice = randomInteger(random, 4)
  if (choice === 0 || slice === undefined) {
    if (services.length === 0) return undefined
    const name = oneOf(random, services)
    const path = `/api/v1/namespaces/${namespace}/endpoints/${name}`
    return (await did('DELETE', path)) ? `spoil: delete Endpoints ${name}` : undefined
  }
  const { name, generateName, labels, ownerReferences } = slice.metadata ?? {}
  if (choice === 1) return (await did('DELETE', slicePath(slice))) ? `spoil: delete slice ${name}` : undefined
  if (choice === 2) {
    const { endpoints, ports, addressType } = slice
    const copy = { metadata: { generateName, labels, ownerReferences }, addressType, endpoints, ports }
    const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`
    return (await did('POST', path, copy)) ? `spoil: copy slice ${name}` : undefined
  }
  const [first, ...rest] = slice.endpoints ?? []
  if (first === undefined) return undefined
  // Does not empty a slice, because a slice that another client has emptied may stay as it is.
  const endpoints =
    rest.length > 0 && random.next() < 0.5 ? rest : [{ ...first, conditions: { ready: false } }, ...rest]
  return (await did('PUT', slicePath(slice), { ...slice, endpoints })) ? `spoil: change slice ${name}` : undefined
}

export function slicePath({ metadata }: EndpointSlice): string {
  return `/apis/discovery.k8s.io/v1/namespaces/${metadata?.namespace}/endpointslices/${metadata?.name}`
}
