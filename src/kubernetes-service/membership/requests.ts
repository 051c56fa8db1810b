import { type ContentionInput, contentionLimits, nextContention } from '../../runtime/contention.ts'
import type { Holder } from '../leases/master-leases.ts'
import type { LeaseRequest, Membership, MembershipEffect, OutReason, OwnLease } from './state.ts'
import { confirmationAfterMs, type MembershipTimings } from './timings.ts'

/** The moment of a step. */
export interface Now {
  readonly nowMs: number
  readonly timings: MembershipTimings
}

/** One step: its moment, and the effects so far. */
export interface Turn extends Now {
  readonly effects: MembershipEffect[]
}

/** Sends a request for the own lease. */
export function request(state: Membership, type: LeaseRequest['type'], holder: Holder, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  effects.push({ type, holder, limitMs: timings.callMs })
  return { ...state, lease: { ...state.lease, request: { type, holder, sentAtMs: nowMs } } }
}

/** Asks the own server, unless an answer is awaited already. */
export function probe(state: Membership, limitMs: number, { nowMs, effects }: Turn): Membership {
  if (state.server.askedAtMs !== undefined) return state
  effects.push({ type: 'probe', limitMs })
  return { ...state, server: { ...state.server, askedAtMs: nowMs } }
}

/** Reads the leases, unless a read is under way or has just failed. */
export function read(state: Membership, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  const { fleet } = state
  if (fleet.reading !== undefined || nowMs < fleet.retryAtMs) return state
  effects.push({ type: 'read', limitMs: timings.callMs })
  return { ...state, fleet: { ...fleet, isReadDue: false, reading: { sentAtMs: nowMs } } }
}

/** Ends the membership. */
export function end(state: Membership, why: OutReason, { effects }: Turn): Membership {
  effects.push({ type: 'tell', event: { type: 'out', why } })
  return { ...state, phase: { type: 'out', why } }
}

/** Takes in that the own lease was taken away, made again, or left in peace. */
export function contended(state: Membership, input: ContentionInput, { nowMs, timings, effects }: Turn): Membership {
  const before = state.lease.contention
  const now = nextContention(before, input, nowMs, limitsOf(timings))
  if (now === before) return state
  effects.push({ type: 'tell', event: { type: 'contention', before, now, corrected: input === 'corrected' } })
  return { ...state, lease: { ...state.lease, contention: now } }
}

/** Whether the own lease lasts at `atMs` by this master's own clock, unless somebody has taken it away. */
export function wouldLast({ renewedAtMs }: OwnLease, atMs: number, { ttlMs }: MembershipTimings): boolean {
  return renewedAtMs !== undefined && atMs < renewedAtMs + ttlMs
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
export function isAlive({ server, lease }: Membership, { nowMs, timings }: Now): boolean {
  const { renewedAtMs = Number.NEGATIVE_INFINITY } = lease
  return server.answeredAtMs >= renewedAtMs && nowMs - server.answeredAtMs < timings.answerFreshMs
}

/** From when on this master confirms departures for unreadiness. */
export function confirmsFromMs(
  { readySinceAtMs, failedAtMs }: Membership['server'],
  timings: MembershipTimings,
): number {
  if (readySinceAtMs === undefined) return Number.POSITIVE_INFINITY
  const failedMs = failedAtMs === undefined ? 0 : readySinceAtMs - failedAtMs
  return readySinceAtMs + confirmationAfterMs(failedMs, timings)
}
