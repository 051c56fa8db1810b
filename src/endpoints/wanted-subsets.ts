import type { Pod, Service } from '../kube/resources.ts'
import { familyOf } from '../net/address.ts'
import { getOrMake } from '../runtime/memo.ts'
import {
  findPorts,
  hasHostname,
  isEndpoint,
  isPodReady,
  podAddresses,
  portMappings,
  refuseManyPortPairs,
  type ServicePort,
} from '../workloads/pod-rules.ts'
import {
  compareEndpointAddresses,
  type EndpointAddress,
  type EndpointSubset,
  type SubsetPort,
  subsetOf,
  subsetPortsInOrder,
} from '../workloads/subsets.ts'
import { listedOrder, subsetsInOrder } from './subsets.ts'

/** The Pods for which the Service's ports have the same numbers, as addresses in order. */
interface PodClass {
  /** The number of each port of the Service, in the order of the Service; undefined if these Pods have no such port. */
  readonly numbers: readonly (number | undefined)[]
  readonly ready: EndpointAddress[]
  readonly notReady: EndpointAddress[]
}

/**
 * The desired subsets of a Service's Endpoints, packed and in order, before truncation. They equal the result of
 * upstream's `RepackSubsets` on one subset per Pod and port. Unlike upstream, this function first sorts the Pods into
 * classes by the numbers of their ports. There is mostly one class, so the work does not grow with the product of Pods
 * and ports.
 *
 * `pods` are those that the Service selects. No two of them may have the same uid and address.
 *
 * @throws Error if Pods have too many different numbers for too many ports
 */
export function wantedSubsets(service: Service, pods: readonly Pod[]): readonly EndpointSubset[] {
  const { ports, clusterIP } = service.spec ?? {}
  if (ports === undefined || ports.length === 0) {
    if (clusterIP !== 'None') return []
    const [everything] = classesOf(service, pods, [])
    return everything === undefined ? [] : [merged([everything], [])]
  }
  refuseManyPortPairs(service, pods)
  const classes = classesOf(service, pods, ports)
  return subsetsInOrder(groupsOf(classes, ports).map((group) => merged(group.classes, group.ports)))
}

/** The port in Endpoints for a port of a Service, whose number is `port` (upstream's `endpointPortFromServicePort`). */
export function endpointPort({ name, protocol, appProtocol }: ServicePort, port: number): SubsetPort {
  return {
    ...(name === undefined || name === '' ? {} : { name }),
    port,
    ...(protocol === undefined || protocol === '' ? {} : { protocol }),
    ...(appProtocol === undefined || appProtocol === null ? {} : { appProtocol }),
  }
}

function classesOf(service: Service, pods: readonly Pod[], ports: readonly ServicePort[]): readonly PodClass[] {
  const publishesNotReady = service.spec?.publishNotReadyAddresses === true
  const addresses = pods.map((pod) => (isEndpoint(pod, publishesNotReady) ? addressFor(service, pod) : undefined))
  const classes = new Map<string, PodClass>()
  const mappingOf = portMappings(ports)
  for (const place of listedOrder(service, addresses)) {
    const address = addresses[place]
    if (address === undefined) continue
    const pod = pods[place] as Pod
    const { ready, notReady } = getOrMake(classes, mappingOf(pod), () => {
      return { numbers: findPorts(pod, ports), ready: [], notReady: [] }
    })
    if (publishesNotReady || isPodReady(pod)) ready.push(address)
    else notReady.push(address)
  }
  return [...classes.values()]
}

interface PortGroup {
  readonly classes: readonly PodClass[]
  readonly ports: SubsetPort[]
}

/** Groups the ports by the classes that offer them. A class that offers none of the ports is in no group. */
function groupsOf(classes: readonly PodClass[], ports: readonly ServicePort[]): readonly PortGroup[] {
  const groups = new Map<string, PortGroup>()
  for (const [index, port] of ports.entries()) {
    for (const [number, offering] of classesByNumber(classes, index)) {
      const group = getOrMake(groups, offering.join(), () => ({
        classes: offering.map((at) => classes[at] as PodClass),
        ports: [],
      }))
      // As upstream, a port with the number 0 is not listed, but its addresses are.
      if (number > 0) group.ports.push(endpointPort(port, number))
    }
  }
  return [...groups.values()]
}

/** The indexes of the classes that offer the Service's port at index `port`, by the number of the port in them. */
function classesByNumber(classes: readonly PodClass[], port: number): ReadonlyMap<number, readonly number[]> {
  const byNumber = new Map<number, number[]>()
  for (const [at, { numbers }] of classes.entries()) {
    const number = numbers[port]
    if (number !== undefined) getOrMake(byNumber, number, () => []).push(at)
  }
  return byNumber
}

/** One subset with the addresses of all these classes. The addresses of each class are already in order. */
function merged(classes: readonly PodClass[], ports: readonly SubsetPort[]): EndpointSubset {
  const [first] = classes
  const listed = (of: 'ready' | 'notReady'): readonly EndpointAddress[] =>
    first !== undefined && classes.length === 1
      ? first[of]
      : classes.flatMap((one) => one[of]).sort(compareEndpointAddresses)
  return subsetOf(listed('ready'), listed('notReady'), subsetPortsInOrder(ports))
}

/**
 * The Pod's first address of the Service's family; undefined if it has none. Upstream:
 * `podToEndpointAddressForService`.
 */
export function addressFor(service: Service, pod: Pod): EndpointAddress | undefined {
  const family = familyOfService(service) ?? familyOf(pod.status?.podIP ?? '')
  const [ip] = podAddresses(pod, family)
  if (ip === undefined) return undefined
  const { namespace, name, uid } = pod.metadata ?? {}
  return {
    ip,
    ...(hasHostname(pod, service) ? { hostname: pod.spec?.hostname ?? '' } : {}),
    // Upstream sets the Node's name even if it is empty. API servers refuse an empty name, so the sync of the Service
    // fails until the Pod has a Node.
    nodeName: pod.spec?.nodeName ?? '',
    targetRef: { kind: 'Pod', namespace, name, uid } as NonNullable<EndpointAddress['targetRef']>,
  }
}

/**
 * The family of the addresses that a Service lists: the first of its `ipFamilies`, else the family of its ClusterIP.
 * Undefined if the Service has neither; for each Pod, the family of the Pod's own `podIP` then counts.
 */
function familyOfService(service: Service): 'IPv4' | 'IPv6' | undefined {
  const { ipFamilies, clusterIP } = service.spec ?? {}
  const [first] = ipFamilies ?? []
  if (first !== undefined) return first === 'IPv6' ? 'IPv6' : 'IPv4'
  if (clusterIP === undefined || clusterIP === '' || clusterIP === 'None') return undefined
  return familyOf(clusterIP)
}
