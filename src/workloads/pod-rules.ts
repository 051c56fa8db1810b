import type { ObjectReference } from '../kube/event-object.ts'
import { isBeingDeleted, type Pod, type Service } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import { type AddressGroups, readAddress, textFrom } from '../net/stored-address.ts'
import { formatMicroTime, parseTime, tryParseTime } from '../runtime/time-format.ts'

export type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

type Container = NonNullable<Pod['spec']>['containers'][number]
type Condition = NonNullable<NonNullable<Pod['status']>['conditions']>[number]
type TargetRef = ObjectReference | null | undefined

/**
 * Whether the endpoints of a Service are made from Pods: it has a selector, possibly empty, and another type than
 * ExternalName.
 */
export function selectsPods({ spec }: Service): boolean {
  return spec?.type !== 'ExternalName' && spec?.selector !== undefined && spec.selector !== null
}

export function readyCondition(pod: Pod): Condition | undefined {
  return pod.status?.conditions?.find(({ type }) => type === 'Ready')
}

export function isPodReady(pod: Pod): boolean {
  return readyCondition(pod)?.status === 'True'
}

/**
 * Whether a Pod is an endpoint of a Service that selects it, ready or not (upstream's `ShouldPodBeInEndpoints`): the
 * Pod has an address and has not ended. A Pod that is being deleted counts only with `includeTerminating`.
 */
export function isEndpoint(pod: Pod, includeTerminating: boolean): boolean {
  const status = pod.status
  if (status === undefined || hasEnded(pod)) return false
  if (!status.podIP && !status.podIPs?.length) return false
  return includeTerminating || !isBeingDeleted(pod)
}

function hasEnded({ status }: Pod): boolean {
  return status?.phase === 'Failed' || status?.phase === 'Succeeded'
}

/**
 * Whether a change of a Pod may change endpoints: the first result of upstream's `podEndpointsChanged`. Also true when
 * an unready Pod ends, which upstream does not notice. Always true for a Pod that is being deleted: upstream compares
 * pointers to the deletion times, and these pointers differ.
 */
export function isEndpointChange(old: Pod, pod: Pod): boolean {
  if (isBeingDeleted(old) || isBeingDeleted(pod)) return true
  if (isPodReady(old) !== isPodReady(pod) || hasEnded(old) !== hasEnded(pod)) return true
  const before = old.status?.podIPs ?? []
  const after = pod.status?.podIPs ?? []
  return before.length !== after.length || before.some(({ ip }, index) => ip !== after[index]?.ip)
}

/** Whether the endpoint has the hostname of the Pod (upstream's `ShouldSetHostname`). */
export function hasHostname(pod: Pod, service: Service): boolean {
  if (!pod.spec?.hostname) return false
  return (
    (pod.spec.subdomain ?? '') === (service.metadata?.name ?? '') &&
    pod.metadata?.namespace === service.metadata?.namespace
  )
}

/**
 * The port number of a Pod for a port of a Service (upstream's `FindPort`). A numeric target port is returned as it is,
 * a missing one as 0. A named one is searched in the containers, then in the sidecar containers, and must have the
 * protocol of the Service's port; undefined if no container has such a port.
 */
export function findPort(pod: Pod, port: ServicePort): number | undefined {
  const target = port.targetPort as number | string | undefined
  if (typeof target !== 'string') return target ?? 0
  const protocol = port.protocol ?? ''
  for (const { ports } of servingContainers(pod)) {
    const found = ports?.find((one) => (one.name ?? '') === target && (one.protocol ?? '') === protocol)?.containerPort
    if (found !== undefined) return found
  }
  return undefined
}

/** The containers, then the sidecar containers: the order in which a named port is searched. */
function servingContainers({ spec }: Pod): readonly Container[] {
  const sidecars = (spec?.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')
  return [...(spec?.containers ?? []), ...sidecars]
}

/** For more ports than this, a map of a Pod's ports is quicker than a search for each. */
const FEW_PORTS = 4

/** {@link findPort} for each port. The time grows with the sum of the ports of Service and Pod, not their product. */
export function findPorts(pod: Pod, ports: readonly ServicePort[]): readonly (number | undefined)[] {
  if (ports.length <= FEW_PORTS) return ports.map((port) => findPort(pod, port))
  const named = namedPorts(pod)
  return ports.map((port) => {
    const target = port.targetPort as number | string | undefined
    return typeof target === 'string' ? named.get(targetOf(port)) : (target ?? 0)
  })
}

/** The numbers of a Pod's ports by their protocols and names. */
function namedPorts(pod: Pod): ReadonlyMap<string, number> {
  const named = new Map<string, number>()
  for (const container of servingContainers(pod)) {
    for (const { name, protocol, containerPort } of container.ports ?? []) {
      const key = `${protocol ?? ''} ${name ?? ''}`
      if (containerPort !== undefined && !named.has(key)) named.set(key, containerPort)
    }
  }
  return named
}

function hasNamedTarget({ targetPort }: ServicePort): boolean {
  return typeof (targetPort as number | string | undefined) === 'string'
}

function targetOf({ protocol, targetPort }: ServicePort): string {
  return `${protocol ?? ''} ${targetPort}`
}

/**
 * Returns a function that returns equal texts exactly for Pods for which {@link findPorts} finds the same numbers. Its
 * time does not grow with the product of Pods and ports.
 */
export function portMappings(ports: readonly ServicePort[]): (pod: Pod) => string {
  const named = ports.filter(hasNamedTarget)
  if (named.length === 0) return () => ''
  if (named.length <= FEW_PORTS) return (pod) => findPorts(pod, named).join()
  const targets = new Set(named.map(targetOf))
  return (pod) => {
    const found = [...namedPorts(pod)].filter(([target]) => targets.has(target))
    return found
      .map(([target, number]) => `${target} ${number}`)
      .sort()
      .join('\n')
  }
}

/**
 * The most pairs of a Service's port and a set of Pods with the same port numbers. Of a Service with thousands of ports
 * and Pods that each give a named port another number, every Pod would get a list of all the ports.
 */
const MOST_PORT_PAIRS = 50_000

/**
 * Throws if there would be more than {@link MOST_PORT_PAIRS}, before anything is made of them. Pods with the same
 * numbers count once, so no Service with a realistic number of ports is refused if its target ports are numbers.
 */
export function refuseManyPortPairs(service: Service, pods: readonly Pod[]): void {
  const ports = service.spec?.ports ?? []
  if (ports.length * pods.length <= MOST_PORT_PAIRS) return
  const mappingOf = portMappings(ports)
  const mappings = new Set<string>()
  for (const pod of pods) {
    if (!isEndpoint(pod, true)) continue
    mappings.add(mappingOf(pod))
    if (mappings.size * ports.length <= MOST_PORT_PAIRS) continue
    throw new Error(
      `Service ${keyOfObject(service)} has ${ports.length} ports, for which its Pods have ${mappings.size} or more ` +
        'different sets of numbers: use fewer ports, or target ports that are numbers',
    )
  }
}

/**
 * A Pod's addresses of one family, in the Pod's order and in Go's form, without those that Go's ParseIPSloppy refuses.
 */
export function podAddresses(pod: Pod, family: 'IPv4' | 'IPv6'): readonly string[] {
  const wanted = family === 'IPv4' ? 4 : 6
  const addresses: string[] = []
  for (const { ip } of pod.status?.podIPs ?? []) {
    if (ip === undefined || readAddress(ip, groups) !== wanted) continue
    addresses.push(textFrom(wanted, groups, ip))
  }
  return addresses
}

/** A buffer for one address, used only within a call. */
const groups: AddressGroups = new Uint16Array(8)

/** Whether a Service has a ClusterIP; a headless Service has none. Upstream: `IsServiceIPSet`. */
export function hasClusterIp(service: Service): boolean {
  const clusterIp = service.spec?.clusterIP
  return clusterIp !== undefined && clusterIp !== '' && clusterIp !== 'None'
}

/** Whether two targets of endpoints are equal, except for their resourceVersions. Absent and empty texts are equal. */
export function sameTargets(a: TargetRef, b: TargetRef): boolean {
  if (!a || !b) return !a === !b
  return (
    (a.uid ?? '') === (b.uid ?? '') &&
    (a.name ?? '') === (b.name ?? '') &&
    (a.namespace ?? '') === (b.namespace ?? '') &&
    (a.kind ?? '') === (b.kind ?? '') &&
    (a.apiVersion ?? '') === (b.apiVersion ?? '') &&
    (a.fieldPath ?? '') === (b.fieldPath ?? '')
  )
}

/** Whether two values are equal. A missing value equals null, but not the empty string. */
export function sameOptional(a: string | boolean | null | undefined, b: string | boolean | null | undefined): boolean {
  return a === b || (a ?? undefined) === (b ?? undefined)
}

/**
 * The annotation with the time of the change that caused a write. kube-proxy and others measure their latency from it.
 */
export const lastChangeTriggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'

interface ServiceState {
  created: string | undefined
  /** When the readiness of each Pod last changed, by the names of the Pods. */
  readonly readyTimes: Map<string, string>
}

/**
 * The time of the oldest change that the next write of a Service's Endpoints or EndpointSlices covers (upstream's
 * `TriggerTimeTracker`). Each controller has its own instance.
 *
 * A change is one of these: a Pod became ready or unready, or the Service was created. If an object changed twice
 * between two calls, only the later change is known, as in upstream.
 */
export class TriggerTimes {
  readonly #states = new Map<string, ServiceState>()

  /**
   * Records the present state and returns the time for {@link lastChangeTriggerTime}, in Go's RFC3339Nano and UTC. The
   * first call for a Service returns when the Service was created. A later call returns undefined if no change is known
   * since the previous call. Call it in each sync, whether the sync writes or not.
   */
  compute(service: Service, pods: readonly Pod[]): string | undefined {
    const key = keyOfObject(service)
    const known = this.#states.get(key)
    const state: ServiceState = known ?? { created: undefined, readyTimes: new Map() }
    if (known === undefined) this.#states.set(key, state)
    let earliest: string | undefined
    let seen = 0
    for (const pod of pods) {
      const time = timeOf(readyCondition(pod)?.lastTransitionTime)
      if (time === undefined) continue
      seen++
      const name = pod.metadata?.name ?? ''
      const last = state.readyTimes.get(name)
      if (last === time) continue
      state.readyTimes.set(name, time)
      if ((last === undefined || isBefore(last, time)) && (earliest === undefined || isBefore(time, earliest)))
        earliest = time
    }
    if (state.readyTimes.size > seen) forgetOthers(state.readyTimes, pods)
    const created = timeOf(service.metadata?.creationTimestamp)
    if (created !== undefined && (state.created === undefined || isBefore(state.created, created))) {
      if (earliest === undefined || isBefore(created, earliest)) earliest = created
    }
    state.created = created
    return known === undefined ? created : earliest
  }

  delete(key: string): void {
    this.#states.delete(key)
  }
}

function forgetOthers(times: Map<string, string>, pods: readonly Pod[]): void {
  const present = new Set<string>()
  for (const pod of pods) {
    if (timeOf(readyCondition(pod)?.lastTransitionTime) !== undefined) present.add(pod.metadata?.name ?? '')
  }
  for (const name of times.keys()) if (!present.has(name)) times.delete(name)
}

/** The zero value of Go's time.Time stands for no time. */
const zeroTime = '0001-01-01T00:00:00Z'

/**
 * A time in UTC, in Go's RFC3339Nano; undefined if there is none. kube-apiserver sends whole seconds in UTC. Only other
 * servers send another form, which this function converts.
 */
function timeOf(text: string | null | undefined): string | undefined {
  if (text === undefined || text === null || text === zeroTime) return undefined
  if (text.length === zeroTime.length) return text
  const ms = tryParseTime(text)
  return ms === undefined ? undefined : formatMicroTime(ms).replace(/\.?0+Z$/, 'Z')
}

function isBefore(a: string, b: string): boolean {
  if (a.length === b.length) return a < b
  return parseTime(a) < parseTime(b)
}
