import type { Holder, MasterLease } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { take } from '../../../src/kubernetes-service/membership/inputs.ts'
import type {
  FleetFacts,
  LeavingStep,
  Membership,
  MembershipEffect,
  MembershipInput,
  OwnLease,
  Phase,
  ServerFacts,
} from '../../../src/kubernetes-service/membership/state.ts'
import { startMembership } from '../../../src/kubernetes-service/membership/step.ts'
import { membershipTimings } from '../../../src/kubernetes-service/membership/timings.ts'

export const timings = membershipTimings({
  leaseTtlMs: 15_000,
  reconcileIntervalMs: 10_000,
  readinessProbePeriodMs: 1_000,
})
const span = { beganMs: Date.UTC(2026, 0, 1), nowMs: Date.UTC(2026, 0, 1, 0, 10) }
/** The present, long after the start. */
export const NOW = 100_000

export function holder(number: number, more: Partial<Holder> = {}): Holder {
  return {
    instanceId: `life-${number}`,
    host: `host-${number}`,
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses: [`192.0.2.${number}`],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
    ...more,
  }
}

export const self = holder(1)
export const leaseOf = (one: Holder, more: Partial<MasterLease> = {}): MasterLease => ({
  address: one.addresses[0] ?? '',
  holder: one,
  ...more,
})
export const phases = {
  starting: { type: 'starting' },
  joining: { type: 'joining', sinceAtMs: 0 },
  listed: { type: 'listed', departure: undefined },
} as const satisfies Record<string, Phase>
export const leaving = (step: LeavingStep, more: object = {}): Phase => ({
  ...{ type: 'leaving', mode: 'withdraw', sinceAtMs: 90_000, before: 'ready', departure: 'life-1/1' },
  step,
  ...more,
})
export const lost = { type: 'lost', isNew: false } as const

export interface Facts {
  readonly phase?: Phase
  readonly self?: Holder
  readonly server?: Partial<ServerFacts>
  readonly lease?: Partial<OwnLease>
  readonly fleet?: Partial<FleetFacts>
}

/** A master, number 1: listed, with a lease that it renewed five seconds ago. */
export function master(facts: Facts = {}): Membership {
  const start = startMembership(facts.self ?? self)
  const server = { answeredAtMs: 99_000, probedAtMs: 99_000, serving: true, readySinceAtMs: 1_000 }
  return {
    ...start,
    phase: facts.phase ?? phases.listed,
    server: { ...start.server, ...server, ...facts.server },
    lease: { ...start.lease, renewedAtMs: 95_000, writtenAtMs: 95_010, ...facts.lease },
    fleet: { ...start.fleet, leases: [leaseOf(self)], readAtMs: 95_000, isReadDue: false, ...facts.fleet },
  }
}

export function after(facts: Facts | Membership, input: MembershipInput, nowMs = NOW) {
  const effects: MembershipEffect[] = []
  const before = 'departures' in facts ? facts : master(facts)
  return { state: take(before, input, { nowMs, timings, effects }), before, effects }
}

export const probed = (more: Partial<Extract<MembershipInput, { type: 'probed' }>> = {}): MembershipInput => ({
  ...{ type: 'probed', sentAtMs: 99_900, answered: true, serving: true, requested: false },
  readiness: startMembership(self).server.readiness,
  ...more,
})
export const silent = { answered: false, serving: false } as const
export const leases = (
  list: readonly MasterLease[],
  more: Partial<Extract<MembershipInput, { type: 'leases' }>> = {},
): MembershipInput => ({ type: 'leases', sentAtMs: 99_000, leases: list, span, requested: true, ...more })
export const request = (type: 'renew' | 'mark' | 'remove', more: Partial<Holder> = {}, sentAtMs = 99_500) =>
  ({ type, holder: { ...self, ...more }, sentAtMs }) as const
