import type { Service } from '../kube/resources.ts'
import { familyOf } from '../net/address.ts'
import type { ObjectAction } from './guarded-writes/object-writer.ts'
import { KUBERNETES_SERVICE, type ServicePort, samePorts } from './identity.ts'

export const SERVICE_PORT = 443

export interface ServiceSettings {
  /** The first usable address of the first Service range, in canonical form. */
  readonly clusterIp: string
  readonly secondClusterIp?: string | undefined
  /** Where the API servers listen: the Service's targetPort. */
  readonly securePort: number
  /** 0 for a ClusterIP Service, else the node port of a NodePort Service. */
  readonly nodePort: number
}

/** How many families the Service should have. `as-found`: the number is unknown, so the families stay as they are. */
export type ServiceStack = 'single' | 'dual' | 'as-found'

export interface ServiceDemand {
  /**
   * False while live masters may want different ports or types of the Service: its ports and type then stay as found.
   */
  readonly portsAgreed: boolean
  readonly stack: ServiceStack
}

/**
 * How a second address is requested.
 * - `configured`: the first usable address of the Service range of the second family.
 * - `any`: any free address of the second family, chosen by the server.
 * - `if-possible`: such an address if the server has that family; otherwise the Service gets no second address.
 */
export type SecondClusterIp = 'configured' | 'any' | 'if-possible'

/**
 * Decides what must change so that Service `default/kubernetes` has its ports, type and families, and no selector.
 * Pure.
 *
 * An existing ClusterIP stays, whatever the range. Upstream creates the Service but never corrects it
 * (pkg/controlplane/controller/kubernetesservice/controller.go). Upstream's unused `reconcile` path would correct ports
 * and type only.
 *
 * A Service without an address gets only its first one; the next plan adds the second. If a server refuses one of two
 * addresses in a request, it may leave the other address allocated without a Service (`allocClusterIPs` in
 * pkg/registry/core/service/storage/alloc.go). Masters that create the Service at the same moment could then each block
 * one of the two addresses.
 */
export function planService(
  current: Service | undefined,
  settings: ServiceSettings,
  portsAgreed: boolean,
  stack: ServiceStack = 'as-found',
  second: SecondClusterIp = 'configured',
): ObjectAction<Service> {
  const wanted = newService(settings)
  if (current === undefined) return { type: 'create', object: wanted, reasons: ['missing'] }
  const { spec } = current
  const { type, ports = [] } = wanted.spec ?? {}
  const reasons: string[] = []
  if (portsAgreed && spec?.type !== type) reasons.push('type')
  if (portsAgreed && !samePorts(spec?.ports ?? [], ports)) reasons.push('ports')
  // With a selector the endpoints controllers would manage the Endpoints, and empty them.
  if (Object.keys(spec?.selector ?? {}).length > 0) reasons.push('selector')
  const families = planFamilies(spec, settings, stack, second)
  if (families !== undefined) reasons.push('families')
  if (reasons.length === 0) return { type: 'none' }

  const { selector: _selector, ...retained } = { ...spec, ...families }
  if (!portsAgreed) return { type: 'update', object: { ...current, spec: retained } as Service, reasons }
  const { externalName: _externalName, loadBalancerSourceRanges: _ranges, ...ofAnyType } = retained
  // A Service without a ClusterIP was of the type ExternalName, and has released its addresses.
  const isReleased = (spec?.clusterIP ?? '') === ''
  const addresses = isReleased ? { clusterIP: settings.clusterIp, clusterIPs: [settings.clusterIp] } : {}
  const next = { ...ofAnyType, ...addresses, type, ports }
  return { type: 'update', object: { ...current, metadata: withoutRanges(current), spec: next } as Service, reasons }
}

/** Another form of `loadBalancerSourceRanges`. A server refuses both forms for all types but LoadBalancer. */
const SOURCE_RANGES = 'service.beta.kubernetes.io/load-balancer-source-ranges'

function withoutRanges({ metadata }: Service): Service['metadata'] {
  if (metadata?.annotations?.[SOURCE_RANGES] === undefined) return metadata
  const { [SOURCE_RANGES]: _ranges, ...annotations } = metadata.annotations
  return { ...metadata, annotations }
}

/** A server refuses these fields if they contradict each other. */
interface FamilyFields {
  readonly ipFamilyPolicy: 'SingleStack' | 'PreferDualStack'
  readonly ipFamilies: readonly ('IPv4' | 'IPv6')[]
  readonly clusterIPs: readonly string[]
}

/**
 * Decides which addresses and families a Service must get; undefined if its present ones must stay.
 *
 * The first address of a Service never changes, so the second family is the other one. While two families are wanted,
 * an existing second address stays too, because clients may use both addresses. A server releases a second address only
 * when all three fields demand it (pkg/registry/core/service/storage/alloc.go).
 */
function planFamilies(
  spec: Service['spec'],
  { clusterIp: primary, secondClusterIp: secondary }: ServiceSettings,
  stack: ServiceStack,
  second: SecondClusterIp,
): FamilyFields | undefined {
  const found = spec?.clusterIPs ?? [spec?.clusterIP ?? '']
  const [first = ''] = found
  const policy = spec?.ipFamilyPolicy ?? 'SingleStack'
  if (first === '' || first === 'None') return undefined
  const family = familyOf(first)
  switch (stack) {
    case 'as-found':
      return undefined
    case 'single':
      if (policy === 'SingleStack' && found.length === 1) return undefined
      return { ipFamilyPolicy: 'SingleStack', ipFamilies: [family], clusterIPs: [first] }
    case 'dual': {
      if (secondary === undefined) return undefined
      const other = familyOf(primary) === family ? secondary : primary
      const complete = found.length === 2
      if (policy === 'PreferDualStack' && (complete || second === 'if-possible')) return undefined
      if (!complete && second === 'if-possible') {
        return { ipFamilyPolicy: 'PreferDualStack', ipFamilies: [family], clusterIPs: [first] }
      }
      const clusterIPs = complete ? found : second === 'configured' ? [first, other] : [first]
      return { ipFamilyPolicy: 'PreferDualStack', ipFamilies: [family, familyOf(other)], clusterIPs }
    }
  }
}

export function newService({ clusterIp, securePort, nodePort }: ServiceSettings): Service {
  const port = { name: 'https', port: SERVICE_PORT, protocol: 'TCP', targetPort: securePort }
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...KUBERNETES_SERVICE, labels: { component: 'apiserver', provider: 'kubernetes' } },
    spec: {
      type: nodePort > 0 ? 'NodePort' : 'ClusterIP',
      clusterIP: clusterIp,
      ipFamilyPolicy: 'SingleStack',
      sessionAffinity: 'None',
      ports: [nodePort > 0 ? { ...port, nodePort } : port] as unknown as readonly ServicePort[],
    },
  }
}
