import type { Pod, Service } from '../kube/resources.ts'
import { type AddressGroups, readAddress, textFrom } from '../net/stored-address.ts'

export type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

type Condition = NonNullable<NonNullable<Pod['status']>['conditions']>[number]
type Container = NonNullable<Pod['spec']>['containers'][number]

/** The condition Ready of a Pod, as its kubelet last wrote it. */
export function readyCondition(pod: Pod): Condition | undefined {
  const conditions = pod.status?.conditions
  if (conditions === undefined || conditions === null) return undefined
  for (const condition of conditions) if (condition.type === 'Ready') return condition
  return undefined
}

/** Whether the condition Ready of a Pod is True. */
export function isPodReady(pod: Pod): boolean {
  return readyCondition(pod)?.status === 'True'
}

/** Whether a Pod is being deleted. */
export function isTerminating(pod: Pod): boolean {
  const at = pod.metadata?.deletionTimestamp
  return at !== undefined && at !== null
}

/**
 * Whether a Pod is an endpoint of a Service that selects it, ready or not (upstream's `ShouldPodBeInEndpoints`): it has an address and has not ended;
 * one that is being deleted only with `includeTerminating`.
 */
export function isEndpoint(pod: Pod, includeTerminating: boolean): boolean {
  const status = pod.status
  if (status === undefined || status.phase === 'Failed' || status.phase === 'Succeeded') return false
  if (!status.podIP && !status.podIPs?.length) return false
  return includeTerminating || !isTerminating(pod)
}

/**
 * Whether endpoints that are there may be other ones than before (the first answer of upstream's `podEndpointsChanged`). A Pod that is being deleted
 * may always: upstream compares when by pointer, and so gets to see that it has ended.
 */
export function isEndpointChange(old: Pod, pod: Pod): boolean {
  if (isTerminating(old) || isTerminating(pod)) return true
  if (isPodReady(old) !== isPodReady(pod)) return true
  const before = old.status?.podIPs ?? []
  const after = pod.status?.podIPs ?? []
  return before.length !== after.length || before.some(({ ip }, index) => ip !== after[index]?.ip)
}

/** Whether the endpoint bears the hostname of the Pod (upstream's `ShouldSetHostname`). */
export function hasHostname(pod: Pod, service: Service): boolean {
  if (!pod.spec?.hostname) return false
  return (
    (pod.spec.subdomain ?? '') === (service.metadata?.name ?? '') &&
    pod.metadata?.namespace === service.metadata?.namespace
  )
}

/**
 * The number of the port of a Pod that a port of a Service means; undefined where the Pod has none of that name (upstream's `FindPort`). A name is
 * looked for in the containers, then in the sidecars, with the protocol of the Service's port.
 */
export function findPort(pod: Pod, port: ServicePort): number | undefined {
  const target = port.targetPort as number | string | undefined
  if (typeof target !== 'string') return target ?? 0
  const protocol = port.protocol ?? ''
  for (const container of pod.spec?.containers ?? []) {
    const found = portOf(container, target, protocol)
    if (found !== undefined) return found
  }
  for (const container of pod.spec?.initContainers ?? []) {
    if (container.restartPolicy !== 'Always') continue
    const found = portOf(container, target, protocol)
    if (found !== undefined) return found
  }
  return undefined
}

function portOf(container: Container, name: string, protocol: string): number | undefined {
  for (const port of container.ports ?? []) {
    if ((port.name ?? '') === name && (port.protocol ?? '') === protocol) return port.containerPort
  }
  return undefined
}

/** The Pod's addresses of a family, in its order and in Go's form; malformed ones are read loosely, as Go's ParseIPSloppy does, or left out. */
export function podAddresses(pod: Pod, family: 'IPv4' | 'IPv6'): readonly string[] {
  const wanted = family === 'IPv4' ? 4 : 6
  const addresses: string[] = []
  for (const { ip } of pod.status?.podIPs ?? []) {
    if (ip === undefined || readAddress(ip, groups) !== wanted) continue
    addresses.push(textFrom(wanted, groups, ip))
  }
  return addresses
}

/** Where an address is read into; used up before anything else runs. */
const groups: AddressGroups = new Uint16Array(8)

/** Whether a Service has a ClusterIP (upstream's `IsServiceIPSet`): headless ones have not. */
export function hasClusterIp(service: Service): boolean {
  const clusterIp = service.spec?.clusterIP
  return clusterIp !== undefined && clusterIp !== '' && clusterIp !== 'None'
}
