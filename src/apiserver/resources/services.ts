import { services } from '../../kube/resources.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { ageColumn, type Column, nameColumn } from '../columns.ts'
import { type Draft, type Kind, listMember, member, type Reservation } from '../kind.ts'
import { dnsLabelFault } from '../names.ts'
import { FieldErrors, internalError, internalErrorOccurred } from '../refusal.ts'
import type { StoredObject } from '../store.ts'
import { type AllocationScope, AllocatorMetrics } from './allocator-metrics.ts'
import { ALLOCATED, type ClusterIps, type NodePorts } from './allocators.ts'
import {
  checkAddresses,
  needsClusterIp,
  needsNodePorts,
  retainsFamilies,
  type ServicePort,
  type ServiceSpec,
  serviceSchema,
  specOf,
  validateService,
  withFamilies,
  withServiceDefaults,
} from './service-spec.ts'
import { needsHealthCheckPort, validateTraffic, withIpModes, withoutOtherTypesFields } from './service-traffic.ts'

export interface ServiceAllocators {
  readonly clusterIps: ClusterIps
  readonly nodePorts: NodePorts
  readonly metrics: AllocatorMetrics
  /** Creates the IPAddress of an address that {@link ClusterIps} found free. */
  readonly takeIp: (ip: string, service: Draft) => void
  /** Deletes the IPAddress of an address, if it exists. */
  readonly releaseIp: (ip: string) => void
}

export interface ServiceKindOptions {
  /** The IP families of the cluster (`IPv4`, `IPv6`), the default one first. */
  readonly families: () => readonly string[]
  /** Undefined if the server allocates nothing: Services then have only the addresses and ports that clients set. */
  readonly allocators: ServiceAllocators | undefined
}

export function serviceKind(options: ServiceKindOptions): Kind {
  const { allocators } = options
  return {
    resource: services,
    warnings: serviceWarnings,
    shortNames: ['svc'],
    categories: ['all'],
    columns,
    schema: serviceSchema,
    hasStatus: true,
    createOnUpdate: true,
    answersDeleted: true,
    selectableFields: {
      'spec.clusterIP': (service) => specOf(service).clusterIP ?? '',
      'spec.type': (service) => specOf(service).type,
    },
    nameFault: dnsLabelFault,
    withDefaults(draft) {
      const complete = withServiceDefaults(draft)
      const isBalanced = complete.status !== undefined && specOf(complete).type === 'LoadBalancer'
      return isBalanced ? { ...complete, status: withIpModes(member(complete, 'status')) } : complete
    },
    forCreate(draft) {
      const spec = addressed(options, draft, withOneClusterIp(withoutExternalNamesPolicy(specOf(draft))), undefined)
      return { ...draft, spec, status: { loadBalancer: {} } }
    },
    forUpdate(draft, live) {
      const status = { loadBalancer: {}, ...member(draft, 'status') }
      if (draft.spec === live.spec) return { ...draft, status }
      const old = specOf(live)
      const spec = withClusterIps(withoutOtherTypesFields(withoutExternalNamesPolicy(specOf(draft)), old), old)
      const complete = withNodePorts(addressed(options, draft, spec, old), old)
      const isUnbalanced = old.type === 'LoadBalancer' && spec.type !== 'LoadBalancer'
      return { ...draft, spec: complete, status: isUnbalanced ? { ...status, loadBalancer: {} } : status }
    },
    validate(draft, errors, live) {
      validateService(draft, errors, live)
      validateTraffic(draft, errors, live)
    },
    ...(allocators === undefined ? {} : allocation(allocators)),
  }
}

function allocation(allocators: ServiceAllocators): Pick<Kind, 'reserve' | 'release'> {
  return {
    reserve: (draft, live, { dryRun }) =>
      reserve(dryRun ? { ...allocators, metrics: new AllocatorMetrics() } : allocators, draft, live),
    release(gone) {
      const spec = specOf(gone)
      for (const ip of addressesOf(spec)) allocators.releaseIp(ip)
      allocators.nodePorts.release(allPortsOf(spec))
    },
  }
}

/**
 * Completes the IP families of a spec, and checks its addresses. This happens before `validate`, because upstream
 * allocates addresses before it validates anything else.
 * @throws Refusal 422
 */
function addressed(
  { families }: ServiceKindOptions,
  draft: Draft,
  spec: ServiceSpec,
  old: ServiceSpec | undefined,
): ServiceSpec {
  const name = draft.metadata?.name ?? ''
  const errors = new FieldErrors()
  if (!retainsFamilies(spec, old)) checkAddresses(spec, old, errors)
  errors.refuse(services, name)
  const complete = withFamilies(spec, old, families(), errors)
  errors.refuse(services, name)
  return complete
}

/** Finds addresses and ports that the Service lacks, and checks those that it requests. @throws Refusal 422 or 500 */
function reserve(allocators: ServiceAllocators, draft: Draft, live: StoredObject | undefined): Reservation {
  const name = draft.metadata?.name ?? ''
  const old = live === undefined ? undefined : specOf(live)
  const errors = new FieldErrors()
  const spec = specOf(draft)
  const withIps = needsClusterIp(spec) ? withAddresses(allocators, spec, old, name, errors) : spec
  errors.refuse(services, name)
  const mayHavePorts = spec.type === 'NodePort' || spec.type === 'LoadBalancer'
  const withNodePorts = mayHavePorts ? withPorts(allocators, withIps, old, errors) : withIps
  errors.refuse(services, name)
  const complete = needsHealthCheckPort(withNodePorts)
    ? withHealthCheckPort(allocators, withNodePorts, old)
    : withNodePorts

  const before = { ips: addressesOf(old), ports: allPortsOf(old) }
  const after = { ips: addressesOf(complete), ports: allPortsOf(complete) }
  return {
    object: { ...draft, spec: complete },
    take() {
      for (const ip of after.ips) if (!before.ips.has(ip)) allocators.takeIp(ip, draft)
      for (const ip of before.ips) if (!after.ips.has(ip)) allocators.releaseIp(ip)
      allocators.nodePorts.release(before.ports)
      allocators.nodePorts.take(after.ports)
    },
  }
}

function countIp(
  { metrics, clusterIps }: ServiceAllocators,
  what: 'allocation_total' | 'allocation_errors_total',
  ip: string,
  scope: AllocationScope,
): void {
  const cidr = clusterIps.rangeOf(ip)
  if (cidr !== undefined) metrics.count(`kube_apiserver_clusterip_allocator_${what}`, { cidr, scope })
}

function countPort(
  { metrics }: ServiceAllocators,
  what: 'allocation_total' | 'allocation_errors_total',
  scope: AllocationScope,
): void {
  metrics.count(`kube_apiserver_nodeport_allocator_${what}`, { scope })
}

function withAddresses(
  allocators: ServiceAllocators,
  spec: ServiceSpec,
  old: ServiceSpec | undefined,
  name: string,
  errors: FieldErrors,
): ServiceSpec {
  const { clusterIps } = allocators
  const given = spec.clusterIPs ?? []
  const retained = addressesOf(old)
  const clusterIPs = (spec.ipFamilies ?? []).map((family, index) => {
    const ip = given[index]
    if (ip !== undefined) {
      if (retained.has(ip)) return ip
      const fault = clusterIps.faultOf(ip)
      countIp(allocators, fault === undefined ? 'allocation_total' : 'allocation_errors_total', ip, 'static')
      errors.invalid('spec.clusterIPs', given, fault && `failed to allocate IP ${ip}: ${fault}`)
      return ip
    }
    const number = family === 'IPv6' ? 6 : 4
    const free = clusterIps.next(number)
    if (free === undefined) {
      const metric = 'kube_apiserver_clusterip_allocator_allocation_errors_total'
      for (const cidr of clusterIps.rangesOf(number)) allocators.metrics.count(metric, { cidr, scope: 'dynamic' })
      throw internalErrorOccurred(`failed to allocate a serviceIP for Service ${JSON.stringify(name)}: range is full`)
    }
    countIp(allocators, 'allocation_total', free.text, 'dynamic')
    return free.text
  })
  return { ...spec, clusterIP: clusterIPs[0] ?? '', clusterIPs }
}

function withPorts(
  allocators: ServiceAllocators,
  spec: ServiceSpec,
  old: ServiceSpec | undefined,
  errors: FieldErrors,
): ServiceSpec {
  const { nodePorts } = allocators
  const own = portsOf(old)
  const given = spec.ports ?? []
  const pairs = new Set(given.map(({ protocol, nodePort }) => `${protocol} ${nodePort}`))
  const reserved = new Set([...allPortsOf(old), ...allPortsOf(spec)])
  /** The NodePort of each port number so far. */
  const chosen = new Map<number, number>()
  /** The given NodePorts so far. */
  const used = new Set<number>()
  const seen = new Set<string>()
  const ports = given.map((port, index): ServicePort => {
    const { nodePort, port: number = 0, protocol } = port
    if (nodePort !== undefined) {
      const pair = `${protocol} ${nodePort}`
      // In a new Service, upstream reports the second port as taken instead.
      if (old !== undefined && seen.has(pair)) throw internalError(`duplicate nodePort: {${pair}}`)
      seen.add(pair)
      const isTaken = old === undefined && chosen.get(number) !== nodePort && used.has(nodePort)
      const fault = isTaken ? ALLOCATED : nodePorts.faultOf(nodePort, own)
      if (fault !== undefined) countPort(allocators, 'allocation_errors_total', 'static')
      else if (!used.has(nodePort) && !own.has(nodePort)) countPort(allocators, 'allocation_total', 'static')
      errors.invalid(`spec.ports[${index}].nodePort`, nodePort, fault)
      if (!chosen.has(number)) chosen.set(number, nodePort)
      used.add(nodePort)
      return port
    }
    if (!needsNodePorts(spec)) return port
    // The same port number under another protocol gets the same NodePort.
    const twin = chosen.get(number)
    const twinFree = twin !== undefined && !pairs.has(`${protocol} ${twin}`)
    const free = twinFree ? twin : nodePorts.next(reserved)
    if (free === undefined) {
      countPort(allocators, 'allocation_errors_total', 'dynamic')
      throw internalErrorOccurred('failed to allocate a nodePort: range is full')
    }
    if (!twinFree) countPort(allocators, 'allocation_total', 'dynamic')
    reserved.add(free)
    chosen.set(number, free)
    return { ...port, nodePort: free }
  })
  return { ...spec, ports }
}

function withHealthCheckPort(
  allocators: ServiceAllocators,
  spec: ServiceSpec,
  old: ServiceSpec | undefined,
): ServiceSpec {
  const { nodePorts } = allocators
  const own = new Set(old?.healthCheckNodePort === undefined ? [] : [old.healthCheckNodePort])
  const given = spec.healthCheckNodePort
  if (given) {
    const fault = portsOf(spec).has(given) ? ALLOCATED : nodePorts.faultOf(given, own)
    if (!own.has(given))
      countPort(allocators, fault === undefined ? 'allocation_total' : 'allocation_errors_total', 'static')
    if (fault !== undefined)
      throw internalErrorOccurred(`failed to allocate requested HealthCheck NodePort ${given}: ${fault}`)
    return spec
  }
  const free = nodePorts.next(new Set([...allPortsOf(old), ...portsOf(spec)]))
  countPort(allocators, free === undefined ? 'allocation_errors_total' : 'allocation_total', 'dynamic')
  if (free === undefined) throw internalErrorOccurred('failed to allocate a HealthCheck NodePort : range is full')
  return { ...spec, healthCheckNodePort: free }
}

/** The spec with `clusterIP` also in `clusterIPs`, if that list is missing (upstream's normalizeClusterIPs). */
function withOneClusterIp(spec: ServiceSpec): ServiceSpec {
  const isAlone = spec.clusterIP !== undefined && spec.clusterIPs === undefined
  return isAlone ? { ...spec, clusterIPs: [spec.clusterIP as string] } : spec
}

/**
 * An update that omits the addresses preserves them, unless the Service is or was an ExternalName. If the update
 * changes `clusterIP` but not `clusterIPs`, the list follows `clusterIP` (upstream's patchAllocatedValues and
 * normalizeClusterIPs).
 */
function withClusterIps(spec: ServiceSpec, old: ServiceSpec): ServiceSpec {
  const isAddressed = spec.type !== 'ExternalName' && old.type !== 'ExternalName'
  const clusterIP = spec.clusterIP ?? (isAddressed ? old.clusterIP : undefined)
  const given = spec.clusterIPs ?? (isAddressed || clusterIP === old.clusterIP ? old.clusterIPs : undefined)
  const isChanged = clusterIP !== old.clusterIP && equalJson(given, old.clusterIPs)
  const clusterIPs = !isChanged ? given : clusterIP === undefined ? undefined : [clusterIP]
  const { clusterIP: _ip, clusterIPs: _ips, ...rest } = spec
  return {
    ...rest,
    ...(clusterIP === undefined ? {} : { clusterIP }),
    ...(clusterIPs === undefined ? {} : { clusterIPs }),
  } as ServiceSpec
}

/**
 * An update that omits NodePorts or the port of health checks preserves them, if the Service needed them before and
 * still does. Ports are matched by name.
 */
function withNodePorts(next: ServiceSpec, old: ServiceSpec): ServiceSpec {
  const isChecked = needsHealthCheckPort(next) && needsHealthCheckPort(old) && !next.healthCheckNodePort
  const spec = isChecked ? { ...next, healthCheckNodePort: old.healthCheckNodePort as number } : next
  if (spec.ports === undefined || !needsNodePorts(spec) || !needsNodePorts(old)) return spec
  const given = portsOf(spec)
  const byName = new Map((old.ports ?? []).map((port) => [port.name ?? '', port.nodePort]))
  const ports = spec.ports.map((port): ServicePort => {
    const known = byName.get(port.name ?? '')
    return port.nodePort !== undefined || known === undefined || given.has(known) ? port : { ...port, nodePort: known }
  })
  return { ...spec, ports }
}

function withoutExternalNamesPolicy(spec: ServiceSpec): ServiceSpec {
  if (spec.type !== 'ExternalName') return spec
  const { internalTrafficPolicy: _policy, ...rest } = spec
  return rest as ServiceSpec
}

function addressesOf(spec: ServiceSpec | undefined): ReadonlySet<string> {
  return new Set(spec !== undefined && needsClusterIp(spec) ? spec.clusterIPs : [])
}

/** The NodePorts. As in upstream, those of an ExternalName count too, though they may belong to another Service. */
function portsOf(spec: ServiceSpec | undefined): ReadonlySet<number> {
  return new Set((spec?.ports ?? []).flatMap(({ nodePort }) => (nodePort === undefined ? [] : [nodePort])))
}

function allPortsOf(spec: ServiceSpec | undefined): ReadonlySet<number> {
  const { healthCheckNodePort } = spec ?? {}
  return healthCheckNodePort ? new Set([...portsOf(spec), healthCheckNodePort]) : portsOf(spec)
}

const columns: readonly Column[] = [
  nameColumn,
  { name: 'Type', cell: (service) => specOf(service).type },
  { name: 'Cluster-IP', cell: (service) => specOf(service).clusterIPs?.[0] ?? specOf(service).clusterIP ?? '<none>' },
  { name: 'External-IP', cell: externalAddresses },
  { name: 'Port(s)', cell: (service) => (specOf(service).ports ?? []).map(portText).join() || '<none>' },
  ageColumn,
  { name: 'Selector', priority: 1, cell: (service) => selectorText(specOf(service).selector) },
]

function portText({ port, nodePort, protocol }: ServicePort): string {
  return nodePort === undefined ? `${port}/${protocol}` : `${port}:${nodePort}/${protocol}`
}

function selectorText(selector: ServiceSpec['selector'] = {}): string {
  const pairs = Object.entries(selector).map(([key, value]) => `${key}=${value}`)
  return pairs.sort().join() || '<none>'
}

function externalAddresses(service: StoredObject): string {
  const { type, externalName, externalIPs = [] } = specOf(service)
  if (type === 'ExternalName') return externalName ?? ''
  if (type !== 'LoadBalancer') return externalIPs.join() || '<none>'
  const ingress = listMember(member(member(service, 'status'), 'loadBalancer'), 'ingress')
  const balanced = ingress.map(({ ip, hostname }) => ip || hostname || '')
  return [...balanced, ...externalIPs].join() || '<pending>'
}

/** The warnings of upstream's GetWarningsForService, except those about unusual notations of addresses. */
function serviceWarnings(service: Draft): readonly string[] {
  const spec = member(service, 'spec')
  const isHeadless = spec.clusterIP === 'None'
  const hasExternalIps = listMember(spec, 'externalIPs').length > 0
  const isExternalName = spec.type === 'ExternalName'
  const warnings: readonly (readonly [boolean, string])[] = [
    [isHeadless && Boolean(spec.loadBalancerIP), 'spec.loadBalancerIP is ignored for headless services'],
    [isHeadless && hasExternalIps, 'spec.externalIPs is ignored for headless services'],
    [isHeadless && spec.sessionAffinity !== 'None', 'spec.SessionAffinity is ignored for headless services'],
    [
      hasExternalIps && !isHeadless && !isExternalName,
      'spec.externalIPs is deprecated and may no longer be implemented in some clusters',
    ],
    [isExternalName && hasExternalIps, 'spec.externalIPs is ignored when spec.type is "ExternalName"'],
    [
      !isExternalName && Boolean(spec.externalName),
      'spec.externalName is ignored when spec.type is not "ExternalName"',
    ],
    [
      spec.trafficDistribution === 'PreferClose',
      'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ],
  ]
  return warnings.filter(([applies]) => applies).map(([, text]) => text)
}
