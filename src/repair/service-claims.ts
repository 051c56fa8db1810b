import type { Service } from '../kube/resources.ts'
import { sharedString } from '../kube/shared-values.ts'
import { trimmedReader } from '../protobuf/trimmed-objects.ts'

/**
 * The fields of a Service that the repairs need: its identity, and its allocations. Everything else is dropped when it
 * arrives.
 */
export function trimService({ apiVersion, kind, metadata, spec }: Service): Service {
  const { type, clusterIP, clusterIPs, healthCheckNodePort, ports = [] } = spec ?? {}
  const numbered = ports.filter(({ nodePort }) => nodePort !== undefined && nodePort !== 0)
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
      // Normally the same text twice.
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

/** Of all Services without a NodePort: one list takes no memory. */
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

/** The ClusterIPs that a Service holds, as text and in order; none of a headless one (`IsServiceIPSet`). */
export function clusterIpsOf({ spec }: Service): readonly string[] {
  const { clusterIP } = spec ?? {}
  return clusterIP === undefined || clusterIP === '' || clusterIP === 'None' ? [] : (spec?.clusterIPs ?? [clusterIP])
}

/**
 * The NodePorts that a Service holds: a number for several protocols once, a repeated pair of number and protocol as
 * often as it occurs; the health check's counts as TCP. Upstream: `collectServiceNodePorts`.
 */
export function nodePortsOf({ spec }: Service): readonly number[] {
  const held: number[] = []
  const protocols = new Map<number, Set<string>>()
  const hold = (port: number | undefined, protocol: string): void => {
    if (port === undefined || port === 0) return
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
