import type { KubeObject } from '../kube/json.ts'

/** What is wrong, as upstream counts it: the label `type` of its metrics. */
export type FindingType = 'leak' | 'repair' | 'outOfRange' | 'duplicate' | 'unknown' | 'invalid'

/** One thing that a repair found wrong with an allocation. */
export interface Finding {
  readonly type: FindingType
  /** Upstream's event reason: `ClusterIPNotAllocated`, `PortOutOfRange`. */
  readonly reason: RepairReason
  /** Upstream's note, one line for people. */
  readonly note: string
  /** The Service or IPAddress that an event is about; undefined where upstream gives none, such as for a leak. */
  readonly regarding: KubeObject | undefined
  /** The address or port, as text: with the reason and the object it says whether this was found before. */
  readonly item: string
}

/** Upstream's reasons, and the action that its events give with each; those that end with `Leaked` and those of ranges are ours. */
export const repairReasons = {
  ClusterIPNotValid: 'ClusterIPValidation',
  ClusterIPNotAllocated: 'ClusterIPAllocation',
  ClusterIPAlreadyAllocated: 'ClusterIPAllocation',
  ClusterIPOutOfRange: 'ClusterIPAllocation',
  ClusterIPLeaked: 'ClusterIPAllocation',
  IPAddressNotAllocated: 'IPAddressAllocation',
  IPAddressWrongReference: 'IPAddressAllocation',
  PortNotAllocated: 'PortAllocation',
  PortAlreadyAllocated: 'PortAllocation',
  PortOutOfRange: 'PortAllocation',
  PortLeaked: 'PortAllocation',
  ServiceRangeMismatch: 'RangeAllocation',
  ServiceRangeUnreadable: 'RangeAllocation',
} as const

export type RepairReason = keyof typeof repairReasons

/** The Service that events about a range regard: a range is no object, and this is the one that every cluster has. */
export const aboutRanges: KubeObject = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'default', name: 'kubernetes' },
}
