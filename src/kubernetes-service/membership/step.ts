import { calm } from '../../runtime/contention.ts'
import type { Holder } from '../leases/master-leases.ts'
import { isHeldBy } from '../members.ts'
import { unknownFleet } from './fleet.ts'
import { take } from './inputs.ts'
import { leavingWakesAtMs, nextLeaving } from './leaving.ts'
import { listedWakesAtMs, nextListed } from './listed.ts'
import { neverReady } from './readiness.ts'
import { isAlive, probe, read, request, type Turn } from './requests.ts'
import type { Membership, MembershipEffect, MembershipInput, Phase, Step } from './state.ts'
import type { MembershipTimings } from './timings.ts'

/** A master that has just been started. `self`: its record as it wants to be known. */
export function startMembership(self: Holder): Membership {
  return {
    phase: { type: 'starting' },
    self,
    server: {
      readiness: neverReady,
      answeredAtMs: Number.NEGATIVE_INFINITY,
      probedAtMs: Number.NEGATIVE_INFINITY,
      serving: false,
      readySinceAtMs: undefined,
      failedAtMs: undefined,
      failsByEtcd: false,
      askedAtMs: undefined,
    },
    lease: {
      renewedAtMs: undefined,
      writtenAtMs: Number.NEGATIVE_INFINITY,
      missing: false,
      outlasts: false,
      request: undefined,
      failures: 0,
      retryAtMs: Number.NEGATIVE_INFINITY,
      trust: { type: 'steady' },
      contention: calm,
    },
    fleet: unknownFleet,
    departures: 0,
  }
}

/**
 * What one master does next about its membership. No I/O, no clock: the explorer and the runner call the same function. Pure.
 *
 * An input first changes what is known; what to do then follows from all that is known, whatever came last.
 */
export function step(before: Membership, input: MembershipInput, nowMs: number, timings: MembershipTimings): Step {
  const effects: MembershipEffect[] = []
  const turn: Turn = { nowMs, timings, effects }
  let state = trusting(take(before, input, turn), turn)
  if (state.fleet.isReadDue && state.phase.type !== 'starting' && state.phase.type !== 'out') {
    state = read(state, turn)
  }
  // One phase may lead to the next at once; no cycle of phases goes without an answer from outside.
  for (let phase: Phase | undefined; phase !== state.phase; ) {
    phase = state.phase
    state = next(state, turn)
  }
  return { state, effects }
}

/** When the next `timer` input is due; undefined when only something else can bring news. Pure. */
export function wakeAtMs(state: Membership, nowMs: number, timings: MembershipTimings): number | undefined {
  const { phase, lease, fleet } = state
  const times: (number | undefined)[] = []
  switch (phase.type) {
    case 'starting':
    case 'out':
      break
    case 'joining':
      times.push(lease.retryAtMs, asksAgainAtMs(state, timings))
      break
    case 'listed':
      times.push(...listedWakesAtMs(state, { nowMs, timings }))
      break
    case 'leaving':
      times.push(lease.retryAtMs, ...leavingWakesAtMs(phase, fleet.readAtMs))
  }
  times.push(fleet.retryAtMs)
  return times
    .filter((time): time is number => time !== undefined && time > nowMs && Number.isFinite(time))
    .sort((a, b) => a - b)[0]
}

/** Whether its lease has gone and is not made again yet, because somebody keeps taking it away. */
export function isHeldBack({ lease }: Membership): boolean {
  return lease.missing && lease.contention.phase === 'backing-off'
}

function trusting(state: Membership, { nowMs, effects }: Turn): Membership {
  const { trust } = state.lease
  if (trust.type !== 'recovering' || nowMs < trust.untilAtMs) return state
  // Those that nobody has renewed go.
  if (trust.isNew) effects.push({ type: 'reconcile' })
  return { ...state, lease: { ...state.lease, trust: { type: 'steady' } } }
}

function next(state: Membership, turn: Turn): Membership {
  switch (state.phase.type) {
    case 'starting':
      return nextStarting(state, turn)
    case 'joining':
      return nextJoining(state, state.phase.sinceAtMs, turn)
    case 'listed':
      return nextListed(state, turn)
    case 'leaving':
      return nextLeaving(state, state.phase, turn)
    case 'out':
      return state
  }
}

function nextStarting(state: Membership, turn: Turn): Membership {
  const joining: Membership = { ...state, phase: { type: 'joining', sinceAtMs: turn.nowMs } }
  if (state.server.readiness.phase !== 'starting') return joining
  // A server that does not answer may be about to: its earlier life's lease is left to its end.
  if (!answers(state)) return state
  if (state.fleet.readAtMs === undefined) return read(state, turn)
  return earlierLife(state) === undefined ? state : joining
}

/**
 * Makes the lease of a server that is ready, or goes on with that of an earlier life: a restart of the sidecar alone costs no address,
 * whatever its server says of itself. From then on it fares as any listed one, so it leaves in two steps, and not when nobody else serves.
 */
function nextJoining(state: Membership, sinceAtMs: number, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  const { fleet, lease, server } = state
  if (lease.renewedAtMs !== undefined) {
    effects.push({ type: 'tell', event: { type: 'joined' } }, { type: 'reconcile' })
    return { ...state, phase: { type: 'listed', departure: undefined } }
  }
  if (lease.request !== undefined || nowMs < lease.retryAtMs) return state
  const isStarting = server.readiness.phase === 'starting'
  if (isStarting && !answers(state)) return { ...state, phase: { type: 'starting' } }
  // Who is there already decides how this life is told from an earlier one.
  if (fleet.readAtMs === undefined || fleet.readAtMs < sinceAtMs) return read(state, turn)
  const earlier = isStarting ? earlierLife(state) : undefined
  if (isStarting && earlier === undefined) return { ...state, phase: { type: 'starting' } }
  if (!isAlive(state, turn)) return probe(state, timings.attemptMs, turn)
  // It was ready once. Whoever could not join at once may have to wait until it is again.
  if (!server.serving && earlier === undefined) {
    return nowMs < asksAgainAtMs(state, timings) ? state : probe(state, timings.attemptMs, turn)
  }
  const says = earlier?.state === 'unready' ? 'unready' : server.serving ? 'ready' : 'failing'
  return request(state, 'renew', { ...state.self, state: says, departure: undefined, confirms: [] }, turn)
}

/** When a master that waits for its server asks it again, however seldom it is probed. */
function asksAgainAtMs({ server: { probedAtMs } }: Membership, { slowRetryMs }: MembershipTimings): number {
  return probedAtMs + slowRetryMs
}

/** Whether the last probe was answered. */
function answers({ server: { answeredAtMs, probedAtMs } }: Membership): boolean {
  return Number.isFinite(answeredAtMs) && answeredAtMs >= probedAtMs
}

/** The record of an earlier life of this master whose lease lives, unless one has begun later. */
function earlierLife({ fleet, self }: Membership): Holder | undefined {
  const own = fleet.leases.flatMap((lease) =>
    isHeldBy(lease, self) && lease.doubtful !== true ? (lease.holder ?? []) : [],
  )
  if (own.some(({ startedAt }) => startedAt > self.startedAt)) return undefined
  return own.find((holder) => holder.state !== 'withdrawn')
}
