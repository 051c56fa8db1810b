import { CompactObject } from '../kube/compact-object.ts'
import type { Service } from '../kube/resources.ts'
import { SharedValues, sharedString } from '../kube/shared-values.ts'
import { trimmedReader } from '../protobuf/trimmed-objects.ts'

type Spec = NonNullable<Service['spec']>

/**
 * A Service with only the fields that the repairs need; most take some 200 bytes. `spec` belongs to the class, as
 * `metadata` does.
 */
class ServiceClaim extends CompactObject {
  readonly creationTimestamp: string | undefined
  /** `spec.clusterIPs`, or its only element; undefined if `rest.spec` has the ClusterIPs. */
  readonly clusterIPs: string | readonly string[] | undefined
  readonly rest: SharedPart

  constructor({ metadata, spec }: Service) {
    super(metadata)
    const { type, clusterIP, clusterIPs, healthCheckNodePort, ports } = spec ?? {}
    const namespace = sharedString(metadata?.namespace)
    this.creationTimestamp = sharedString(metadata?.creationTimestamp)
    const isUsual = typeof clusterIP === 'string' && clusterIPs?.[0] === clusterIP
    this.clusterIPs = isUsual ? (clusterIPs.length === 1 ? clusterIP : clusterIPs) : undefined
    // Some servers write null for an empty list.
    const numbered = (ports ?? []).filter(({ nodePort }) => nodePort)
    const rest = (): SharedPart => ({
      namespace,
      spec: {
        type: sharedString(type),
        clusterIP: isUsual ? undefined : clusterIP,
        clusterIPs: isUsual ? undefined : clusterIPs,
        healthCheckNodePort,
        ports: numbered.map(({ nodePort, protocol, port }) => ({ nodePort, protocol: sharedString(protocol), port })),
      } as Partial<Spec> as Spec,
    })
    const isShared = isUsual && numbered.length === 0 && !healthCheckNodePort
    this.rest = isShared ? sharedParts.get(JSON.stringify([namespace, type]), rest) : rest()
  }

  get namespace(): string | undefined {
    return this.rest.namespace
  }

  get spec(): Spec {
    const { clusterIPs: held, rest } = this
    if (held === undefined) return rest.spec
    const { type, healthCheckNodePort, ports } = rest.spec
    const clusterIPs = typeof held === 'string' ? [held] : held
    return { type, clusterIP: clusterIPs[0], clusterIPs, healthCheckNodePort, ports } as Partial<Spec> as Spec
  }
}

/** The same for all Services of a namespace and type that hold no NodePort. */
interface SharedPart {
  readonly namespace: string | undefined
  readonly spec: Spec
}

const sharedParts = new SharedValues<SharedPart>(65_536)

/** Retains the fields that the repairs need. */
export function trimService(service: Service): Service {
  return new ServiceClaim(service) as Service
}

trimService.protobuf = trimmedReader('core/v1.Service', {
  metadata: { name: true, namespace: true, uid: true, resourceVersion: true, creationTimestamp: true },
  spec: {
    type: true,
    clusterIP: true,
    clusterIPs: true,
    healthCheckNodePort: true,
    ports: { nodePort: true, protocol: true, port: true },
  },
})

/** The ClusterIPs that a Service holds, as text and in order; none for a headless Service (`IsServiceIPSet`). */
export function clusterIpsOf({ spec }: Service): readonly string[] {
  const { clusterIP } = spec ?? {}
  return !clusterIP || clusterIP === 'None' ? [] : (spec?.clusterIPs ?? [clusterIP])
}

/**
 * A number that several protocols use counts once. A repeated pair of number and protocol counts as often as it occurs.
 * The NodePort of the health check counts as TCP. Upstream: `collectServiceNodePorts`.
 */
export function nodePortsOf({ spec }: Service): readonly number[] {
  const held: number[] = []
  const protocols = new Map<number, Set<string>>()
  const hold = (port: number | undefined, protocol: string): void => {
    if (!port) return
    const known = protocols.get(port)
    if (known === undefined) protocols.set(port, new Set([protocol]))
    else if (!known.has(protocol)) {
      known.add(protocol)
      return
    }
    held.push(port)
  }
  for (const { nodePort, protocol } of spec?.ports ?? []) hold(nodePort, protocol ?? 'TCP')
  hold(spec?.healthCheckNodePort, 'TCP')
  return held
}
