import type { Packing } from '../kube/packed-objects.ts'
import type { Service } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import { trimmedReader } from '../protobuf/trimmed-objects.ts'
import { compareTexts } from '../runtime/compare-texts.ts'
import { lookupNameOf } from './ip-address/ip-address.ts'

/**
 * {@link trimService} refuses a Service with more ClusterIPs, because a check of one ClusterIP reads all ClusterIPs of
 * its Service. The API allows two.
 */
const MOST_CLUSTER_IPS = 16

function isPort(port: unknown): boolean {
  return port === undefined || port === null || Number.isSafeInteger(port)
}

/** Retains the fields that the repairs need. @throws TypeError for a field of the wrong type */
export function trimService({ metadata, spec }: Service): Service {
  const { namespace, name, uid, resourceVersion, creationTimestamp } = metadata ?? {}
  const { type, clusterIP, clusterIPs, healthCheckNodePort, ports } = spec ?? {}
  // Some servers write null for an empty list, or a list of null for a Service without a ClusterIP.
  const ips = clusterIPs ?? []
  if (!Array.isArray(ips) || ips.length > MOST_CLUSTER_IPS) throw new TypeError('clusterIPs is not a short list')
  const held = clusterIP ? [clusterIP, ...ips] : []
  if (held.some((ip) => typeof ip !== 'string')) throw new TypeError('a ClusterIP is not a string')
  const numbered = (ports ?? []).filter(({ nodePort }) => nodePort)
  if (![healthCheckNodePort, ...numbered.map(({ nodePort }) => nodePort)].every(isPort)) {
    throw new TypeError('a NodePort is not a number')
  }
  return {
    // Go writes an empty time as null.
    metadata: { namespace, name, uid, resourceVersion, creationTimestamp: creationTimestamp ?? undefined },
    spec: {
      ...{ type, clusterIP, clusterIPs, healthCheckNodePort },
      ports: numbered.map(({ nodePort, protocol, port }) => ({ nodePort, protocol, port })),
    },
  } as Partial<Service> as Service
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

/**
 * If a Service holds nothing but ClusterIPs, stores these as texts, and shares the `type` with others. For every other
 * Service, such as one with NodePorts or without a ClusterIP, stores the spec as JSON.
 */
trimService.packing = {
  split({ metadata, spec }) {
    const { uid, resourceVersion, creationTimestamp } = metadata ?? {}
    const identity = [uid, resourceVersion, creationTimestamp]
    const { type, clusterIP, clusterIPs, healthCheckNodePort, ports } = spec ?? {}
    const isUsual = clusterIP && clusterIPs?.[0] === clusterIP && !healthCheckNodePort && ports?.length === 0
    return isUsual
      ? { texts: [...identity, undefined, ...clusterIPs], shared: { type } }
      : { texts: [...identity, JSON.stringify(spec)], shared: {} }
  },
  join({ namespace, name }, [uid, resourceVersion, creationTimestamp, json, ...clusterIPs], shared) {
    const metadata = { namespace, name, uid, resourceVersion, creationTimestamp }
    if (json !== undefined) return trimService({ metadata, spec: JSON.parse(json) } as object as Service)
    const { type } = shared as { readonly type?: string }
    const spec = { type, clusterIP: clusterIPs[0], clusterIPs, healthCheckNodePort: undefined, ports: [] }
    return { metadata, spec } as object as Service
  },
  keysOf: (service) => clusterIpsOf(service).map(lookupNameOf),
} satisfies Packing<Service>

/** Orders Services by age, and equally old ones by namespace and name, so that all masters agree who keeps a number. */
export function oldestFirst(a: Service, b: Service): number {
  const [first = '', second = ''] = [a.metadata?.creationTimestamp, b.metadata?.creationTimestamp]
  return compareTexts(first, second) || compareTexts(keyOfObject(a), keyOfObject(b))
}

/**
 * The ClusterIPs that a Service holds, as text and in order. None if it is headless or has none yet (`IsServiceIPSet`).
 */
export function clusterIpsOf({ spec }: Service): readonly string[] {
  const { clusterIP } = spec ?? {}
  return !clusterIP || clusterIP === 'None' ? [] : (spec?.clusterIPs ?? [clusterIP])
}

/**
 * The NodePorts that a Service holds. A number that several protocols use counts once. A repeated pair of number and
 * protocol counts as often as it occurs. The NodePort of the health check counts as TCP. Upstream:
 * `collectServiceNodePorts`.
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
