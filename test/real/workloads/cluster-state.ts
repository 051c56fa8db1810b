import * as resources from '../../../src/kube/resources.ts'
import {
  type EndpointSlice,
  type Endpoints,
  type KubeObject,
  type Pod,
  pathOf,
  type Service,
} from '../../../src/kube/resources.ts'
import type { ApiClient } from '../../peers/api-client.ts'
import type { Plural } from './steps.ts'

/** The content of the namespaces of a history. */
export interface ClusterState {
  readonly services: readonly Service[]
  readonly pods: readonly Pod[]
  readonly endpoints: readonly Endpoints[]
  readonly slices: readonly EndpointSlice[]
  /** The names of the Nodes. */
  readonly nodes: readonly string[]
}

/**
 * A Service that shows whether the controllers keep up. It is not part of the state, nor is any object whose name
 * begins with its name.
 */
export const canary = 'canary'

const resourceOf = {
  nodes: resources.nodes,
  pods: resources.pods,
  services: resources.services,
  endpoints: resources.endpoints,
  endpointslices: resources.endpointSlices,
} as const

export function pathTo(plural: Plural, namespace: string | undefined, name?: string, subresource?: string): string {
  return pathOf(resourceOf[plural], { namespace, name, subresource })
}

/** In the result the namespaces are named `a` and `b`, whatever their names on the server. */
export async function readClusterState(api: ApiClient, namespaces: readonly string[]): Promise<ClusterState> {
  const [services, pods, endpoints, slices, nodes] = await Promise.all([
    list<Service>(api, 'services', namespaces),
    list<Pod>(api, 'pods', namespaces),
    list<Endpoints>(api, 'endpoints', namespaces),
    list<EndpointSlice>(api, 'endpointslices', namespaces),
    api.get<{ readonly items: readonly KubeObject[] }>(pathTo('nodes', undefined)),
  ])
  return { services, pods, endpoints, slices, nodes: nodes.items.flatMap(({ metadata }) => metadata?.name ?? []) }
}

async function list<T extends KubeObject>(api: ApiClient, plural: Plural, namespaces: readonly string[]): Promise<T[]> {
  const lists = await Promise.all(
    namespaces.map(async (namespace, index) => {
      const found = await api.get<{ readonly items: readonly T[] }>(pathTo(plural, namespace))
      const items = found.items.filter(({ metadata }) => !metadata?.name?.startsWith(canary))
      return JSON.parse(JSON.stringify(items).replaceAll(`"${namespace}"`, `"${'ab'[index]}"`)) as T[]
    }),
  )
  return lists.flat()
}
