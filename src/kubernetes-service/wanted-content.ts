import type { KubeObject } from '../kube/json.ts'
import type { EndpointSlice, Endpoints, Service } from '../kube/resources.ts'

/**
 * What a Service, Endpoints or an EndpointSlice says that is kept here, as text: equal for objects that say the same, whatever else
 * differs. Undefined stands for an object that is not to be there. Pure.
 */
export function wantedContent(object: KubeObject | undefined): string {
  if (object === undefined) return 'absent'
  const { subsets } = object as Endpoints
  const { endpoints, addressType, ports } = object as EndpointSlice
  const { spec } = object as Service
  if (spec !== undefined) return JSON.stringify([spec.type, spec.ipFamilyPolicy, portsOf(spec.ports)])
  if (addressType !== undefined) {
    const addresses = (endpoints ?? []).flatMap((endpoint) => endpoint.addresses)
    return JSON.stringify([addressType, addresses.sort(), portsOf(ports)])
  }
  const listed = (subsets ?? []).map((subset) => [
    (subset.addresses ?? []).map(({ ip }) => ip).sort(),
    portsOf(subset.ports),
  ])
  return JSON.stringify(listed)
}

interface AnyPort {
  readonly name?: string | undefined
  readonly port?: number | undefined
  readonly protocol?: string | undefined
  readonly targetPort?: unknown
  readonly nodePort?: number | undefined
}

function portsOf(ports: readonly AnyPort[] | undefined): unknown {
  return (ports ?? []).map(({ name, port, protocol, targetPort, nodePort }) => [
    name ?? '',
    port,
    protocol ?? 'TCP',
    String(targetPort ?? port),
    nodePort ?? 0,
  ])
}
