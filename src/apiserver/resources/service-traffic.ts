import { tryParseAddress } from '../../net/address.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { type Draft, listMember, type Members, member } from '../kind.ts'
import { dnsSubdomainFault, ipFault, labelKeyFault, legacyCidrFault } from '../names.ts'
import type { FieldErrors } from '../refusal.ts'
import { checkName, checkOneOf } from './endpoints.ts'
import { isExternallyAccessible, needsNodePorts, type ServicePort, type ServiceSpec, specOf } from './service-spec.ts'

const trafficPolicies = ['Cluster', 'Local']
const distributions = ['PreferClose', 'PreferSameZone', 'PreferSameNode']
const ipModes = ['Proxy', 'VIP']
const MAX_AFFINITY_SECONDS = 86_400

/** The fields that a Service loses when it becomes an ExternalName, unless the same update changes them. */
const addressFields = ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy']

/**
 * Whether the Service needs a `healthCheckNodePort`, at which each Node answers the health checks of a load balancer
 * (upstream's service.NeedsHealthCheck).
 */
export function needsHealthCheckPort({ type, externalTrafficPolicy }: Members): boolean {
  return type === 'LoadBalancer' && externalTrafficPolicy === 'Local'
}

/**
 * Removes the fields that `old` needed and `spec` does not need, unless the update changes them
 * (dropTypeDependentFields).
 */
export function withoutOtherTypesFields(spec: ServiceSpec, old: ServiceSpec): ServiceSpec {
  const dropped = new Set<string>()
  const drop = (fields: readonly string[], isNeeded: (spec: ServiceSpec) => boolean): void => {
    if (!isNeeded(old) || isNeeded(spec)) return
    for (const field of fields) if (equalJson(spec[field], old[field])) dropped.add(field)
  }
  drop(addressFields, ({ type }) => type !== 'ExternalName')
  drop(['healthCheckNodePort'], needsHealthCheckPort)
  drop(['allocateLoadBalancerNodePorts', 'loadBalancerClass'], isLoadBalancer)
  drop(['externalTrafficPolicy'], isExternallyAccessible)
  const left = Object.fromEntries(Object.entries(spec).filter(([field]) => !dropped.has(field))) as ServiceSpec
  return needsNodePorts(old) && !needsNodePorts(spec) ? withoutKnownNodePorts(left, old) : left
}

function withoutKnownNodePorts(spec: ServiceSpec, old: ServiceSpec): ServiceSpec {
  const { ports } = spec
  const known = new Set(old.ports?.map(({ nodePort }) => nodePort))
  if (ports === undefined || ports.some(({ nodePort }) => nodePort !== undefined && !known.has(nodePort))) return spec
  return { ...spec, ports: ports.map(({ nodePort: _nodePort, ...port }) => port as ServicePort) }
}

function isLoadBalancer({ type }: ServiceSpec): boolean {
  return type === 'LoadBalancer'
}

/** Adds the default `ipMode` to each address that has none. */
export function withIpModes(status: Members): Members {
  const loadBalancer = member(status, 'loadBalancer')
  const ingress = listMember(loadBalancer, 'ingress')
  if (ingress.every(({ ip, ipMode }) => !ip || ipMode !== undefined)) return status
  const complete = ingress.map((point) => (point.ip ? { ipMode: 'VIP', ...point } : point))
  return { ...status, loadBalancer: { ...loadBalancer, ingress: complete } }
}

/** Checks the rules for how traffic reaches a Service: policies, load balancers, node ports, affinity. */
export function validateTraffic(draft: Draft, errors: FieldErrors, live: Draft | undefined): void {
  const spec = specOf(draft)
  if (live !== undefined) checkFixed(spec, specOf(live), errors)
  checkAffinity(spec, errors)
  checkPortFields(spec, errors)
  checkSourceRanges(spec, errors)
  if (!isLoadBalancer(spec) && spec.allocateLoadBalancerNodePorts !== undefined) {
    errors.forbidden('spec.allocateLoadBalancerNodePorts', onlyFor)
  }
  checkClass(spec, errors)
  checkPolicies(spec, errors)
  checkIngress(draft, errors)
}

const onlyFor = "may only be used when `type` is 'LoadBalancer'"

function checkFixed(spec: ServiceSpec, old: ServiceSpec, errors: FieldErrors): void {
  if (needsHealthCheckPort(spec) && needsHealthCheckPort(old) && spec.healthCheckNodePort !== old.healthCheckNodePort) {
    errors.forbidden('spec.healthCheckNodePort', 'field is immutable')
  }
  if (isLoadBalancer(spec) && isLoadBalancer(old) && spec.loadBalancerClass !== old.loadBalancerClass) {
    errors.invalid('spec.loadBalancerClass', spec.loadBalancerClass ?? null, 'may not change once set')
  }
  // Upstream checks the class twice: in the rules for updates and in those for all Services.
  checkClass(spec, errors)
}

function checkClass(spec: ServiceSpec, errors: FieldErrors): void {
  const { loadBalancerClass } = spec
  if (loadBalancerClass === undefined) return
  const path = 'spec.loadBalancerClass'
  if (isLoadBalancer(spec)) errors.invalid(path, loadBalancerClass, labelKeyFault(String(loadBalancerClass)))
  else errors.forbidden(path, onlyFor)
}

function checkAffinity({ sessionAffinity, sessionAffinityConfig }: ServiceSpec, errors: FieldErrors): void {
  if (sessionAffinity !== 'ClientIP') return
  const { timeoutSeconds } = (sessionAffinityConfig as { clientIP: { timeoutSeconds: number } }).clientIP
  if (timeoutSeconds > 0 && timeoutSeconds <= MAX_AFFINITY_SECONDS) return
  const why = `must be greater than 0 and less than ${MAX_AFFINITY_SECONDS}`
  errors.invalid('spec.sessionAffinityConfig.clientIP.timeoutSeconds', timeoutSeconds, why)
}

function checkPortFields({ type, ports = [] }: ServiceSpec, errors: FieldErrors): void {
  for (const [index, { nodePort, appProtocol }] of ports.entries()) {
    const path = `spec.ports[${index}]`
    checkName(appProtocol, `${path}.appProtocol`, labelKeyFault, errors)
    if (type !== 'ClusterIP' || !nodePort) continue
    errors.forbidden(`${path}.nodePort`, "may not be used when `type` is 'ClusterIP'")
  }
}

function checkSourceRanges(spec: ServiceSpec, errors: FieldErrors): void {
  const ranges = (spec.loadBalancerSourceRanges ?? []) as readonly string[]
  if (ranges.length === 0) return
  const path = 'spec.LoadBalancerSourceRanges'
  if (!isLoadBalancer(spec)) errors.forbidden(path, onlyFor)
  for (const [index, range] of ranges.entries()) {
    errors.invalid(`${path}[${index}]`, range, legacyCidrFault(range.trim()))
  }
}

function checkPolicies(spec: ServiceSpec, errors: FieldErrors): void {
  const { externalTrafficPolicy: external, internalTrafficPolicy: internal, trafficDistribution } = spec
  const path = 'spec.externalTrafficPolicy'
  if (isExternallyAccessible(spec)) checkOneOf(external, trafficPolicies, path, errors)
  else if (external !== undefined) errors.invalid(path, external, 'may only be set for externally-accessible services')
  if (!needsHealthCheckPort(spec) && spec.healthCheckNodePort) {
    const why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
    errors.invalid('spec.healthCheckNodePort', spec.healthCheckNodePort, why)
  }
  if (internal !== undefined) checkOneOf(internal, trafficPolicies, 'spec.internalTrafficPolicy', errors)
  if (trafficDistribution !== undefined)
    checkOneOf(trafficDistribution, distributions, 'spec.trafficDistribution', errors)
}

/** Upstream's ValidateLoadBalancerStatus. */
function checkIngress(draft: Draft, errors: FieldErrors): void {
  const path = 'status.loadBalancer.ingress'
  const ingress = listMember(member(member(draft, 'status'), 'loadBalancer'), 'ingress')
  if (!isLoadBalancer(specOf(draft))) {
    if (ingress.length > 0) errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
    return
  }
  for (const [index, { ip, ipMode, hostname }] of ingress.entries()) {
    const at = `${path}[${index}]`
    checkName(ip, `${at}.ip`, ipFault, errors)
    if (ipMode !== undefined && !ip) errors.forbidden(`${at}.ipMode`, 'may not be specified when `ip` is not set')
    else if (ipMode !== undefined) checkOneOf(ipMode, ipModes, `${at}.ipMode`, errors)
    checkName(hostname, `${at}.hostname`, dnsSubdomainFault, errors)
    if (tryParseAddress(String(hostname ?? '')) !== undefined) {
      errors.invalid(`${at}.hostname`, hostname, 'must be a DNS name, not an IP address')
    }
  }
}
