import type { Pod, Service } from '../kube/resources.ts'
import { hasHostname, podAddresses } from '../workloads/pod-rules.ts'
import type { EndpointAddress } from './subset-equality.ts'

export type IpFamily = 'IPv4' | 'IPv6'

/** What has been made of a Pod, by what makes a difference: the family, and whether the hostname is named. */
interface Made {
  IPv4?: EndpointAddress | null
  IPv6?: EndpointAddress | null
  IPv4Named?: EndpointAddress | null
  IPv6Named?: EndpointAddress | null
}

const madeOf = new WeakMap<Pod, Made>()

/**
 * The address of a Pod in the Endpoints of a Service: of the family that the Service prefers, undefined where the Pod has none. The same object each
 * time, for as long as the Pod stays as it is. Upstream: `podToEndpointAddressForService`.
 */
export function addressFor(service: Service, pod: Pod): EndpointAddress | undefined {
  return addressOfFamily(pod, familyOf(service) ?? familyOfPod(pod), hasHostname(pod, service))
}

/**
 * The family of the addresses that a Service lists: its first, or that of its ClusterIP. Undefined where neither says: then each Pod is listed with that
 * of its own first address.
 */
export function familyOf(service: Service): IpFamily | undefined {
  const { ipFamilies, clusterIP } = service.spec ?? {}
  const [first] = ipFamilies ?? []
  if (first !== undefined) return first === 'IPv6' ? 'IPv6' : 'IPv4'
  if (clusterIP === undefined || clusterIP === '' || clusterIP === 'None') return undefined
  return familyOfText(clusterIP)
}

/** The family of a Pod's own first address. */
export function familyOfPod(pod: Pod): IpFamily {
  return familyOfText(pod.status?.podIP ?? '')
}

/** As {@link addressFor}, for who has asked the Service what it prefers. */
export function addressOfFamily(pod: Pod, family: IpFamily, named: boolean): EndpointAddress | undefined {
  let made = madeOf.get(pod)
  if (made === undefined) {
    made = {}
    madeOf.set(pod, made)
  }
  const form = named ? (`${family}Named` as const) : family
  let address = made[form]
  if (address === undefined) {
    address = newAddress(pod, family, named)
    made[form] = address
  }
  return address ?? undefined
}

function newAddress(pod: Pod, family: IpFamily, named: boolean): EndpointAddress | null {
  const [ip] = podAddresses(pod, family)
  if (ip === undefined) return null
  const { namespace, name, uid } = pod.metadata ?? {}
  return {
    ip,
    ...(named ? { hostname: pod.spec?.hostname ?? '' } : {}),
    // Upstream names the Node always, also with the empty text: API servers refuse that, and so the Service waits for the Pod to have a Node.
    nodeName: pod.spec?.nodeName ?? '',
    targetRef: { kind: 'Pod', ...defined({ namespace, name, uid }) },
  }
}

function defined(fields: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Readonly<
    Record<string, string>
  >
}

function familyOfText(ip: string): IpFamily {
  return ip.includes(':') ? 'IPv6' : 'IPv4'
}
