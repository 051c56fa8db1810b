import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type KubeObject,
  type Node,
  nodes,
  type Pod,
  pathOf,
  pods,
  type Resource,
  type Service,
  services,
} from '../../src/kube/resources.ts'

/** All objects of a cluster that concern the endpoints of its Services. */
export interface ClusterState {
  readonly services: readonly Service[]
  readonly pods: readonly Pod[]
  readonly nodes: readonly Node[]
  readonly endpoints: readonly Endpoints[]
  readonly slices: readonly EndpointSlice[]
}

/** Reads the state with plain lists. `get` resolves with the object at a path. Nothing may change meanwhile. */
export async function readClusterState(get: (path: string) => Promise<unknown>): Promise<ClusterState> {
  const list = async <T extends KubeObject>(resource: Resource<T>): Promise<readonly T[]> =>
    ((await get(pathOf(resource))) as { items: readonly T[] }).items
  return {
    services: await list(services),
    pods: await list(pods),
    nodes: await list(nodes),
    endpoints: await list(endpoints),
    slices: await list(endpointSlices),
  }
}

export function keyOf(object: KubeObject): string {
  return `${object.metadata?.namespace}/${object.metadata?.name}`
}
