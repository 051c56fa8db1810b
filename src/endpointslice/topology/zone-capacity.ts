import type { Node } from '../../kube/resources.ts'
import { millisOf, nanosOf } from './cpu-quantity.ts'

/** What part of the cluster's CPU each zone has, in the order of the zones' names. They add up to 1. */
export type CpuRatios = ReadonlyMap<string, number>

const zoneLabel = 'topology.kubernetes.io/zone'
/** Nodes with one of these, whatever its value, do not count: they take no workload. */
const excludedLabels = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master']

/**
 * How the CPU of the Nodes that are ready is spread over zones. Undefined where hints would rest on too little: fewer than two zones, or a Node without zone or
 * allocatable CPU.
 */
export function cpuRatiosOf(nodes: Iterable<Node>): CpuRatios | undefined {
  const nanosByZone = new Map<string, bigint>()
  let total = 0n
  for (const node of nodes) {
    const labels = node.metadata?.labels ?? {}
    if (excludedLabels.some((label) => Object.hasOwn(labels, label)) || !isReady(node)) continue
    const zone = labels[zoneLabel] ?? ''
    const nanos = nanosOf(String(node.status?.allocatable?.cpu ?? '')) ?? 0n
    if (zone === '' || nanos === 0n) return undefined
    nanosByZone.set(zone, (nanosByZone.get(zone) ?? 0n) + nanos)
    total += nanos
  }
  if (total === 0n || nanosByZone.size < 2) return undefined
  const totalMillis = millisOf(total)
  const zones = [...nanosByZone].sort(([a], [b]) => (a < b ? -1 : 1))
  return new Map(zones.map(([zone, nanos]) => [zone, millisOf(nanos) / totalMillis]))
}

function isReady(node: Node): boolean {
  return node.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
}
