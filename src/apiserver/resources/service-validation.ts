import { tryParseAddress } from '../../net/address.ts'
import type { FieldErrors } from '../field-errors.ts'
import { ipFault } from '../ip-text.ts'
import type { Draft } from '../kind.ts'
import { dnsLabelFault, dnsSubdomainFault, labelFault, labelKeyFault, portNameFault } from '../names.ts'
import { checkName, checkPort, protocols } from './endpoints.ts'
import { isHeadless, needsClusterIp, type ServicePort, type ServiceSpec, specOf } from './service-spec.ts'

const types = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort']
const affinities = ['ClientIP', 'None']
const policies = ['PreferDualStack', 'RequireDualStack', 'SingleStack']

/** upstream's ValidateService and ValidateServiceUpdate, as far as a Service of this program can break them. */
export function validateService(draft: Draft, errors: FieldErrors, live: Draft | undefined): void {
  const spec = specOf(draft)
  const ports = spec.ports ?? []
  if (live !== undefined) checkClusterIpsKept(spec, specOf(live), errors)
  if (ports.length === 0 && !isHeadless(spec) && spec.type !== 'ExternalName') errors.required('spec.ports')
  if (spec.type === 'ExternalName') checkExternalName(spec, errors)
  checkPorts(ports, errors)
  for (const [key, value] of Object.entries(spec.selector ?? {})) {
    checkName(key, 'spec.selector', labelKeyFault, errors)
    checkName(value, 'spec.selector', labelFault, errors)
  }
  oneOf(spec.sessionAffinity, affinities, 'spec.sessionAffinity', errors)
  checkClusterIps(spec, errors)
  checkFamilies(spec, errors)
  oneOf(spec.type, types, 'spec.type', errors)
  checkDuplicatePorts(ports, errors)
  if (spec.type === 'ClusterIP') {
    for (const [index, port] of ports.entries()) {
      if (port.nodePort) errors.forbidden(`spec.ports[${index}].nodePort`, "may not be used when `type` is 'ClusterIP'")
    }
  }
  const ingress = (draft.status as { loadBalancer?: { ingress?: readonly unknown[] } } | undefined)?.loadBalancer
    ?.ingress
  if (spec.type !== 'LoadBalancer' && (ingress?.length ?? 0) > 0) {
    errors.forbidden('status.loadBalancer.ingress', "may only be used when `spec.type` is 'LoadBalancer'")
  }
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
    if (!protocols.includes(port.protocol)) errors.notSupported(`${path}.protocol`, port.protocol, protocols)
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
  const name = String(spec.externalName ?? '').replace(/\.$/, '')
  if (spec.clusterIP !== undefined || spec.clusterIPs !== undefined) {
    errors.forbidden('spec.clusterIPs[0]', 'may not be set when the type is ExternalName')
  }
  if (name === '') errors.required('spec.externalName')
  else checkName(name, 'spec.externalName', dnsSubdomainFault, errors)
}

function checkClusterIps(spec: ServiceSpec, errors: FieldErrors): void {
  const ips = spec.clusterIPs ?? []
  if (spec.clusterIP !== undefined && ips.length > 0 && ips[0] !== spec.clusterIP) {
    errors.invalid('spec.clusterIPs', ips, 'first value must match `clusterIP`')
  }
  if (ips.length > 2) errors.invalid('spec.clusterIPs', ips, 'may only hold up to 2 values')
  for (const [index, ip] of ips.entries()) {
    if (ip === 'None' && index === 0) {
      if (ips.length > 1) errors.invalid('spec.clusterIPs', 'None', 'cannot be set with other cluster IPs')
      continue
    }
    const fault = ipFault(ip)
    if (fault !== undefined) errors.invalid(`spec.clusterIPs[${index}]`, ip, fault)
  }
  const families = ips.map((ip) => tryParseAddress(ip)?.family)
  if (families.length === 2 && families[0] !== undefined && families[0] === families[1]) {
    errors.invalid('spec.clusterIPs', ips, 'may specify no more than one IP for each IP family')
  }
}

function checkFamilies(spec: ServiceSpec, errors: FieldErrors): void {
  if (spec.ipFamilyPolicy !== undefined) oneOf(spec.ipFamilyPolicy, policies, 'spec.ipFamilyPolicy', errors)
  const families = spec.ipFamilies ?? []
  for (const [index, family] of families.entries()) {
    oneOf(family, ['IPv4', 'IPv6'], `spec.ipFamilies[${index}]`, errors)
    if (families.indexOf(family) < index) errors.duplicate(`spec.ipFamilies[${index}]`, family)
    const ip = tryParseAddress(spec.clusterIPs?.[index] ?? '')
    if (ip !== undefined && `IPv${ip.family}` !== family) {
      errors.invalid(
        `spec.clusterIPs[${index}]`,
        ip.text,
        `expected an ${family} value as indicated by \`ipFamilies[${index}]\``,
      )
    }
  }
}

/** The first ClusterIP stays as long as the Service has one; the second may come and go. */
function checkClusterIpsKept(spec: ServiceSpec, live: ServiceSpec, errors: FieldErrors): void {
  if (live.type === 'ExternalName' || spec.type === 'ExternalName') return
  const before = live.clusterIPs?.[0]
  const after = spec.clusterIPs?.[0]
  if (before !== undefined && (after !== before || needsClusterIp(live) !== needsClusterIp(spec))) {
    errors.invalid('spec.clusterIPs[0]', spec.clusterIPs ?? null, 'may not change once set')
  }
}

function oneOf(value: unknown, allowed: readonly string[], path: string, errors: FieldErrors): void {
  if (!allowed.includes(String(value))) errors.notSupported(path, value, allowed)
}
