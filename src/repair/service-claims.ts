import type { Service } from '../kube/resources.ts'
import { sharedString } from '../kube/shared-values.ts'
import { trimmedReader } from '../protobuf/trimmed-objects.ts'

/** Retains the fields that the repairs need. */
export function trimService({ apiVersion, kind, metadata, spec }: Service): Service {
  const { type, clusterIP, clusterIPs, healthCheckNodePort, ports } = spec ?? {}
  // Some servers write null for an empty list.
  const numbered = (ports ?? []).filter(({ nodePort }) => nodePort)
  return {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    metadata: {
      name: metadata?.name,
      namespace: sharedString(metadata?.namespace),
      uid: metadata?.uid,
      resourceVersion: metadata?.resourceVersion,
      creationTimestamp: sharedString(metadata?.creationTimestamp),
    },
    spec: {
      type: sharedString(type),
      // Both are normally the same text, and one string for both saves memory.
      clusterIP: clusterIPs?.[0] === clusterIP ? clusterIPs?.[0] : clusterIP,
      clusterIPs,
      healthCheckNodePort,
      ports:
        numbered.length === 0
          ? noPorts
          : numbered.map(({ nodePort, protocol, port }) => ({ nodePort, protocol: sharedString(protocol), port })),
    },
  } as Service
}

/** The ports of all Services without a NodePort. Sharing one list saves memory. */
const noPorts: readonly never[] = []

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
