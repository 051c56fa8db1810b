import type { Pod, Service } from '../kube/resources.ts'
import { findPort, hasHostname, isEndpoint, isPodReady, type ServicePort } from '../workloads/pod-rules.ts'
import { listedOrder } from './listed-order.ts'
import { addressOfFamily, familyOf, familyOfPod } from './pod-address.ts'
import { subsetOf } from './repack.ts'
import type { EndpointAddress, EndpointPort, EndpointSubset } from './subset-equality.ts'
import { compareEndpointAddresses, portsInOrder, subsetsInOrder } from './subset-order.ts'

/** The Pods in which the ports of the Service have the same numbers: their addresses, in order. */
interface PodClass {
  /** For each port of the Service; undefined where these Pods have no such port. */
  readonly numbers: readonly (number | undefined)[]
  readonly ready: EndpointAddress[]
  readonly notReady: EndpointAddress[]
}

/**
 * The subsets that the Endpoints of a Service shall have, without limit, packed and in order: what upstream's `RepackSubsets` makes of one subset for each
 * Pod and port. Here the Pods are sorted into classes by the numbers of their ports first, mostly one; so the work grows with the Pods, not with the ports.
 *
 * `pods` are those that the Service selects. No two of them have the same uid and address: that is what makes a Pod a Pod.
 */
export function wantedSubsets(service: Service, pods: readonly Pod[]): readonly EndpointSubset[] {
  const { ports, clusterIP } = service.spec ?? {}
  if (ports === undefined || ports.length === 0) {
    if (clusterIP !== 'None') return []
    const [everything] = classesOf(service, pods, [])
    return everything === undefined ? [] : [merged([everything], [])]
  }
  const classes = classesOf(service, pods, ports)
  return subsetsInOrder(groupsOf(classes, ports).map((group) => merged(group.classes, group.ports)))
}

/** The port of Endpoints for a port of a Service whose number is known (upstream's `endpointPortFromServicePort`). */
export function endpointPort({ name, protocol, appProtocol }: ServicePort, port: number): EndpointPort {
  return {
    ...(name === undefined || name === '' ? {} : { name }),
    port,
    ...(protocol === undefined || protocol === '' ? {} : { protocol }),
    ...(appProtocol === undefined || appProtocol === null ? {} : { appProtocol }),
  }
}

function classesOf(service: Service, pods: readonly Pod[], ports: readonly ServicePort[]): readonly PodClass[] {
  const tolerant = service.spec?.publishNotReadyAddresses === true
  const addresses = addressesOf(service, pods, tolerant)
  const classes = new Map<string, PodClass>()
  // A number is the same in each Pod, which then need not be asked.
  const differ = ports.some(({ targetPort }) => typeof (targetPort as unknown) === 'string')
  let only: PodClass | undefined
  for (const place of listedOrder(service, addresses)) {
    const address = addresses[place]
    if (address === undefined) continue
    const pod = pods[place] as Pod
    if (only === undefined || differ) only = classOf(pod, ports, classes)
    if (tolerant || isPodReady(pod)) only.ready.push(address)
    else only.notReady.push(address)
  }
  return [...classes.values()]
}

/** The addresses of the Pods, undefined for those that are no endpoints. */
function addressesOf(
  service: Service,
  pods: readonly Pod[],
  tolerant: boolean,
): readonly (EndpointAddress | undefined)[] {
  const family = familyOf(service)
  return pods.map((pod) =>
    isEndpoint(pod, tolerant) ? addressOfFamily(pod, family ?? familyOfPod(pod), hasHostname(pod, service)) : undefined,
  )
}

/** The class of a Pod, among those that there are or a new one. */
function classOf(pod: Pod, ports: readonly ServicePort[], classes: Map<string, PodClass>): PodClass {
  const numbers = ports.map((port) => findPort(pod, port))
  const key = numbers.join()
  let own = classes.get(key)
  if (own === undefined) {
    own = { numbers, ready: [], notReady: [] }
    classes.set(key, own)
  }
  return own
}

/** Ports that the same classes offer. */
interface PortGroup {
  readonly classes: readonly PodClass[]
  readonly ports: EndpointPort[]
}

/** A class that has none of the ports is in no group. */
function groupsOf(classes: readonly PodClass[], ports: readonly ServicePort[]): readonly PortGroup[] {
  const groups = new Map<string, PortGroup>()
  for (const [index, port] of ports.entries()) {
    for (const [number, offering] of classesByNumber(classes, index)) {
      const key = offering.join()
      let group = groups.get(key)
      if (group === undefined) {
        group = { classes: offering.map((at) => classes[at] as PodClass), ports: [] }
        groups.set(key, group)
      }
      // Upstream takes a port without a number for none at all, and lists the addresses.
      if (number > 0) group.ports.push(endpointPort(port, number))
    }
  }
  return [...groups.values()]
}

/** Where in `classes` those are in which a port of the Service has a number, by that. */
function classesByNumber(classes: readonly PodClass[], port: number): ReadonlyMap<number, readonly number[]> {
  const byNumber = new Map<number, number[]>()
  for (const [at, { numbers }] of classes.entries()) {
    const number = numbers[port]
    if (number === undefined) continue
    const found = byNumber.get(number)
    if (found === undefined) byNumber.set(number, [at])
    else found.push(at)
  }
  return byNumber
}

/** The subset of classes, each of which has its addresses in order. */
function merged(classes: readonly PodClass[], ports: readonly EndpointPort[]): EndpointSubset {
  const [first] = classes
  const listed = (of: 'ready' | 'notReady'): readonly EndpointAddress[] =>
    first !== undefined && classes.length === 1
      ? first[of]
      : classes.flatMap((one) => one[of]).sort(compareEndpointAddresses)
  return subsetOf(listed('ready'), listed('notReady'), portsInOrder(ports))
}
