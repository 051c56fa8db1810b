import { correctionDueMs, nextLookMs } from '../../runtime/contention.ts'
import { type Holder, OWN_ETCD } from '../leases/master-leases.ts'
import { othersReady } from '../members.ts'
import { isConfirmed, isJudged, isProved } from './fleet.ts'
import { isFailing } from './readiness.ts'
import {
  confirmsFromMs,
  contended,
  departureId,
  isAlive,
  limitsOf,
  type Now,
  probe,
  read,
  request,
  type Turn,
} from './requests.ts'
import type { Membership } from './state.ts'
import type { MembershipTimings } from './timings.ts'

/** What a master that keeps its lease does next: renew, say how its server is, prove that others are gone. Pure. */
export function nextListed(before: Membership, turn: Turn): Membership {
  const { nowMs, timings } = turn
  let state = departing(quieted(before, turn), nowMs)
  const { lease, fleet, server } = state
  // The end of a lease is certain only if a read after the margin does not show it.
  const isReadDue = fleet.ended.some((one) => isProved(one, nowMs, timings) && isJudged(state, one.lease))
  if (isReadDue) state = read(state, turn)
  // Somebody wants to know whether this server serves.
  const isAskedAbout = fleet.departures.some(({ seenAtMs }) => server.probedAtMs < seenAtMs)
  const isOverdue = nowMs >= nextProbeAtMs(state, turn)
  if ((isAskedAbout && state.self.state === 'ready') || isOverdue) state = probe(state, timings.probeTimeoutMs, turn)

  if (lease.request !== undefined || nowMs < lease.retryAtMs) return state
  const renewing = nowMs >= renewalDueAtMs(state, timings)
  // A lease that has ended is made anew only for a server that serves, or where none does: it would come on the list by it.
  if (isOver(state, turn) && !server.serving && othersReady(fleet.leases, state.self).length > 0) return state
  const wanted = wantedRecord(state, renewing, turn)
  if (renewing) {
    if (isAlive(state, turn)) return request(state, 'renew', wanted, turn)
    state = probe(state, timings.attemptMs, turn)
    // Whoever is found dead lets its lease end, and says meanwhile that nobody may leave to it.
    if (server.serving) return state
  }
  if (lease.missing || says(wanted, state.self)) return state
  return request(state, 'mark', wanted, turn)
}

/** When a listed master has something to do though nothing happens. Pure. */
export function listedWakesAtMs(state: Membership, now: Now): readonly (number | undefined)[] {
  const { timings } = now
  const { lease, fleet, server } = state
  return [
    lease.retryAtMs,
    renewalDueAtMs(state, timings),
    nextLookMs(lease.contention, limitsOf(timings)),
    lease.trust.type === 'recovering' ? lease.trust.untilAtMs : undefined,
    fleet.departures.length > 0 ? confirmsFromMs(server, timings) : undefined,
    nextProbeAtMs(state, now),
    ...fleet.ended.map(({ provedAtMs }) => provedAtMs && provedAtMs + timings.removalMarginMs),
  ]
}

/** When the lease must be renewed: each interval, at once when it has gone or a renewal has failed, and to prove that others' leases have ended. */
function renewalDueAtMs(state: Membership, timings: MembershipTimings): number {
  const { renewedAtMs = Number.NEGATIVE_INFINITY, missing, contention, trust } = state.lease
  if (missing) return correctionDueMs(contention, limitsOf(timings))
  const unproved = state.fleet.ended.some(({ lease, provedAtMs }) => provedAtMs === undefined && isJudged(state, lease))
  return unproved || trust.type === 'lost' ? Number.NEGATIVE_INFINITY : renewedAtMs + timings.intervalMs
}

/** Begins or gives up this master's own departure for unreadiness. */
function departing(state: Membership, nowMs: number): Membership {
  const { phase, server, departures } = state
  if (phase.type !== 'listed') return state
  const wants = isFailing(server.readiness, nowMs)
  if (wants === (phase.departure !== undefined)) return state
  if (!wants) return { ...state, phase: { ...phase, departure: undefined } }
  return { ...state, departures: departures + 1, phase: { ...phase, departure: departureId(state) } }
}

/** What this master's record should say now. */
function wantedRecord(state: Membership, renewing: boolean, now: Now): Holder {
  const { nowMs, timings } = now
  const { self, server, fleet, phase } = state
  const departure = phase.type === 'listed' ? phase.departure : undefined
  const isWell = server.serving && server.readiness.phase === 'ready'
  const asked = fleet.departures.filter(({ seenAtMs }) => server.probedAtMs >= seenAtMs)
  const isReady = server.readySinceAtMs !== undefined
  // A server that has just come back may be the first of many that failed together.
  const confirms = asked
    .filter(({ isStop }) => isReady && (isStop || nowMs >= confirmsFromMs(server, timings)))
    .map(({ id }) => id)
  const failing: Holder = { ...self, state: 'failing', departure, reason: reasonOf(server), confirms: [] }
  const unready: Holder = { ...failing, state: 'unready', departure: undefined }
  if (self.state === 'unready' && !isWell) return unready
  if (departure !== undefined) {
    const isSaid = self.state === 'failing' && self.departure === departure
    return isSaid && isConfirmed(state, departure) ? unready : failing
  }
  const isAskedAbout = asked.length > 0
  if (!server.serving && (renewing || isAskedAbout)) return failing
  if (self.state === 'failing' && !isWell) return failing
  return { ...self, state: 'ready', departure: undefined, reason: undefined, confirms }
}

/** Why the own server does not serve, for the others. */
function reasonOf({ failsByEtcd, readiness }: Membership['server']): string | undefined {
  if (failsByEtcd) return OWN_ETCD
  return readiness.phase === 'ready' ? undefined : readiness.reason
}

/**
 * When a master that is not well asks its server again, also where nobody else does: with the gate `startup` nobody probes at intervals.
 * One without a lease waits for that answer, and asks sooner.
 */
function nextProbeAtMs(state: Membership, now: Now): number {
  const { timings } = now
  const { server, self } = state
  if (isOver(state, now) && !server.serving) return server.probedAtMs + timings.slowRetryMs
  if (self.state === 'ready') return Number.POSITIVE_INFINITY
  return server.probedAtMs + timings.probeTimeoutMs + 2 * timings.probePeriodMs
}

/** Whether its lease has ended, or may have. */
function isOver({ lease }: Membership, { nowMs, timings }: Now): boolean {
  const { renewedAtMs = nowMs, missing, outlasts } = lease
  return missing || (nowMs - renewedAtMs >= timings.ttlMs && !outlasts)
}

/** Whether the written record says all that it should; more confirmations than are asked for do no harm. */
function says(wanted: Holder, written: Holder): boolean {
  return (
    wanted.state === written.state &&
    wanted.departure === written.departure &&
    (wanted.confirms ?? []).every((id) => written.confirms?.includes(id))
  )
}

/** A fight for the lease is over when nobody has taken it away for a while. */
function quieted(state: Membership, turn: Turn): Membership {
  const { contention, missing } = state.lease
  if (missing || contention.phase === 'calm') return state
  return contended(state, 'right', turn)
}
