import { type Draft, listMember, member } from '../kind.ts'
import {
  atomicMap,
  boolean,
  conditions,
  integer,
  integerOrString,
  kindSchema,
  list,
  object,
  optionalString,
  string,
  strings,
} from '../schema.ts'

type Members = Readonly<Record<string, unknown>>

export const serviceSchema = kindSchema({
  spec: object({
    ports: list(
      object({
        name: optionalString,
        protocol: optionalString,
        appProtocol: string,
        port: integer,
        targetPort: integerOrString,
        nodePort: integer,
      }),
      ['port', 'protocol'],
    ),
    selector: atomicMap,
    clusterIP: optionalString,
    clusterIPs: strings,
    type: optionalString,
    externalIPs: strings,
    sessionAffinity: optionalString,
    loadBalancerIP: optionalString,
    loadBalancerSourceRanges: strings,
    externalName: optionalString,
    externalTrafficPolicy: optionalString,
    healthCheckNodePort: integer,
    publishNotReadyAddresses: boolean,
    sessionAffinityConfig: object({ clientIP: object({ timeoutSeconds: integer }) }),
    ipFamilies: strings,
    ipFamilyPolicy: string,
    allocateLoadBalancerNodePorts: boolean,
    loadBalancerClass: string,
    internalTrafficPolicy: string,
    trafficDistribution: string,
  }),
  status: object({ conditions }),
})

/** A Service's spec, as far as the server reads it. */
export interface ServiceSpec extends Members {
  readonly type: string
  readonly clusterIP?: string
  readonly clusterIPs?: readonly string[]
  readonly ipFamilies?: readonly string[]
  readonly ipFamilyPolicy?: string
  readonly ports?: readonly ServicePort[]
  readonly selector?: Readonly<Record<string, string>>
}

export interface ServicePort extends Members {
  readonly name?: string
  readonly protocol: string
  readonly port?: number
  readonly targetPort?: number | string
  readonly nodePort?: number
}

/** The spec of a Service that has its defaults. */
export function specOf(service: Draft): ServiceSpec {
  return member(service, 'spec') as ServiceSpec
}

export function isHeadless(spec: ServiceSpec): boolean {
  return spec.clusterIP === 'None' || spec.clusterIPs?.[0] === 'None'
}

export function needsClusterIp(spec: ServiceSpec): boolean {
  return spec.type !== 'ExternalName' && !isHeadless(spec)
}

export function needsNodePorts(spec: ServiceSpec): boolean {
  return spec.type === 'NodePort' || (spec.type === 'LoadBalancer' && spec.allocateLoadBalancerNodePorts !== false)
}

/** upstream's SetDefaults_Service. */
export function withServiceDefaults(draft: Draft): Draft {
  const given = member(draft, 'spec')
  const type = given.type ?? 'ClusterIP'
  const affinity = given.sessionAffinity ?? 'None'
  const external = type === 'NodePort' || type === 'LoadBalancer'
  const ports = listMember(given, 'ports').map(withPortDefaults)
  const { sessionAffinityConfig: config, ...rest } = given
  const spec = {
    ...rest,
    ...(ports.length === 0 ? {} : { ports }),
    type,
    sessionAffinity: affinity,
    ...(affinity === 'ClientIP' ? { sessionAffinityConfig: config ?? { clientIP: { timeoutSeconds: 10_800 } } } : {}),
    ...(external ? { externalTrafficPolicy: given.externalTrafficPolicy ?? 'Cluster' } : {}),
    ...(type === 'ExternalName' ? {} : { internalTrafficPolicy: given.internalTrafficPolicy ?? 'Cluster' }),
    ...(type === 'LoadBalancer' ? { allocateLoadBalancerNodePorts: given.allocateLoadBalancerNodePorts ?? true } : {}),
  }
  return { ...draft, spec }
}

function withPortDefaults(port: Members): Members {
  const { nodePort, targetPort, protocol, ...rest } = port
  const target = targetPort === undefined || targetPort === 0 || targetPort === '' ? (port.port ?? 0) : targetPort
  return {
    ...rest,
    protocol: protocol ?? 'TCP',
    targetPort: target,
    ...(nodePort === undefined || nodePort === 0 ? {} : { nodePort }),
  }
}
