import { tryParseAddress } from '../../net/address.ts'
import { type Draft, listMember, type Members, member } from '../kind.ts'
import {
  dnsLabelFault,
  dnsSubdomainFault,
  endpointAddressFault,
  ipFault,
  labelKeyFault,
  labelValueFault,
  portNameFault,
} from '../names.ts'
import type { FieldErrors } from '../refusal.ts'
import * as s from '../schema.ts'
import { checkName, checkOneOf, checkPort, protocols } from './endpoints.ts'

const ingress = s.list(s.object({ ip: s.string, hostname: s.string, ipMode: s.string, ports: s.list(s.any) }))

export const serviceSchema = s.kindSchema({
  spec: s.object({
    ports: s.list(
      s.object({
        name: s.optionalString,
        protocol: { type: 'string', omitEmpty: true, default: 'TCP' },
        appProtocol: s.string,
        port: s.integer,
        targetPort: s.integerOrString,
        nodePort: s.optionalInteger,
      }),
      ['port', 'protocol'],
    ),
    selector: s.atomicMap,
    clusterIP: s.optionalString,
    clusterIPs: s.strings,
    type: s.optionalString,
    externalIPs: s.strings,
    sessionAffinity: s.optionalString,
    loadBalancerIP: s.optionalString,
    loadBalancerSourceRanges: s.strings,
    externalName: s.optionalString,
    externalTrafficPolicy: s.optionalString,
    healthCheckNodePort: s.optionalInteger,
    publishNotReadyAddresses: s.boolean,
    sessionAffinityConfig: s.pointer({ clientIP: s.pointer({ timeoutSeconds: s.integer }) }),
    ipFamilies: s.strings,
    ipFamilyPolicy: s.string,
    allocateLoadBalancerNodePorts: s.boolean,
    loadBalancerClass: s.string,
    internalTrafficPolicy: s.string,
    trafficDistribution: s.string,
  }),
  status: s.object({ conditions: s.conditions, loadBalancer: s.object({ ingress }) }),
})

export interface ServiceSpec extends Members {
  readonly type: string
  readonly clusterIP?: string
  readonly clusterIPs?: readonly string[]
  readonly ipFamilies?: readonly string[]
  readonly ipFamilyPolicy?: string
  readonly ports?: readonly ServicePort[]
  readonly selector?: Readonly<Record<string, string>>
  readonly externalName?: string
  readonly externalIPs?: readonly string[]
  readonly healthCheckNodePort?: number
}

export interface ServicePort extends Members {
  readonly name?: string
  readonly protocol: string
  readonly port?: number
  readonly targetPort?: number | string
  readonly nodePort?: number
}

/** The spec of a Service that already has its defaults. */
export function specOf(service: Draft): ServiceSpec {
  return member(service, 'spec') as ServiceSpec
}

function isHeadless(spec: ServiceSpec): boolean {
  return spec.clusterIP === 'None' || spec.clusterIPs?.[0] === 'None'
}

export function needsClusterIp(spec: ServiceSpec): boolean {
  return spec.type !== 'ExternalName' && !isHeadless(spec)
}

export function needsNodePorts(spec: ServiceSpec): boolean {
  return spec.type === 'NodePort' || (spec.type === 'LoadBalancer' && spec.allocateLoadBalancerNodePorts !== false)
}

/** Upstream's service.ExternallyAccessible. */
export function isExternallyAccessible({ type, externalIPs }: Members): boolean {
  if (type === 'NodePort' || type === 'LoadBalancer') return true
  return type === 'ClusterIP' && Array.isArray(externalIPs) && externalIPs.length > 0
}

/** Upstream's SetDefaults_Service. */
export function withServiceDefaults(draft: Draft): Draft {
  const given = member(draft, 'spec')
  const type = given.type ?? 'ClusterIP'
  const affinity = given.sessionAffinity ?? 'None'
  const external = isExternallyAccessible({ ...given, type })
  const ports = listMember(given, 'ports').map(withPortDefaults)
  const { sessionAffinityConfig: config, ...rest } = given
  const timeout = member(member(given, 'sessionAffinityConfig'), 'clientIP').timeoutSeconds
  const spec = {
    ...rest,
    ...(ports.length === 0 ? {} : { ports }),
    type,
    sessionAffinity: affinity,
    ...(affinity === 'ClientIP' ? { sessionAffinityConfig: timeout === undefined ? defaultAffinity : config } : {}),
    ...(external ? { externalTrafficPolicy: given.externalTrafficPolicy ?? 'Cluster' } : {}),
    ...(type === 'ExternalName' ? {} : { internalTrafficPolicy: given.internalTrafficPolicy ?? 'Cluster' }),
    ...(type === 'LoadBalancer' ? { allocateLoadBalancerNodePorts: given.allocateLoadBalancerNodePorts ?? true } : {}),
  }
  return { ...draft, spec }
}

const defaultAffinity = { clientIP: { timeoutSeconds: 10_800 } }

function withPortDefaults(port: Members): Members {
  const { targetPort, protocol, ...rest } = port
  const target = targetPort === undefined || targetPort === 0 || targetPort === '' ? (port.port ?? 0) : targetPort
  return { ...rest, protocol: protocol ?? 'TCP', targetPort: target }
}

/**
 * Decides the IP families of a spec and their policy (upstream's Allocators.initIPFamilyFields). `configured` are the
 * families of the cluster, the default one first.
 */
export function withFamilies(
  spec: ServiceSpec,
  live: ServiceSpec | undefined,
  configured: readonly string[],
  errors: FieldErrors,
): ServiceSpec {
  if (spec.type === 'ExternalName' || retainsFamilies(spec, live)) return spec
  const selectorless = isHeadless(spec) && Object.keys(spec.selector ?? {}).length === 0
  const ipFamilyPolicy =
    spec.ipFamilyPolicy ?? live?.ipFamilyPolicy ?? (selectorless ? 'RequireDualStack' : 'SingleStack')
  const single = ipFamilyPolicy === 'SingleStack'
  const released = live !== undefined && single
  const clusterIPs =
    released && isSame(spec.clusterIPs, live.clusterIPs) ? spec.clusterIPs?.slice(0, 1) : spec.clusterIPs
  const asked = released && isSame(spec.ipFamilies, live.ipFamilies) ? spec.ipFamilies?.slice(0, 1) : spec.ipFamilies
  const decided = { ...spec, ipFamilyPolicy, ...(clusterIPs === undefined ? {} : { clusterIPs }) }
  checkPolicy(decided, asked, live, errors)

  const families = inferred(asked, clusterIPs, configured, errors)
  if (families.length === 0) families.push(configured[0] ?? 'IPv4')
  const everyFamily = selectorless ? ['IPv4', 'IPv6'] : configured
  if (!single && families.length === 1) {
    const other = everyFamily.find((family) => family !== families[0])
    if (other !== undefined) families.push(other)
  }
  if (!selectorless) checkConfigured(decided, families, configured, errors)
  return { ...decided, ipFamilies: families }
}

/**
 * Whether an update leaves the IP families as they are: with PreferDualStack before and after, if the update changes
 * neither the type nor the addresses nor the families of the spec.
 */
export function retainsFamilies(spec: ServiceSpec, live: ServiceSpec | undefined): boolean {
  return (
    live?.ipFamilyPolicy === 'PreferDualStack' &&
    spec.ipFamilyPolicy === 'PreferDualStack' &&
    spec.type === live.type &&
    isSame(spec.clusterIPs, live.clusterIPs) &&
    isSame(spec.ipFamilies, live.ipFamilies)
  )
}

/** The requested families. Further requested addresses add their families. */
function inferred(
  asked: readonly string[] | undefined,
  clusterIPs: readonly string[] | undefined,
  configured: readonly string[],
  errors: FieldErrors,
): string[] {
  const families = [...(asked ?? [])]
  for (const [index, ip] of (clusterIPs ?? []).entries()) {
    const address = tryParseAddress(ip)
    if (address === undefined || index < families.length) continue
    const family = `IPv${address.family}`
    if (configured.includes(family)) families.push(family)
    else errors.invalid(`spec.clusterIPs[${index}]`, clusterIPs, `${family} is not configured on this cluster`)
  }
  return families
}

function checkPolicy(
  spec: ServiceSpec,
  asked: readonly string[] | undefined,
  live: ServiceSpec | undefined,
  errors: FieldErrors,
): void {
  const path = 'spec.ipFamilyPolicy'
  const policy = spec.ipFamilyPolicy
  if (policy === 'SingleStack') {
    const why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    if (spec.clusterIPs?.length === 2) errors.invalid(path, policy, `${why} cluster IPs are specified`)
    if (asked?.length === 2) errors.invalid(path, policy, `${why} IP families are specified`)
  } else if (live !== undefined) {
    const reduced = (before: readonly string[] | undefined, after: readonly string[] | undefined): boolean =>
      (before?.length ?? 0) > 1 && after?.length === 1
    if (reduced(live.clusterIPs, spec.clusterIPs)) {
      errors.invalid(path, policy, "must be 'SingleStack' to release the secondary cluster IP")
    }
    if (reduced(live.ipFamilies, asked)) {
      errors.invalid(path, policy, "must be 'SingleStack' to release the secondary IP family")
    }
  }
}

function checkConfigured(
  spec: ServiceSpec,
  families: readonly string[],
  configured: readonly string[],
  errors: FieldErrors,
): void {
  if (spec.ipFamilyPolicy === 'RequireDualStack' && configured.length < 2) {
    errors.invalid('spec.ipFamilyPolicy', spec.ipFamilyPolicy, 'this cluster is not configured for dual-stack services')
  }
  for (const [index, family] of families.entries()) {
    if (!configured.includes(family))
      errors.invalid(`spec.ipFamilies[${index}]`, family, 'not configured on this cluster')
  }
}

function isSame(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return (a ?? []).join() === (b ?? []).join()
}

const types = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort']
const affinities = ['ClientIP', 'None']
const policies = ['PreferDualStack', 'RequireDualStack', 'SingleStack']

/**
 * Checks the main rules of upstream's ValidateService and ValidateServiceUpdate. `validateTraffic` checks those for
 * traffic.
 */
export function validateService(draft: Draft, errors: FieldErrors, live: Draft | undefined): void {
  const spec = specOf(draft)
  const ports = spec.ports ?? []
  if (live !== undefined) checkClusterIpsUnchanged(spec, specOf(live), errors)
  if (ports.length === 0 && !isHeadless(spec) && spec.type !== 'ExternalName') errors.required('spec.ports')
  if ((spec.type === 'LoadBalancer' || spec.type === 'NodePort') && isHeadless(spec)) {
    errors.invalid('spec.clusterIPs[0]', 'None', `may not be set to 'None' for ${spec.type} services`)
  }
  if (spec.type === 'ExternalName') checkExternalName(spec, errors)
  checkPorts(ports, errors)
  for (const [key, value] of Object.entries(spec.selector ?? {})) {
    checkName(key, 'spec.selector', labelKeyFault, errors)
    checkName(value, 'spec.selector', labelValueFault, errors)
  }
  for (const [index, ip] of (spec.externalIPs ?? []).entries()) {
    const address = tryParseAddress(ip)
    const fault = address === undefined ? ipFault(ip) : endpointAddressFault(address)
    errors.invalid(`spec.externalIPs[${index}]`, ip, fault)
  }
  checkOneOf(spec.sessionAffinity, affinities, 'spec.sessionAffinity', errors)
  checkOneOf(spec.type, types, 'spec.type', errors)
  checkDuplicatePorts(ports, errors)
}

function checkPorts(ports: readonly ServicePort[], errors: FieldErrors): void {
  const names = new Set<string>()
  for (const [index, port] of ports.entries()) {
    const path = `spec.ports[${index}]`
    const name = port.name ?? ''
    if (name === '' && ports.length > 1) errors.required(`${path}.name`)
    const fault = name === '' ? undefined : dnsLabelFault(name)
    if (fault !== undefined) errors.invalid(`${path}.name`, name, fault)
    else if (name !== '' && names.has(name)) errors.duplicate(`${path}.name`, name)
    names.add(name)
    checkPort(port.port ?? 0, `${path}.port`, errors)
    checkOneOf(port.protocol, protocols, `${path}.protocol`, errors)
    if (typeof port.targetPort === 'string') checkName(port.targetPort, `${path}.targetPort`, portNameFault, errors)
    else checkPort(port.targetPort ?? 0, `${path}.targetPort`, errors)
  }
}

function checkDuplicatePorts(ports: readonly ServicePort[], errors: FieldErrors): void {
  const seen = new Set<string>()
  for (const [index, { port = 0, protocol }] of ports.entries()) {
    const key = `${protocol}/${port}`
    if (seen.has(key)) {
      const value = { Name: '', Protocol: protocol, AppProtocol: null, Port: port, TargetPort: 0, NodePort: 0 }
      errors.duplicate(`spec.ports[${index}]`, value)
    }
    seen.add(key)
  }
}

function checkExternalName(spec: ServiceSpec, errors: FieldErrors): void {
  const name = (spec.externalName ?? '').replace(/\.$/, '')
  for (const field of ['clusterIPs', 'ipFamilies', 'ipFamilyPolicy']) {
    if (spec[field] !== undefined) errors.forbidden(`spec.${field}`, 'may not be set for ExternalName services')
  }
  if (name === '') errors.required('spec.externalName')
  else checkName(name, 'spec.externalName', dnsSubdomainFault, errors)
}

/**
 * Checks the requested addresses and families, but not whether they are free. Addresses that `live` has count as valid
 * (upstream's ValidateServiceClusterIPsRelatedFields).
 */
export function checkAddresses(spec: ServiceSpec, live: ServiceSpec | undefined, errors: FieldErrors): void {
  if (spec.type === 'ExternalName') return
  const path = 'spec.clusterIPs'
  const { clusterIP, clusterIPs: ips = [], ipFamilies = [] } = spec
  if (clusterIP === undefined) {
    if (ips.length > 0) errors.invalid(path, ips, 'must be empty when `clusterIP` is not specified')
  } else if (ips.length === 0) errors.required(path)
  else if (ips[0] !== clusterIP) errors.invalid(path, ips, 'first value must match `clusterIP`')
  const families = new Set<string>()
  for (const [index, family] of ipFamilies.entries()) {
    checkOneOf(family, ['IPv4', 'IPv6'], `spec.ipFamilies[${index}]`, errors)
    if (families.has(family)) errors.duplicate(`spec.ipFamilies[${index}]`, family)
    families.add(family)
  }
  if (spec.ipFamilyPolicy !== undefined) checkOneOf(spec.ipFamilyPolicy, policies, 'spec.ipFamilyPolicy', errors)
  if (checkIps(ips, live?.clusterIPs ?? [], path, errors)) checkFamiliesOfIps(ips, ipFamilies, path, errors)
}

/** Checks that each value is an address, or the only value `None`. Returns whether each value is valid. */
function checkIps(ips: readonly string[], live: readonly string[], path: string, errors: FieldErrors): boolean {
  let areValid = true
  for (const [index, ip] of ips.entries()) {
    const isNone = index === 0 && ip === 'None'
    const fault = isNone || live.includes(ip) ? undefined : ipFault(ip)
    if (fault !== undefined) errors.invalid(`${path}[${index}]`, ip, fault)
    else if (isNone && ips.length > 1) errors.invalid(path, ips, "'None' must be the first and only value")
    else continue
    areValid = false
  }
  if (ips.length > 2) errors.invalid(path, ips, 'may only hold up to 2 values')
  return areValid
}

function checkFamiliesOfIps(
  ips: readonly string[],
  ipFamilies: readonly string[],
  path: string,
  errors: FieldErrors,
): void {
  const families = ips.map((ip) => tryParseAddress(ip)?.family)
  if (families.length === 2 && families[0] !== undefined && families[0] === families[1]) {
    errors.invalid(path, ips, 'may specify no more than one IP for each IP family')
  }
  for (const [index, family] of ipFamilies.entries()) {
    const ip = tryParseAddress(ips[index] ?? '')
    if (ip !== undefined && `IPv${ip.family}` !== family) {
      const why = `expected an ${family} value as indicated by \`ipFamilies[${index}]\``
      errors.invalid(`${path}[${index}]`, ip.text, why)
    }
  }
}

/**
 * A ClusterIP may not change once it is set, but the second one may be added or removed
 * (validateUpgradeDowngradeClusterIPs). Does not apply from or to an ExternalName, nor while the Service stays
 * headless.
 */
function checkClusterIpsUnchanged(spec: ServiceSpec, live: ServiceSpec, errors: FieldErrors): void {
  if (live.type === 'ExternalName' || spec.type === 'ExternalName') return
  if (isHeadless(live) && isHeadless(spec)) return
  const [before, after] = [live.clusterIPs ?? [], spec.clusterIPs ?? []]
  const changed = (index: number): void =>
    errors.invalid(`spec.clusterIPs[${index}]`, spec.clusterIPs ?? null, 'may not change once set')
  if (before.length === after.length) {
    for (const [index, ip] of before.entries()) if (ip !== after[index]) changed(index)
  } else if (before.length > 0 && after.length > 0) {
    if (after[0] !== before[0]) changed(0)
  } else if (before.length > 0) {
    errors.invalid('spec.clusterIPs[0]', spec.clusterIPs ?? null, 'primary clusterIP can not be unset')
  }
}
