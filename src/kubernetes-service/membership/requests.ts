import { type ContentionInput, contentionLimits, nextContention } from '../contention.ts'
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

/** Takes in that the own lease was taken away, made again, or left in peace. */
export function contended(
  state: Membership,
  input: ContentionInput,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const before = state.lease.contention
  const now = nextContention(before, input, nowMs, limitsOf(timings))
  if (now === before) return state
  effects.push({ type: 'tell', event: { type: 'contention', before, now, corrected: input === 'corrected' } })
  return { ...state, lease: { ...state.lease, contention: now } }
}

/** When a fight for the lease begins, and how patient one is then. */
export function limitsOf({ ttlMs }: MembershipTimings) {
  return contentionLimits(ttlMs / 3)
}

/** Names the next departure of this life. */
export function departureId({ self, departures }: Membership): string {
  return `${self.instanceId}/${departures + 1}`
}

/** Whether the own server has answered since the last renewal, and lately. */
export function isAlive({ server, lease }: Membership, nowMs: number, { answerFreshMs }: MembershipTimings): boolean {
  const { renewedAtMs = Number.NEGATIVE_INFINITY } = lease
  return server.answeredAtMs >= renewedAtMs && nowMs - server.answeredAtMs < answerFreshMs
}
