import type { Holder } from '../leases/master-leases.ts'
import type { LeaseRequest, Membership, MembershipEffect, OutReason } from './state.ts'
import type { MembershipTimings } from './timings.ts'

/** Sends a request for the own lease. */
export function request(
  state: Membership,
  type: LeaseRequest['type'],
  holder: Holder,
  nowMs: number,
  { callMs }: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  effects.push({ type, holder, limitMs: callMs })
  return { ...state, lease: { ...state.lease, request: { type, holder, sentAtMs: nowMs } } }
}

/** Asks the own server, unless an answer is awaited already. */
export function probe(state: Membership, limitMs: number, nowMs: number, effects: MembershipEffect[]): Membership {
  if (state.server.askedAtMs !== undefined) return state
  effects.push({ type: 'probe', limitMs })
  return { ...state, server: { ...state.server, askedAtMs: nowMs } }
}

/** Reads the leases, unless a read is under way or has just failed. */
export function read(
  state: Membership,
  nowMs: number,
  { callMs }: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { fleet } = state
  if (fleet.reading !== undefined || nowMs < fleet.retryAtMs) return state
  effects.push({ type: 'read', limitMs: callMs })
  return { ...state, fleet: { ...fleet, isReadDue: false, reading: { sentAtMs: nowMs } } }
}

/** Ends the membership. */
export function end(state: Membership, why: OutReason, effects: MembershipEffect[]): Membership {
  effects.push({ type: 'tell', event: { type: 'out', why } })
  return { ...state, phase: { type: 'out', why } }
}
