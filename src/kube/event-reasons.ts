import type { EventToRecord } from './event-object.ts'

/** What an event of a reason always is. docs/events.md has what it means and what to do. */
interface EventKind {
  readonly type: EventToRecord['type']
  readonly action: string
}

/** Every reason that this program gives in events, but for the one that a ServiceCIDR itself names for not being ready. */
export const eventReasons = {
  MasterListed: { type: 'Normal', action: 'Reconcile' },
  MasterRemoved: { type: 'Normal', action: 'Reconcile' },
  LeaseTakenOver: { type: 'Normal', action: 'Announce' },
  MasterWithdrawn: { type: 'Normal', action: 'Withdraw' },
  MasterEvicted: { type: 'Normal', action: 'Evict' },
  KubernetesServiceReset: { type: 'Normal', action: 'Reset' },
  ForeignOverwrite: { type: 'Warning', action: 'BackOff' },
  LeaseContested: { type: 'Warning', action: 'BackOff' },
  OtherReconcilerActive: { type: 'Warning', action: 'Reset' },
  DutyDegraded: { type: 'Warning', action: 'Retry' },
  OtherLeaseStore: { type: 'Warning', action: 'Reset' },
  ReadinessRefused: { type: 'Warning', action: 'Probe' },
  ServiceRangeAdopted: { type: 'Normal', action: 'RangeAllocation' },
  KubernetesDefaultServiceCIDRError: { type: 'Warning', action: 'DefaultServiceCIDR' },
  KubernetesDefaultServiceCIDRInconsistent: { type: 'Warning', action: 'DefaultServiceCIDR' },
  FailedToCreateEndpoint: { type: 'Warning', action: 'Sync' },
  FailedToUpdateEndpoint: { type: 'Warning', action: 'Sync' },
  FailedToUpdateEndpointSlices: { type: 'Warning', action: 'Sync' },
  TopologyAwareHintsEnabled: { type: 'Normal', action: 'Sync' },
  TopologyAwareHintsDisabled: { type: 'Warning', action: 'Sync' },
  InvalidIPAddress: { type: 'Warning', action: 'Mirror' },
  TooManyAddressesToMirror: { type: 'Warning', action: 'Mirror' },
} as const satisfies Readonly<Record<string, EventKind>>

export type EventReason = keyof typeof eventReasons

/** An event of one of the reasons of this program. */
export function eventOf(
  reason: EventReason,
  event: Pick<EventToRecord, 'regarding' | 'related' | 'note'>,
): EventToRecord {
  return { ...event, ...eventReasons[reason], reason }
}
