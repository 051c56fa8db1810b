import { ALLOCATIONS_HOOK } from '../../bootstrap/duties.ts'
import { ALLOCATORS_CHECK } from '../../kube/readiness.ts'
import {
  type IpAddress,
  ipAddresses as ipAddressResource,
  isBeingDeleted,
  type Service,
  serviceCidrs as serviceCidrResource,
  services as serviceResource,
} from '../../kube/resources.ts'
import { picked } from '../../kube/shared-values.ts'
import { keyOf, keyOfObject, refOfObject } from '../../kube/store.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { portRangeContains } from '../../net/host-port.ts'
import {
  ipAddressNameOf,
  lookupNameOf,
  newIpAddress,
  refersTo,
  serviceRefOf,
  withAllocatorLabels,
} from '../../repair/ip-address/ip-address.ts'
import { planIpAddress, planServiceIp } from '../../repair/ip-address/plan.ts'
import { addressTest, rangesOf } from '../../repair/ip-address/service-ips.ts'
import { clusterIpsOf, nodePortsOf } from '../../repair/service-claims.ts'
import { formatTime, tryParseTime } from '../../runtime/time-format.ts'
import { DEFAULT_SERVICE_CIDR, planServiceCidr, readyStatus } from '../../service-cidr/service-cidr-plan.ts'
import {
  byHand,
  type Command,
  type Finding,
  kubectl,
  kubectlCreate,
  kubectlDelete,
  kubectlPatch,
  runControllers,
  skipped,
  type Verdict,
  verdictOf,
} from './finding.ts'
import { judgeFreeNodePorts, nodePortRepair } from './range-allocations.ts'
import { flagCheck, serviceRanges } from './ranges.ts'
import { type CheckContext, type Parts, partOf } from './state.ts'

const BLOCKED = `see the conditions of ServiceCIDR ${DEFAULT_SERVICE_CIDR} for what blocks it`
const UNKNOWN_RANGE = 'the range is not known: verify again with the --service-cluster-ip-range of the API servers'

export function judgeServiceCidr({ serviceCidrs }: Pick<Parts, 'serviceCidrs'>, context: CheckContext): Verdict {
  const current = serviceCidrs.find(({ metadata }) => metadata?.name === DEFAULT_SERVICE_CIDR)
  const cidrs = current?.spec?.cidrs ?? []
  const wanted = context.expect.serviceClusterIpRange?.map(({ text }) => text) ?? cidrs
  const finding = (expected: string, found: string, ...remedy: readonly Command[]): Verdict =>
    verdictOf([{ object: `ServiceCIDR ${DEFAULT_SERVICE_CIDR}`, expected, found, remedy }], '')
  if (current !== undefined && isBeingDeleted(current)) {
    return finding('exists', 'is being deleted', byHand(`it stays while ClusterIPs need it: ${BLOCKED}`))
  }
  const plan = planServiceCidr(current, wanted)
  const setReady = statusPatch(context)
  switch (plan.type) {
    case 'none':
      return verdictOf([], cidrs.join(', '))
    case 'create': {
      if (wanted.length === 0) return finding('exists', 'missing', byHand(UNKNOWN_RANGE))
      const flagFirst = flagCheck(context)
      const create = [kubectlCreate(plan.serviceCidr), setReady]
      return finding('exists', 'missing', ...(flagFirst === undefined ? create : [flagFirst]))
    }
    case 'upgrade': {
      const patch = kubectlPatch(serviceCidrResource, { name: DEFAULT_SERVICE_CIDR }, { spec: { cidrs: wanted } })
      return finding(wanted.join(', '), cidrs.join(', '), patch)
    }
    case 'set-ready':
      return finding('Ready', 'no condition Ready', setReady)
    case 'report':
      return cidrs.join() === wanted.join()
        ? finding('Ready', `not Ready: ${plan.report.note}`, setReady)
        : finding(wanted.join(', '), cidrs.join(', '), byHand(otherRange(cidrs, wanted)))
  }
}

/**
 * Advises against a deletion: a deleted ServiceCIDR stays until its last ClusterIP is gone, and blocks new Services.
 */
function otherRange(found: readonly string[], wanted: readonly string[]): string {
  const flag = `check --service-cluster-ip-range first: the cluster has ${found.join(',')}`
  const second = `if that really is wrong, create a second ServiceCIDR of ${wanted.join(',')}, and delete nothing`
  return `${flag}; ${second}; ${BLOCKED}`
}

function statusPatch({ nowMs }: CheckContext): Command {
  const { status } = readyStatus(formatTime(nowMs)) as { readonly status: unknown }
  return kubectlPatch(serviceCidrResource, { name: DEFAULT_SERVICE_CIDR }, { status }, '--subresource=status')
}

export function judgeClusterIps({ services }: Pick<Parts, 'services'>, context: CheckContext): Verdict {
  const isInRange = rangeTest(context)
  const flagFirst = flagCheck(context, services)
  const claims = services.flatMap((service) =>
    [...new Set(clusterIpsOf(service))].map((text) => ({ name: lookupNameOf(text), service })),
  )
  const holders = Map.groupBy(claims, ({ name }) => name)
  const allocated = new Map((partOf(context, 'ipAddresses') ?? []).map((one) => [one.metadata?.name ?? '', one]))
  const findings: Finding[] = []
  for (const [name, claimed] of holders) {
    const held = claimed.map(({ service }) => service)
    const fault = faultOf(name, isInRange, context)
    if (fault !== undefined) {
      // No allocator frees an address outside all ranges, so the IPAddress would stay.
      const forget = kubectlDelete(ipAddressResource, { name }, '--ignore-not-found')
      // The check kubernetes-service judges the ClusterIP of default/kubernetes.
      const others = held.filter((one) => keyOfObject(one) !== keyOf(KUBERNETES_SERVICE))
      findings.push(
        ...others.map((one) => ({
          ...fault,
          object: objectOf(one),
          remedy: flagFirst === undefined ? newClusterIp(one, [forget], context) : [flagFirst],
        })),
      )
    }
    const [keeper, ...others] = byAge(held, allocated.get(name))
    if (keeper === undefined) continue
    const hasIpAddress = allocated.size > 0 && ipAddressNameOf(name) !== undefined
    const again = hasIpAddress ? [kubectlCreate(newIpAddress(name, refOfObject(keeper)))] : []
    for (const service of others) {
      findings.push({
        object: objectOf(service),
        expected: 'a ClusterIP of its own',
        found: `ClusterIP ${name}, as ${keyOfObject(keeper)}`,
        remedy: newClusterIp(service, again, context),
      })
    }
  }
  return verdictOf(findings, `${holders.size} ClusterIPs`)
}

function faultOf(
  name: string,
  isInRange: ((name: string) => boolean) | undefined,
  { expect }: CheckContext,
): Omit<Finding, 'object' | 'remedy'> | undefined {
  if (ipAddressNameOf(name) === undefined) return { expected: 'an IP address', found: `ClusterIP ${name}` }
  if (isInRange === undefined || isInRange(name)) return undefined
  const demanded = expect.serviceClusterIpRange?.map(({ text }) => text).join(',')
  return { expected: `a ClusterIP in ${demanded ?? 'a ServiceCIDR'}`, found: `ClusterIP ${name}` }
}

/**
 * A test whether an address is in a ServiceCIDR. Demanded ranges replace those of the default ServiceCIDR. Undefined if
 * neither demanded ranges nor the default ServiceCIDR are known.
 */
function rangeTest(context: CheckContext): ((name: string) => boolean) | undefined {
  const { serviceClusterIpRange: demanded } = context.expect
  const found = partOf(context, 'serviceCidrs') ?? []
  const others = found.filter(({ metadata }) => metadata?.name !== DEFAULT_SERVICE_CIDR)
  if (demanded !== undefined) return addressTest([...demanded, ...others.flatMap(rangesOf)])
  return others.length < found.length ? addressTest(found.flatMap(rangesOf)) : undefined
}

/** Sorts Services: first the one to which the IPAddress refers, then the others, the oldest first. */
function byAge(held: readonly Service[], ipAddress: IpAddress | undefined): readonly Service[] {
  const rank = (service: Service): string => {
    const owns = ipAddress !== undefined && refersTo(ipAddress, refOfObject(service))
    return `${owns ? 0 : 1} ${service.metadata?.creationTimestamp} ${keyOfObject(service)}`
  }
  return held.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))
}

/**
 * The fields that a Service loses as ExternalName (upstream: dropTypeDependentFields), or may not have (source ranges).
 */
export const typeFields = [
  'ipFamilies',
  'ipFamilyPolicy',
  'externalTrafficPolicy',
  'internalTrafficPolicy',
  'healthCheckNodePort',
  'allocateLoadBalancerNodePorts',
  'loadBalancerClass',
  'loadBalancerSourceRanges',
] as const

/**
 * Commands that change the type to ExternalName and back, because otherwise a ClusterIP is immutable. The first change
 * makes the server delete the IPAddress, even if it belongs to another Service. `between` then creates the IPAddress
 * again, or deletes one that the server left.
 */
export function newClusterIp(service: Service, between: readonly Command[], context: CheckContext): readonly Command[] {
  const { type, ports, loadBalancerSourceRanges } = service.spec ?? {}
  const forbidden = loadBalancerSourceRanges === undefined ? {} : { loadBalancerSourceRanges: null }
  const families = serviceRanges(context)?.map(({ family }) => `IPv${family}`)
  const isServed = families === undefined || (service.spec?.ipFamilies ?? []).every((one) => families.includes(one))
  // The server refuses a family for which it has no range.
  const lost = typeFields.filter((name) => isServed || (name !== 'ipFamilies' && name !== 'ipFamilyPolicy'))
  const restored = picked(service.spec ?? {}, lost)
  return [
    patchSpec(service, { type: 'ExternalName', externalName: 'released.invalid', ...forbidden }),
    ...between,
    patchSpec(service, { type, externalName: null, ...restored, ports }),
    ...(type === 'LoadBalancer' ? [byHand('its load balancer is replaced: the external address may change')] : []),
  ]
}

/** Judges the IPAddress of each ClusterIP. {@link judgeClusterIps} judges the ClusterIPs themselves. */
export function judgeIpAddresses(
  { services, ipAddresses }: Pick<Parts, 'services' | 'ipAddresses'>,
  context: CheckContext,
): Verdict {
  const byName = new Map(ipAddresses.map((one) => [one.metadata?.name ?? '', one]))
  const byKey = new Map(services.map((service) => [keyOfObject(service), service]))
  const parentOf = (ipAddress: IpAddress): Service | undefined => {
    const ref = serviceRefOf(ipAddress)
    return ref === undefined ? undefined : byKey.get(keyOf(ref))
  }
  const findings = services.flatMap((service) =>
    clusterIpsOf(service).flatMap((clusterIp): readonly Finding[] => {
      const ipAddress = byName.get(lookupNameOf(clusterIp))
      const parent = ipAddress === undefined ? undefined : parentOf(ipAddress)
      const plan = planServiceIp({ service, clusterIp, ipAddress, parent, inRange: () => true, repairing: false })
      if (plan.type === 'none' || plan.type === 'report') return []
      const expected = `IPAddress ${plan.ipAddress.metadata?.name} of this Service, with the allocator's labels`
      return [{ object: objectOf(service), expected, found: plan.finding.note, remedy: ipAddressRemedy(plan) }]
    }),
  )
  const recreated = new Set(findings.flatMap(({ remedy }) => remedy.flatMap(({ args }) => args[2] ?? [])))
  const orphans = ipAddresses.flatMap((ipAddress): readonly Finding[] => {
    const { name = '', creationTimestamp = '' } = ipAddress.metadata ?? {}
    const ageMs = context.nowMs - (tryParseTime(creationTimestamp) ?? 0)
    const plan = planIpAddress({ ipAddress, service: parentOf(ipAddress), ageMs, repairing: false })
    if (plan.type !== 'delete' || recreated.has(name)) return []
    const expected = 'a Service with this ClusterIP'
    const remedy = [kubectlDelete(ipAddressResource, { name })]
    return [{ object: `IPAddress ${name}`, expected, found: plan.finding.note, remedy }]
  })
  return verdictOf([...findings, ...orphans], `${ipAddresses.length} IPAddresses`)
}

function ipAddressRemedy(
  plan: Exclude<ReturnType<typeof planServiceIp>, { type: 'none' | 'report' }>,
): readonly Command[] {
  const { name = '' } = plan.ipAddress.metadata ?? {}
  switch (plan.type) {
    case 'create':
      return [kubectlCreate(plan.ipAddress)]
    case 'recreate':
      return [kubectlDelete(ipAddressResource, { name }), kubectlCreate(plan.ipAddress)]
    case 'relabel': {
      const labels = Object.entries(withAllocatorLabels(plan.ipAddress).metadata?.labels ?? {})
      const words = labels.map(([label, value]) => `${label}=${value}`)
      return [kubectl('label', ipAddressResource.plural, name, '--overwrite', ...words)]
    }
  }
}

export function judgeNodePorts({ services }: Pick<Parts, 'services'>, context: CheckContext): Verdict {
  const range = context.expect.serviceNodePortRange
  const holders = new Map<number, Service>()
  const findings: Finding[] = []
  for (const service of byAge(services, undefined)) {
    for (const port of nodePortsOf(service)) {
      const finding = (expected: string, found: string): Finding => ({
        object: objectOf(service),
        expected,
        found,
        remedy: newNodePort(service, port),
      })
      const holder = holders.get(port)
      if (holder === undefined) holders.set(port, service)
      else findings.push(finding('a NodePort of its own', `NodePort ${port}, as ${keyOfObject(holder)}`))
      if (range !== undefined && !portRangeContains(range, port)) {
        findings.push(finding(`a NodePort in ${range.text}`, `NodePort ${port}`))
      }
    }
  }
  return verdictOf(findings, `${holders.size} NodePorts${range === undefined ? '; the range is not known' : ''}`)
}

/**
 * The first patch also renames the port. Otherwise the server copies the NodePort from the old port of the same name.
 */
function newNodePort(service: Service, port: number): readonly Command[] {
  const { ports, healthCheckNodePort, externalTrafficPolicy } = service.spec ?? {}
  if (healthCheckNodePort !== port) {
    const released = (isRenamed: boolean): Command => {
      const next = ports?.map((one, index) => {
        const { nodePort, ...rest } = one
        if (nodePort !== port) return one
        return isRenamed ? { ...rest, name: `released-${index}` } : rest
      })
      return patchSpec(service, { ports: next })
    }
    return [released(true), released(false)]
  }
  // The server releases the health check's NodePort when the policy that needs it changes.
  return [patchSpec(service, { externalTrafficPolicy: 'Cluster' }), patchSpec(service, { externalTrafficPolicy })]
}

function patchSpec(service: Service, spec: object): Command {
  return kubectlPatch(serviceResource, refOfObject(service), { spec })
}

function objectOf(service: Service): string {
  return `Service ${keyOfObject(service)}`
}

/** In a dry run the allocator of the server refuses a Service only if the allocator has no range at all. */
export function judgeClusterIpDryRun(
  { clusterIpDryRun }: Pick<Parts, 'clusterIpDryRun'>,
  context: CheckContext,
): Verdict {
  if (clusterIpDryRun.type === 'accepted') {
    return verdictOf([], 'the server accepts a new Service; a dry run allocates nothing')
  }
  const cidrsFound = partOf(context, 'serviceCidrs')
  if (cidrsFound !== undefined && judgeServiceCidr({ serviceCidrs: cidrsFound }, context).status === 'failed') {
    return skipped('there is no range to allocate from: see service-cidr')
  }
  const ranges = serviceRanges(context)
  const range = `--service-cluster-ip-range=${ranges?.map(({ text }) => text).join(',')}`
  const remedy =
    ranges === undefined
      ? byHand(UNKNOWN_RANGE)
      : (flagCheck(context) ?? runControllers('default-service-cidr,cluster-ip-repair', range))
  return newServiceFailed('a ClusterIP', clusterIpDryRun.reason, [remedy])
}

/**
 * An accepted dry run does not show that a NodePort is free. So this check also needs a bitmap in etcd with a free
 * number, or a server that maintains its allocations itself.
 */
export function judgeNodePortDryRun({ nodePortDryRun }: Pick<Parts, 'nodePortDryRun'>, context: CheckContext): Verdict {
  if (nodePortDryRun.type === 'refused' && partOf(context, 'clusterIpDryRun')?.type === 'refused') {
    return skipped('a new Service gets no ClusterIP either: see cluster-ip-available')
  }
  const stored = partOf(context, 'rangeAllocations')
  if (nodePortDryRun.type === 'refused') {
    return newServiceFailed('a NodePort', nodePortDryRun.reason, nodePortRepair(stored, context))
  }
  const verdict = stored === undefined ? undefined : judgeFreeNodePorts(stored, context)
  if (verdict !== undefined) return verdict
  const own = partOf(context, 'readinessChecks')?.find(
    ({ name, ok }) => ok && (name === ALLOCATIONS_HOOK || name === ALLOCATORS_CHECK),
  )
  if (own !== undefined) return verdictOf([], `the server maintains its allocations itself: ${own.name}`)
  const where = stored?.find(({ name }) => name === 'servicenodeports')?.where
  if (where === undefined) return skipped('a dry run is accepted, but allocates nothing: give --etcd-servers')
  return newServiceFailed('a NodePort', `there is no ${where}; check --etcd-prefix`, nodePortRepair(stored, context))
}

function newServiceFailed(expected: string, found: string, repair: readonly Command[]): Verdict {
  const isOfWebhook = found.includes('failed calling webhook')
  const remedy = isOfWebhook ? [byHand('start the admission webhook, or delete its configuration')] : repair
  return verdictOf([{ object: 'a new Service', expected, found, remedy }], '')
}
