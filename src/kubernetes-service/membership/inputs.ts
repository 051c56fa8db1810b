import type { MasterLease } from '../leases/master-leases.ts'
import { isHeldBy, isHeldByAnotherLife, startedAfter } from '../members.ts'
import { fleetAfterRead, isNewcomer, provedBy } from './fleet.ts'
import {
  contended,
  departureId,
  end,
  failedForMs,
  goOn,
  type LeavingStep,
  type Membership,
  type MembershipInput,
  type OnShutdown,
  type OwnLease,
  type ServerFacts,
  type Trust,
  type Turn,
  wouldLast,
} from './state.ts'
import { type MembershipTimings, PATIENT_ATTEMPTS, stillCountedMs } from './timings.ts'

/** The state after an input. Adds only `report` and `reconcile` to the effects of `turn`. */
export function take(state: Membership, input: MembershipInput, turn: Turn): Membership {
  const { nowMs, timings } = turn
  switch (input.type) {
    case 'probed': {
      const { server } = state
      const { sentAtMs, answered, serving, refused = false, failsByEtcd = false, readiness, requested } = input
      // An answer to an earlier probe that arrives after a later probe has timed out is more recent than that timeout.
      const isNewest = sentAtMs >= server.probedAtMs || (answered && server.answeredAtMs < server.probedAtMs)
      const after = {
        ...server,
        readiness,
        answeredAtMs: answered ? nowMs : server.answeredAtMs,
        probedAtMs: Math.max(sentAtMs, server.probedAtMs),
        ...(isNewest && { serving, failsByEtcd, ...sinceWhen(server, serving && !refused, sentAtMs, turn) }),
        probingSinceAtMs: requested ? undefined : server.probingSinceAtMs,
      }
      // A renewal may have waited for this probe. Without an answer the renewal counts as failed, unless the server has
      // answered another probe since this one was sent.
      const isSilent = requested && !answered && server.answeredAtMs < sentAtMs
      if (isSilent && (state.phase.type === 'listed' || state.phase.type === 'joining')) {
        reportSuspected(state, turn)
        return { ...state, server: after, lease: unanswered(state, turn) }
      }
      // The failure may affect several masters, whose leases may expire before this master joins.
      const isWaiting = !serving && state.phase.type === 'starting'
      return isWaiting ? newcomer({ ...state, server: after }) : { ...state, server: after }
    }
    case 'leases': {
      const fleet = input.requested ? { ...state.fleet, readingSinceAtMs: undefined } : state.fleet
      const isOutdated = fleet.readAtMs !== undefined && input.sentAtMs < fleet.readAtMs
      return isOutdated ? { ...state, fleet } : takeLeases({ ...state, fleet }, input, turn)
    }
    case 'read-failed':
      return {
        ...(state.phase.type === 'joining' ? newcomer(state) : state),
        fleet: { ...state.fleet, readingSinceAtMs: undefined, isReadDue: true, retryAtMs: nowMs + timings.retryMs },
      }
    case 'changed':
      return { ...state, fleet: { ...state.fleet, isReadDue: true } }
    case 'done':
      return done(state, turn)
    case 'failed':
      return failed(state, input.failure, turn)
    case 'list':
      return listEnded(state, input.outcome, turn)
    case 'timer':
      return state
    case 'stop':
      return stopping(state, input.mode, turn)
  }
}

/**
 * The new values of `readySinceAtMs` and `failedAtMs` after the result of a probe. A refusal to report the readiness
 * counts as not ready. A server that is no longer ready may have failed right after the previous probe, so its failure
 * begins there, moved back by the part of an earlier failure that still counts. If `unseenMs` passed between two probes
 * or during one, for example because this process was frozen, a failure in that time is assumed.
 */
function sinceWhen(
  server: ServerFacts,
  isReady: boolean,
  sentAtMs: number,
  { nowMs, timings }: Turn,
): Partial<ServerFacts> {
  const { readySinceAtMs, failedAtMs, probedAtMs } = server
  if (readySinceAtMs === undefined) return isReady ? { readySinceAtMs: nowMs } : { failedAtMs: failedAtMs ?? nowMs }
  const isUnseen = Math.max(sentAtMs - probedAtMs, nowMs - sentAtMs) >= timings.unseenMs
  if (isReady && !isUnseen) return {}
  const earlierMs = stillCountedMs(failedForMs(server), probedAtMs - readySinceAtMs)
  return { readySinceAtMs: isReady ? nowMs : undefined, failedAtMs: probedAtMs - earlierMs }
}

function takeLeases(state: Membership, input: Extract<MembershipInput, { type: 'leases' }>, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  const { lease, phase } = state
  const fleet = fleetAfterRead(state, input, nowMs, timings)
  const newlyMissing = fleet.missing.filter(({ sinceAtMs }) => sinceAtMs === nowMs).map((one) => one.lease.address)
  if (newlyMissing.length > 0 && lease.trust.type !== 'steady') {
    effects.push({ type: 'report', event: { type: 'expiry-suspected', addresses: newlyMissing } })
  }
  if (!isSameForList(fleet.leases, state.fleet.leases)) effects.push({ type: 'reconcile' })
  const after = { ...state, fleet }
  const own = input.leases.find((one) => isHeldBy(one, state.self))
  switch (phase.type) {
    case 'starting':
    case 'joining':
      return { ...after, self: startedAfter(input.leases, state.self, input.span) }
    case 'listed': {
      if (input.sentAtMs < lease.writtenAtMs || lease.request !== undefined) return after
      const { state: says, instanceId } = own?.holder ?? {}
      if (says === 'withdrawn' && instanceId === state.self.instanceId) return end(after, 'withdrawn', turn)
      const missing = own === undefined
      const outlasts = !missing && !wouldLast(lease, input.sentAtMs, timings)
      if (missing === lease.missing) return { ...after, lease: { ...lease, outlasts } }
      // The store answers, so the pause after a failure ends: after an outage the lease must soon be there again.
      const retryAtMs = missing ? nowMs : lease.retryAtMs
      const missedAtMs = missing ? nowMs : lease.missedAtMs
      const found = { ...after, lease: { ...lease, missing, missedAtMs, outlasts, retryAtMs } }
      // A lease that was not renewed in time has expired, so no other client has deleted it.
      if (missing && !wouldLast(lease, nowMs, timings)) return found
      return contended(found, missing ? 'undone' : 'in-sync', turn)
    }
    case 'leaving':
    case 'out':
      return after
  }
}

/** Whether the list is the same with both, in any order. Compares records by identity first, which is quick. */
function isSameForList(some: readonly MasterLease[], others: readonly MasterLease[]): boolean {
  const isUnchanged = (lease: MasterLease, index: number): boolean => {
    const other = others[index]
    return (
      lease.holder === other?.holder &&
      lease.address === other?.address &&
      lease.expirySuspected === other.expirySuspected &&
      lease.found === other.found
    )
  }
  if (some.length === others.length && some.every(isUnchanged)) return true
  return textForList(some) === textForList(others)
}

/** What the list depends on, as one text. The order of the leases does not change the text. */
function textForList(leases: readonly MasterLease[]): string {
  const texts = leases.map(({ address, holder, expirySuspected, found }) => {
    const isAdded = expirySuspected !== true && found !== true
    const { host, state, ports, addresses } = holder ?? {}
    return JSON.stringify([address, isAdded, host, state, ports?.securePort, ports?.nodePort, addresses])
  })
  return texts.sort().join()
}

function done(state: Membership, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  const { lease, fleet } = state
  const { request } = lease
  if (request === undefined) return state
  const written = { ...lease, request: undefined, failures: 0, retryAtMs: nowMs, writtenAtMs: nowMs }
  if (request.holder.state !== state.self.state) effects.push({ type: 'reconcile' })
  const after = { ...state, self: request.holder }
  switch (request.type) {
    case 'renew': {
      const isLate = isLateRenewal(state, request.sentAtMs, timings)
      const isBack = isLate || lease.trust.type === 'lost'
      if (isLate) reportSuspected(state, turn)
      const isNew = state.phase.type === 'joining' || isNewcomer(lease.trust)
      const trust: Trust = isBack ? { type: 'recovering', untilAtMs: nowMs + timings.recoveryMs, isNew } : lease.trust
      const renewed = { ...written, trust, renewedAtMs: request.sentAtMs, missing: false, outlasts: false }
      const missing = provedBy({ fleet, lease: { ...lease, trust } }, request.sentAtMs, nowMs)
      const listed = { ...after, lease: renewed, fleet: { ...fleet, missing, renewed: isBack ? [] : fleet.renewed } }
      if (!lease.missing) return listed
      return contended(listed, wouldLast(lease, request.sentAtMs, timings) ? 'corrected' : 'written', turn)
    }
    case 'mark':
      if (request.holder.state === 'unready' && state.self.state !== 'unready')
        effects.push({ type: 'report', event: { type: 'unready' } })
      return { ...after, lease: written }
    case 'remove':
      return { ...after, lease: { ...written, renewedAtMs: undefined } }
  }
}

/**
 * Whether this renewal was sent so late, for example because this process was frozen, that this master may have missed
 * an outage. For a listed master: `attemptMs` or more after the renewal was due. For a joining master: so long after
 * its last read that the lease of another master may have expired.
 */
function isLateRenewal({ lease, fleet }: Membership, sentAtMs: number, timings: MembershipTimings): boolean {
  const { ttlMs, intervalMs, attemptMs } = timings
  if (lease.renewedAtMs !== undefined) return sentAtMs - lease.renewedAtMs >= intervalMs + attemptMs
  return fleet.readAtMs !== undefined && sentAtMs - fleet.readAtMs >= ttlMs - intervalMs
}

function failed(state: Membership, failure: 'unknown' | 'unprepared' | 'withdrawn', turn: Turn): Membership {
  const { lease, phase } = state
  if (failure === 'withdrawn') {
    const answered = { ...state, lease: { ...lease, request: undefined } }
    // A leaving master then removes its lease without further checks, even if it is the last master.
    return phase.type === 'leaving'
      ? goOn(answered, { ...phase, mode: 'always' }, { type: 'removing' })
      : end(answered, 'withdrawn', turn)
  }
  if (failure !== 'unprepared') reportSuspected(state, turn)
  const after = { ...unanswered(state, turn), request: undefined }
  return { ...state, lease: failure === 'unprepared' ? { ...after, trust: lease.trust } : after }
}

/** Reports the missing leases: from now on this master cannot know whether their masters are gone. */
function reportSuspected({ lease, fleet }: Membership, { effects }: Turn): void {
  if (lease.trust.type !== 'steady' || fleet.missing.length === 0) return
  const addresses = fleet.missing.map((one) => one.lease.address)
  effects.push({ type: 'report', event: { type: 'expiry-suspected', addresses } })
}

/**
 * The state of this master's lease after a request for the lease has failed, or after this master's server has not
 * answered a probe before a renewal.
 */
function unanswered({ lease, phase }: Membership, { nowMs, timings }: Turn): OwnLease {
  const { retryMs, slowRetryMs } = timings
  const failures = lease.failures + 1
  const { trust } = lease
  // While this master joins, the first pauses are short, because the namespace of the Leases often appears a moment
  // later.
  const isStarting = phase.type === 'joining'
  const quickMs = isStarting ? Math.min(2 ** failures, slowRetryMs) : retryMs
  const pauseMs = isStarting || failures <= PATIENT_ATTEMPTS ? quickMs : slowRetryMs
  return {
    ...lease,
    failures,
    retryAtMs: nowMs + pauseMs,
    trust: { type: 'lost', isNew: isStarting || isNewcomer(trust) },
  }
}

/** The state after a failure while this master starts or joins: it cannot know which masters existed before. */
function newcomer(state: Membership): Membership {
  return { ...state, lease: { ...state.lease, trust: { type: 'lost', isNew: true } } }
}

function listEnded(
  state: Membership,
  outcome: Extract<MembershipInput, { type: 'list' }>['outcome'],
  turn: Turn,
): Membership {
  const { nowMs, timings } = turn
  const { phase, lease, fleet, self } = state
  if (phase.type !== 'leaving') return state
  const { step: leaving } = phase
  if (leaving.type !== 'writing' && leaving.type !== 'listing') return state
  switch (outcome) {
    case 'written': {
      // The effect `remove` does not remove the lease of another life of this master.
      const isAnotherLeft = fleet.leases.some(
        (one) => isHeldByAnotherLife(one, self) && one.holder?.state !== 'withdrawn',
      )
      return end(state, leaving.type === 'listing' ? 'last-one' : isAnotherLeft ? 'left-listed' : 'left', turn)
    }
    case 'conflict':
      return goOn(state, phase, { type: leaving.type, sent: false })
    case 'refused':
      return goOn(state, phase, leaving.type === 'writing' ? { type: 'returning' } : { type: 'listing', sent: false })
    case 'denied':
    case 'failed': {
      if (leaving.type === 'listing') return end(state, 'last-one', turn)
      // The other masters retry the write. With `always` this master retries itself, because there may be no other one.
      if (outcome === 'denied' && phase.mode === 'withdraw') return end(state, 'denied', turn)
      const later = { ...state, lease: { ...lease, retryAtMs: nowMs + timings.retryMs } }
      return goOn(later, phase, { type: 'checking', sinceAtMs: nowMs })
    }
  }
}

function stopping(state: Membership, mode: OnShutdown, turn: Turn): Membership {
  const { nowMs } = turn
  const { phase, self, fleet } = state
  switch (phase.type) {
    case 'starting':
    case 'joining':
    case 'listed': {
      if (mode === 'keep') return end(state, 'left-listed', turn)
      const mayHaveLease =
        phase.type === 'listed' ||
        state.lease.request !== undefined ||
        fleet.leases.some((lease) => isHeldBy(lease, self))
      if (mayHaveLease) return leave(state, mode, nowMs)
      // The lease of an earlier life may be live, or a renewal without an answer may have created a lease.
      const isKnown = fleet.readAtMs !== undefined && state.lease.failures === 0
      return end(state, isKnown ? 'not-listed' : 'left-listed', turn)
    }
    case 'leaving':
      return state
    case 'out':
      // The client that withdrew this master has decided that the master leaves, even if it is the last one.
      return phase.why !== 'withdrawn' || mode === 'keep' ? state : leave(state, 'always', nowMs)
  }
}

function leave(state: Membership, mode: 'withdraw' | 'always', sinceAtMs: number): Membership {
  const { departures, self } = state
  const step: LeavingStep = mode === 'always' ? { type: 'removing' } : { type: 'probing', sinceAtMs }
  const phase = { type: 'leaving', mode, sinceAtMs, step, before: self.state, departure: departureId(state) } as const
  return { ...state, departures: departures + 1, phase }
}
