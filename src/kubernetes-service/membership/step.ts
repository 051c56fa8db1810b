import { calm, correctionDueMs, nextCheckMs } from '../guarded-writes/contention.ts'
import { type Holder, OWN_ETCD } from '../leases/master-leases.ts'
import { isHeldBy, othersPerhapsReady, othersReady } from '../members.ts'
import { isConfirmed, isDecided, isProved } from './fleet.ts'
import { take } from './inputs.ts'
import { isFailing, neverReady } from './readiness.ts'
import {
  contended,
  departureId,
  end,
  goOn,
  isAlive,
  isDeletedUnprobed,
  type Leaving,
  type LeavingStep,
  leavingRecord,
  type Membership,
  type MembershipEffect,
  type MembershipInput,
  mayConfirmAtMs,
  type Now,
  type Phase,
  probe,
  read,
  request,
  type Step,
  type Turn,
} from './state.ts'
import type { MembershipTimings } from './timings.ts'

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
      probingSinceAtMs: undefined,
    },
    lease: {
      renewedAtMs: undefined,
      writtenAtMs: Number.NEGATIVE_INFINITY,
      missing: false,
      missedAtMs: Number.NEGATIVE_INFINITY,
      outlasts: false,
      request: undefined,
      failures: 0,
      retryAtMs: Number.NEGATIVE_INFINITY,
      trust: { type: 'steady' },
      contention: calm,
    },
    fleet: {
      leases: [],
      missing: [],
      departures: [],
      renewed: [],
      readAtMs: undefined,
      readingSinceAtMs: undefined,
      isReadDue: false,
      retryAtMs: 0,
    },
    departures: 0,
  }
}

/**
 * The next state of a master, and the effects to carry out. An input first changes the state; the requests then follow
 * from the whole state, not from the input. `nowMs` is on the monotonic clock. Pure: test/model explores this same
 * function.
 */
export function step(before: Membership, input: MembershipInput, nowMs: number, timings: MembershipTimings): Step {
  const effects: MembershipEffect[] = []
  const turn: Turn = { nowMs, timings, effects }
  let state = endRecovery(take(before, input, turn), turn)
  if (state.fleet.isReadDue && state.phase.type !== 'starting' && state.phase.type !== 'out') {
    state = read(state, turn)
  }
  // One phase may lead to the next at once. The loop ends, because every cycle of phases needs an answer from outside.
  for (let phase: Phase | undefined; phase !== state.phase; ) {
    phase = state.phase
    state = next(state, turn)
  }
  return { state, effects }
}

/** When the next `timer` input is due; undefined when only another input can change anything. Pure. */
export function wakeAtMs(state: Membership, nowMs: number, timings: MembershipTimings): number | undefined {
  let firstMs = Number.POSITIVE_INFINITY
  for (const time of [state.fleet.retryAtMs, ...phaseWakesAtMs(state, { nowMs, timings })]) {
    if (time !== undefined && time > nowMs && time < firstMs) firstMs = time
  }
  return Number.isFinite(firstMs) ? firstMs : undefined
}

function phaseWakesAtMs(state: Membership, now: Now): readonly (number | undefined)[] {
  const { phase, lease, fleet } = state
  switch (phase.type) {
    case 'starting':
    case 'out':
      return []
    case 'joining':
      return [lease.retryAtMs, asksAgainAtMs(state, now.timings)]
    case 'listed':
      return listedWakesAtMs(state, now)
    case 'leaving': {
      const { step } = phase
      if (step.type !== 'waiting') return [lease.retryAtMs]
      return [lease.retryAtMs, step.untilAtMs, (fleet.readAtMs ?? step.sinceAtMs) + CONFIRMATION_READ_MS]
    }
  }
}

/** Whether the lease is missing and its next creation is delayed, because another client keeps deleting it. */
export function isHeldBack({ lease }: Membership): boolean {
  return lease.missing && lease.contention.phase === 'backing-off'
}

function endRecovery(state: Membership, { nowMs, effects }: Turn): Membership {
  const { trust } = state.lease
  if (trust.type !== 'recovering' || nowMs < trust.untilAtMs) return state
  // From now on a newcomer lists no address whose lease it has not read.
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
  // A server that is silent may soon answer. Until then this master does not renew the lease of an earlier life.
  if (!answers(state)) return state
  if (state.fleet.readAtMs === undefined) return read(state, turn)
  return earlierLife(state) === undefined ? state : joining
}

/**
 * Creates the lease once the server is ready. If an earlier life of this master has a live lease, continues that lease
 * as soon as the server answers, ready or not: a restart of the sidecar alone removes no address.
 */
function nextJoining(state: Membership, sinceAtMs: number, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  const { fleet, lease, server } = state
  if (lease.renewedAtMs !== undefined) {
    effects.push({ type: 'report', event: { type: 'joined' } }, { type: 'reconcile' })
    return { ...state, phase: { type: 'listed', departure: undefined } }
  }
  if (lease.request !== undefined || nowMs < lease.retryAtMs) return state
  const isStarting = server.readiness.phase === 'starting'
  if (isStarting && !answers(state)) return { ...state, phase: { type: 'starting' } }
  // The record must state a later start than the records of earlier lives, so the leases are read first.
  if (fleet.readAtMs === undefined || fleet.readAtMs < sinceAtMs) return read(state, turn)
  const earlier = isStarting ? earlierLife(state) : undefined
  if (isStarting && earlier === undefined) return { ...state, phase: { type: 'starting' } }
  if (!isAlive(state, turn)) return probe(state, timings.attemptMs, turn)
  // The server was ready once, but may have failed before this master could join: wait until it serves again.
  if (!server.serving && earlier === undefined) {
    return nowMs < asksAgainAtMs(state, timings) ? state : probe(state, timings.attemptMs, turn)
  }
  const says = earlier?.state === 'unready' ? 'unready' : server.serving ? 'ready' : 'failing'
  return request(state, 'renew', { ...state.self, state: says, departure: undefined, confirms: [] }, turn)
}

/** When a joining master that waits for its server probes it again, even if the probe period is longer. */
function asksAgainAtMs({ server: { probedAtMs } }: Membership, { slowRetryMs }: MembershipTimings): number {
  return probedAtMs + slowRetryMs
}

/** Whether the last probe was answered. */
function answers({ server: { answeredAtMs, probedAtMs } }: Membership): boolean {
  return Number.isFinite(answeredAtMs) && answeredAtMs >= probedAtMs
}

/** The record of a live lease of an earlier life that is not withdrawn; undefined if a later life has a lease. */
function earlierLife({ fleet, self }: Membership): Holder | undefined {
  const own = fleet.leases.flatMap((lease) =>
    isHeldBy(lease, self) && lease.expirySuspected !== true ? (lease.holder ?? []) : [],
  )
  if (own.some(({ startedAt }) => startedAt > self.startedAt)) return undefined
  return own.find((holder) => holder.state !== 'withdrawn')
}

function nextListed(before: Membership, turn: Turn): Membership {
  const { nowMs, timings } = turn
  let state = updateDeparture(endContention(before, turn), nowMs)
  const { lease, fleet, server } = state
  // The expiry of a lease is certain only if a read after the margin does not show that lease.
  const isReadDue = fleet.missing.some((one) => isProved(one, nowMs, timings) && isDecided(state, one.lease))
  if (isReadDue) state = read(state, turn)
  // A departing master waits to learn whether this master's server serves.
  const isAwaited = fleet.departures.some(({ seenAtMs }) => server.probedAtMs < seenAtMs)
  const isOverdue = nowMs >= nextProbeAtMs(state, turn)
  if ((isAwaited && state.self.state === 'ready') || isOverdue) state = probe(state, timings.probeTimeoutMs, turn)

  if (lease.request !== undefined || nowMs < lease.retryAtMs) return state
  const renewing = nowMs >= renewalDueAtMs(state, timings)
  if (isDeletedUnprobed(state, turn)) return probe(state, timings.attemptMs, turn)
  // A lease puts its address on the list. So a lease that may be gone is created again only if this master's server
  // serves, or no other master is ready.
  if (isOver(state, turn) && !server.serving && othersReady(fleet.leases, state.self).length > 0) return state
  const wanted = wantedRecord(state, renewing, turn)
  if (renewing) {
    if (isAlive(state, turn)) return request(state, 'renew', wanted, turn)
    state = probe(state, timings.attemptMs, turn)
    // A master with a dead server lets its lease expire. Until then its record confirms no departure of another master.
    if (server.serving) return state
  }
  if (lease.missing || statesAll(wanted, state.self)) return state
  return request(state, 'mark', wanted, turn)
}

function listedWakesAtMs(state: Membership, now: Now): readonly (number | undefined)[] {
  const { timings } = now
  const { lease, fleet, server } = state
  return [
    lease.retryAtMs,
    renewalDueAtMs(state, timings),
    nextCheckMs(lease.contention, timings.contentionMs),
    lease.trust.type === 'recovering' ? lease.trust.untilAtMs : undefined,
    fleet.departures.length > 0 ? mayConfirmAtMs(server, timings) : undefined,
    nextProbeAtMs(state, now),
    ...fleet.missing.map(({ provedAtMs }) => provedAtMs && provedAtMs + timings.removalMarginMs),
  ]
}

/**
 * When to renew the lease: an interval after the last renewal; at once after a failure, or to prove that missing leases
 * of others have expired. If the own lease is missing: when the back-off permits its creation.
 */
function renewalDueAtMs(state: Membership, timings: MembershipTimings): number {
  const { renewedAtMs = Number.NEGATIVE_INFINITY, missing, contention, trust } = state.lease
  if (missing) return correctionDueMs(contention, timings.contentionMs)
  const unproved = state.fleet.missing.some(
    ({ lease, provedAtMs }) => provedAtMs === undefined && isDecided(state, lease),
  )
  return unproved || trust.type === 'lost' ? Number.NEGATIVE_INFINITY : renewedAtMs + timings.intervalMs
}

/** Begins this master's own departure when its server has failed for long enough; cancels it when the failure ends. */
function updateDeparture(state: Membership, nowMs: number): Membership {
  const { phase, server, departures } = state
  if (phase.type !== 'listed') return state
  const wants = isFailing(server.readiness, nowMs)
  if (wants === (phase.departure !== undefined)) return state
  if (!wants) return { ...state, phase: { ...phase, departure: undefined } }
  return { ...state, departures: departures + 1, phase: { ...phase, departure: departureId(state) } }
}

function wantedRecord(state: Membership, renewing: boolean, now: Now): Holder {
  const { nowMs, timings } = now
  const { self, server, fleet, phase } = state
  const departure = phase.type === 'listed' ? phase.departure : undefined
  const isHealthy = server.serving && server.readiness.phase === 'ready'
  const answerable = fleet.departures.filter(({ seenAtMs }) => server.probedAtMs >= seenAtMs)
  const isReady = server.readySinceAtMs !== undefined
  // A server that is back may be the first of several that failed together, so its master confirms later.
  const confirms = answerable
    .filter(({ isStop }) => isReady && (isStop || nowMs >= mayConfirmAtMs(server, timings)))
    .map(({ id }) => id)
  const failing: Holder = { ...self, state: 'failing', departure, reason: reasonOf(server), confirms: [] }
  const unready: Holder = { ...failing, state: 'unready', departure: undefined }
  if (self.state === 'unready' && !isHealthy) return unready
  if (departure !== undefined) {
    const isStated = self.state === 'failing' && self.departure === departure
    return isStated && isConfirmed(state, departure) ? unready : failing
  }
  if (!server.serving && (renewing || answerable.length > 0)) return failing
  if (self.state === 'failing' && !isHealthy) return failing
  return { ...self, state: 'ready', departure: undefined, reason: undefined, confirms }
}

function reasonOf({ failsByEtcd, readiness }: Membership['server']): string | undefined {
  if (failsByEtcd) return OWN_ETCD
  return readiness.phase === 'ready' ? undefined : readiness.reason
}

/**
 * When to probe a server that fails by its record, because the gate `startup` makes no regular probes; else infinite. A
 * master whose lease may be gone probes a failing server sooner, because it waits for the answer.
 */
function nextProbeAtMs(state: Membership, now: Now): number {
  const { timings } = now
  const { server, self } = state
  if (isOver(state, now) && !server.serving) return server.probedAtMs + timings.slowRetryMs
  if (self.state === 'ready') return Number.POSITIVE_INFINITY
  return server.probedAtMs + timings.probeTimeoutMs + 2 * timings.probePeriodMs
}

/** Whether this master's lease is missing, or may have expired. */
function isOver({ lease }: Membership, { nowMs, timings }: Now): boolean {
  const { renewedAtMs = nowMs, missing, outlasts } = lease
  return missing || (nowMs - renewedAtMs >= timings.ttlMs && !outlasts)
}

/** Whether the written record has the wanted state, departure and confirmations. More confirmations do no harm. */
function statesAll(wanted: Holder, written: Holder): boolean {
  return (
    wanted.state === written.state &&
    wanted.departure === written.departure &&
    (wanted.confirms ?? []).every((id) => written.confirms?.includes(id))
  )
}

function endContention(state: Membership, turn: Turn): Membership {
  const { contention, missing } = state.lease
  if (missing || contention.phase === 'calm') return state
  return contended(state, 'in-sync', turn)
}

/** The time between two reads of the leases while a stopped master waits, in case the watch misses a confirmation. */
const CONFIRMATION_READ_MS = 500

/**
 * The next action of a stopped master. The master announces its departure, and leaves when another master has confirmed
 * that departure: clients then still have a server that serves. A master whose server fails confirms nothing, and its
 * record states the failure. If another master is ready but does not confirm in time, the stopped master leaves all the
 * same, because its own server is about to stop. If no other master is ready, the stopped master stays listed.
 */
function nextLeaving(state: Membership, phase: Leaving, turn: Turn): Membership {
  const { nowMs, timings } = turn
  const { lease, server, fleet, self } = state
  const { step, departure } = phase
  const go = (next: LeavingStep): Membership => goOn(state, phase, next)
  const isBusy = lease.request !== undefined || nowMs < lease.retryAtMs
  switch (step.type) {
    case 'probing':
      if (server.probedAtMs < step.sinceAtMs) return probe(state, timings.probeTimeoutMs, turn)
      // A server that does not answer serves nobody.
      return go(server.answeredAtMs >= step.sinceAtMs ? { type: 'announcing' } : { type: 'removing' })
    case 'announcing': {
      if (isBusy) return state
      if (self.departure === departure) {
        return go({ type: 'waiting', sinceAtMs: nowMs, untilAtMs: nowMs + timings.awaitConfirmationMs })
      }
      // The stop may have come while a request with another state was running.
      const announcing = { ...state, phase: { ...phase, before: self.state } }
      return request(announcing, 'mark', leavingRecord(self, departure), turn)
    }
    case 'waiting': {
      const { readAtMs } = fleet
      if (readAtMs === undefined || readAtMs < step.sinceAtMs) return read(state, turn)
      if (othersPerhapsReady(fleet.leases, self).length === 0) return go({ type: 'staying' })
      if (isConfirmed(state, departure)) return go({ type: 'removing' })
      if (nowMs >= step.untilAtMs) {
        return go({ type: othersReady(fleet.leases, self).length > 0 ? 'removing' : 'staying' })
      }
      return nowMs >= readAtMs + CONFIRMATION_READ_MS ? read(state, turn) : state
    }
    case 'staying':
      if (isBusy) return state
      if (self.departure !== departure) return end(state, 'last-one', turn)
      return request(state, 'mark', asBefore(self, phase), turn)
    case 'removing':
      if (isBusy) return state
      // The store has answered a removal, so this master has no lease.
      if (lease.renewedAtMs === undefined && self.state === 'withdrawn') return go({ type: 'writing', sent: false })
      return request(state, 'remove', { ...self, state: 'withdrawn', departure, reason: undefined }, turn)
    case 'writing':
    case 'listing': {
      if (step.sent || nowMs < lease.retryAtMs) return state
      const isLeaving = step.type === 'writing'
      turn.effects.push({
        type: 'write-list',
        mayEmpty: isLeaving && phase.mode === 'always',
        needsOthers: isLeaving && phase.mode === 'withdraw' && server.answeredAtMs >= phase.sinceAtMs,
      })
      return go({ ...step, sent: true })
    }
    case 'checking':
      if (server.probedAtMs < step.sinceAtMs) return probe(state, timings.probeTimeoutMs, turn)
      if (server.answeredAtMs < step.sinceAtMs) return end(state, 'no-answer', turn)
      return go({ type: 'writing', sent: false })
    case 'returning':
      if (isBusy) return state
      if (lease.renewedAtMs !== undefined) return go({ type: 'listing', sent: false })
      return request(state, 'renew', asBefore(self, phase), turn)
  }
}

function asBefore(self: Holder, { before }: Leaving): Holder {
  return { ...self, state: before, departure: undefined, confirms: [] }
}
