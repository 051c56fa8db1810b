import type { Node, Pod, Service } from '../kube/resources.ts'
import { findPort, isEndpoint } from '../workloads/pod-rules.ts'
import { type Endpoint, endpointOf } from './pod-endpoint.ts'
import type { AddressType } from './slice-info.ts'
import { type EndpointPort, inHashOrder, portsKey } from './slice-ports.ts'

type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

/** The endpoints that have the same ports, by the names of their Pods. There may be none: Pods without an address of the family count for their ports. */
export interface DesiredGroup {
  readonly ports: readonly EndpointPort[]
  readonly endpoints: Map<string, Endpoint>
}

/** A Pod that is left out because its Node is not known. */
export interface LeftOutPod {
  readonly pod: string
  /** Empty for a Pod that has none. */
  readonly node: string
}

export interface DesiredEndpoints {
  /** By {@link portsKey}. */
  readonly groups: ReadonlyMap<string, DesiredGroup>
  readonly leftOut: readonly LeftOutPod[]
}

/** The endpoints of an address type that a Service shall have, by their ports. */
export function desiredEndpoints(options: {
  readonly service: Service
  readonly pods: readonly Pod[]
  readonly nodeOf: (name: string) => Node | undefined
  readonly addressType: AddressType
}): DesiredEndpoints {
  const { service, pods, nodeOf, addressType } = options
  const publishNotReady = service.spec?.publishNotReadyAddresses === true
  const portsOf = portsOfPods(service)
  const groups = new Map<string, DesiredGroup>()
  const leftOut: LeftOutPod[] = []
  let last: DesiredGroup | undefined
  for (const pod of pods) {
    if (!isEndpoint(pod, true)) continue
    const ports = portsOf(pod)
    const group = last?.ports === ports ? last : groupOf(groups, ports)
    last = group
    const name = pod.metadata?.name ?? ''
    const nodeName = pod.spec?.nodeName ?? ''
    const node = nodeOf(nodeName)
    if (node === undefined && !publishNotReady) {
      leftOut.push({ pod: name, node: nodeName })
      continue
    }
    const endpoint = endpointOf(pod, node, service, addressType)
    if (endpoint.addresses.length > 0) group.endpoints.set(name, endpoint)
  }
  return { groups, leftOut }
}

function groupOf(groups: Map<string, DesiredGroup>, ports: readonly EndpointPort[]): DesiredGroup {
  const key = portsKey(ports)
  let group = groups.get(key)
  if (group === undefined) {
    group = { ports, endpoints: new Map() }
    groups.set(key, group)
  }
  return group
}

/** The ports of a Service as its endpoints have them. Pods for which they are the same get the same list. */
export function portsOfPods(service: Service): (pod: Pod) => readonly EndpointPort[] {
  const ports = service.spec?.ports ?? []
  if (ports.every(({ targetPort }) => typeof targetPort !== 'string')) {
    let common: readonly EndpointPort[] | undefined
    return (pod) => {
      common ??= numbered(ports.map((port) => [port, findPort(pod, port)]))
      return common
    }
  }
  const known = new Map<string, readonly EndpointPort[]>()
  return (pod) => {
    const numbers = ports.map((port) => findPort(pod, port))
    const key = numbers.join()
    let found = known.get(key)
    if (found === undefined) {
      found = numbered(ports.map((port, index) => [port, numbers[index]]))
      known.set(key, found)
    }
    return found
  }
}

/** A port of which a Pod has no number is left out. */
function numbered(
  ports: readonly (readonly [port: ServicePort, number: number | undefined])[],
): readonly EndpointPort[] {
  const found = ports.flatMap(([{ name = '', protocol = 'TCP', appProtocol }, port]): EndpointPort[] =>
    port === undefined ? [] : [{ name, port, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) }],
  )
  return inHashOrder(found)
}
