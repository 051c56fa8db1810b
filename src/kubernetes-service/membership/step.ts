import {
  type ContentionInput,
  calm,
  contentionLimits,
  correctionDueMs,
  nextContention,
  nextLookMs,
} from '../contention.ts'
import type { Holder, MasterLease } from '../leases/master-leases.ts'
import { isHeldBy, startedAfter } from '../members.ts'
import { fleetAfterRead, isConfirmed, othersReady, provedBy, unknownFleet } from './fleet.ts'
import { leavingWakesAtMs, nextLeaving } from './leaving.ts'
import { isFailing } from './readiness.ts'
import { end, probe, read, request } from './requests.ts'
import type {
  Membership,
  MembershipEffect,
  MembershipInput,
  OnShutdown,
  OwnLease,
  Phase,
  Step,
  Trust,
} from './state.ts'
import { type MembershipTimings, PATIENT_ATTEMPTS } from './timings.ts'

/** A master that has just been started. `self`: its record as it wants to be known. */
export function startMembership(self: Holder): Membership {
  return {
    phase: { type: 'starting' },
    self,
    server: {
      readiness: { phase: 'starting' },
      answeredAtMs: Number.NEGATIVE_INFINITY,
      probedAtMs: Number.NEGATIVE_INFINITY,
      serving: false,
      servingSinceAtMs: undefined,
      failsByEtcd: false,
      askedAtMs: undefined,
    },
    lease: {
      renewedAtMs: undefined,
      writtenAtMs: Number.NEGATIVE_INFINITY,
      missing: false,
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
  let state = trusting(take(before, input, nowMs, timings, effects), nowMs)
  if (state.fleet.isReadDue && state.phase.type !== 'starting' && state.phase.type !== 'out') {
    state = read(state, nowMs, timings, effects)
  }
  // One phase may lead to the next at once; no cycle of phases goes without an answer from outside.
  for (let phase: Phase | undefined; phase !== state.phase; ) {
    phase = state.phase
    state = next(state, nowMs, timings, effects)
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
    case 'clearing':
    case 'joining':
      times.push(lease.retryAtMs)
      break
    case 'listed':
      times.push(lease.retryAtMs, renewalDueAtMs(state, timings), nextLookMs(lease.contention, limitsOf(timings)))
      if (lease.trust.type === 'recovering') times.push(lease.trust.untilAtMs)
      if (fleet.departures.length > 0) times.push(confirmsFromMs(state.server, timings))
      // Whoever is not well asks its server again, also where nobody else does.
      if (state.self.state !== 'ready') times.push(nextProbeAtMs(state.server, timings))
      for (const { provedAtMs } of fleet.ended) {
        if (provedAtMs !== undefined) times.push(provedAtMs + timings.removalMarginMs)
      }
      break
    case 'leaving':
      times.push(lease.retryAtMs, ...leavingWakesAtMs(phase, fleet.readAtMs))
  }
  times.push(fleet.retryAtMs)
  return times.filter((time): time is number => time !== undefined && time > nowMs).sort((a, b) => a - b)[0]
}

/** Whether this master makes requests that belong to somebody who is listed or wants to be. */
export function isAnnounced({ phase }: Membership): boolean {
  return phase.type === 'listed'
}

/** Whether its lease has gone and is not made again yet, because somebody keeps taking it away. */
export function isHeldBack({ lease }: Membership): boolean {
  return lease.missing && lease.contention.phase === 'backing-off'
}

// ---- what is known

function take(
  state: Membership,
  input: MembershipInput,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  switch (input.type) {
    case 'probed': {
      const { server } = state
      const { sentAtMs, answered, serving, failsByEtcd = false, readiness, asked } = input
      const isNewest = sentAtMs >= server.probedAtMs
      const after = {
        ...server,
        readiness,
        answeredAtMs: answered ? nowMs : server.answeredAtMs,
        probedAtMs: Math.max(sentAtMs, server.probedAtMs),
        serving: isNewest ? serving : server.serving,
        servingSinceAtMs: !isNewest
          ? server.servingSinceAtMs
          : serving
            ? (server.servingSinceAtMs ?? sentAtMs)
            : undefined,
        failsByEtcd: isNewest ? failsByEtcd : server.failsByEtcd,
        askedAtMs: asked ? undefined : server.askedAtMs,
      }
      // A renewal has waited for it, and is tried again after a pause.
      const silent = asked && !answered && (state.phase.type === 'listed' || state.phase.type === 'joining')
      return silent
        ? { ...state, server: after, lease: unanswered(state, nowMs, timings) }
        : { ...state, server: after }
    }
    case 'leases': {
      const fleet = input.asked ? { ...state.fleet, reading: undefined } : state.fleet
      const isOutdated = fleet.readAtMs !== undefined && input.sentAtMs < fleet.readAtMs
      return isOutdated ? { ...state, fleet } : takeLeases({ ...state, fleet }, input, nowMs, timings, effects)
    }
    case 'read-failed':
      return {
        ...state,
        fleet: { ...state.fleet, reading: undefined, isReadDue: true, retryAtMs: nowMs + timings.retryMs },
      }
    case 'changed':
      return { ...state, fleet: { ...state.fleet, isReadDue: true } }
    case 'done':
      return done(state, nowMs, timings, effects)
    case 'failed':
      return failed(state, input.failure, nowMs, timings, effects)
    case 'list':
      return listEnded(state, input.outcome, nowMs, timings, effects)
    case 'timer':
      return state
    case 'stop':
      return stopping(state, input.mode, nowMs, effects)
  }
}

function takeLeases(
  state: Membership,
  input: Extract<MembershipInput, { type: 'leases' }>,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { lease, phase } = state
  const fleet = fleetAfterRead(state, input, nowMs, timings)
  const newlyEnded = fleet.ended.filter(({ sinceAtMs }) => sinceAtMs === nowMs).map((one) => one.lease.address)
  if (newlyEnded.length > 0 && lease.trust.type !== 'steady') {
    effects.push({ type: 'tell', event: { type: 'doubtful', addresses: newlyEnded } })
  }
  if (mattersForList(fleet.leases) !== mattersForList(state.fleet.leases)) effects.push({ type: 'reconcile' })
  const after = { ...state, fleet }
  const own = input.leases.find((one) => isHeldBy(one, state.self))
  switch (phase.type) {
    case 'starting':
    case 'clearing':
    case 'joining':
      return { ...after, self: startedAfter(input.leases, state.self, input.span) }
    case 'listed': {
      if (input.sentAtMs < lease.writtenAtMs || lease.request !== undefined) return after
      const { state: says, instanceId } = own?.holder ?? {}
      if (says === 'withdrawn' && instanceId === state.self.instanceId) return end(after, 'withdrawn', effects)
      const missing = own === undefined
      if (missing === lease.missing) return after
      // The store answers: after an outage nobody must find this lease gone for longer than needed.
      const retryAtMs = missing ? nowMs : lease.retryAtMs
      return contended(
        { ...after, lease: { ...lease, missing, retryAtMs } },
        missing ? 'undone' : 'right',
        nowMs,
        timings,
        effects,
      )
    }
    case 'leaving':
    case 'out':
      return after
  }
}

/** What must change for the list to be another one. */
function mattersForList(leases: readonly MasterLease[]): string {
  return JSON.stringify(
    leases
      .map(({ address, holder, doubtful }) => [
        address,
        holder?.host,
        holder?.state,
        holder?.addresses,
        holder?.ports,
        doubtful === true,
      ])
      .sort(),
  )
}

function done(state: Membership, nowMs: number, timings: MembershipTimings, effects: MembershipEffect[]): Membership {
  const { lease, fleet } = state
  const { request } = lease
  if (request === undefined) return state
  const written = { ...lease, request: undefined, failures: 0, retryAtMs: nowMs, writtenAtMs: nowMs }
  if (request.holder.state !== state.self.state) effects.push({ type: 'reconcile' })
  const after = { ...state, self: request.holder }
  switch (request.type) {
    case 'renew': {
      // Whoever joins and has found nobody has nothing to compare with: what it reads is what is there.
      const isAlone = state.phase.type === 'joining' && fleet.leases.every((one) => isHeldBy(one, state.self))
      // Whoever was frozen through an outage has seen no request fail.
      const isLate = lease.renewedAtMs !== undefined && request.sentAtMs - lease.renewedAtMs >= timings.ttlMs
      const isBack = isLate || (lease.trust.type === 'lost' && !isAlone)
      const trust: Trust = isBack
        ? { type: 'recovering', untilAtMs: nowMs + timings.recoveryMs }
        : isAlone
          ? { type: 'steady' }
          : lease.trust
      const renewed = {
        ...written,
        trust,
        renewedAtMs: request.sentAtMs,
        missing: false,
      }
      const ended = trust.type === 'steady' ? provedBy(fleet.ended, request.sentAtMs, nowMs) : fleet.ended
      const kept = { ...after, lease: renewed, fleet: { ...fleet, ended } }
      return lease.missing ? contended(kept, 'corrected', nowMs, timings, effects) : kept
    }
    case 'mark':
      if (request.holder.state === 'unready') effects.push({ type: 'tell', event: { type: 'unready' } })
      return { ...after, lease: written }
    case 'remove':
      return { ...after, lease: { ...written, renewedAtMs: undefined } }
  }
}

function failed(
  state: Membership,
  failure: 'unknown' | 'withdrawn' | 'not-found',
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { lease, phase, fleet } = state
  if (failure === 'not-found' && lease.request?.type === 'remove') return done(state, nowMs, timings, effects)
  if (failure === 'withdrawn' && phase.type !== 'leaving') {
    return end({ ...state, lease: { ...lease, request: undefined } }, 'withdrawn', effects)
  }
  if (failure === 'withdrawn' && phase.type === 'leaving') {
    // What is left of it goes without further questions.
    return { ...state, lease: { ...lease, request: undefined }, phase: { ...phase, step: { type: 'removing' } } }
  }
  if (lease.trust.type === 'steady' && fleet.ended.length > 0) {
    effects.push({ type: 'tell', event: { type: 'doubtful', addresses: fleet.ended.map((one) => one.lease.address) } })
  }
  return { ...state, lease: { ...unanswered(state, nowMs, timings), request: undefined } }
}

/** The store, or this master's own server, has not answered in time. */
function unanswered(
  { lease, phase }: Membership,
  nowMs: number,
  { retryMs, slowRetryMs }: MembershipTimings,
): OwnLease {
  const failures = lease.failures + 1
  // At the start what a lease needs, such as its namespace, is often there a moment later.
  const isStarting = phase.type === 'joining'
  const quickMs = isStarting ? Math.min(2 ** failures, slowRetryMs) : retryMs
  const pauseMs = isStarting || failures <= PATIENT_ATTEMPTS ? quickMs : slowRetryMs
  return { ...lease, failures, retryAtMs: nowMs + pauseMs, trust: { type: 'lost' } }
}

function trusting(state: Membership, nowMs: number): Membership {
  const { trust } = state.lease
  if (trust.type !== 'recovering' || nowMs < trust.untilAtMs) return state
  return { ...state, lease: { ...state.lease, trust: { type: 'steady' } } }
}

function contended(
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

function limitsOf({ ttlMs }: MembershipTimings) {
  return contentionLimits(ttlMs / 3)
}

function listEnded(
  state: Membership,
  outcome: Extract<MembershipInput, { type: 'list' }>['outcome'],
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { phase, lease } = state
  if (phase.type !== 'leaving') return state
  const { step: leaving } = phase
  if (leaving.type !== 'writing' && leaving.type !== 'listing') return state
  switch (outcome) {
    case 'written':
      return end(state, leaving.type === 'writing' ? 'left' : 'kept-the-last', effects)
    case 'conflict':
      return { ...state, phase: { ...phase, step: { type: leaving.type, sent: false } } }
    case 'refused':
      return {
        ...state,
        phase: {
          ...phase,
          step: leaving.type === 'writing' ? { type: 'returning' } : { type: 'listing', sent: false },
        },
      }
    case 'failed': {
      const later = { ...lease, retryAtMs: nowMs + timings.retryMs }
      return leaving.type === 'listing'
        ? end(state, 'kept-the-last', effects)
        : { ...state, lease: later, phase: { ...phase, step: { type: 'checking', sinceAtMs: nowMs } } }
    }
  }
}

function stopping(state: Membership, mode: OnShutdown, nowMs: number, effects: MembershipEffect[]): Membership {
  const { phase, self, fleet } = state
  switch (phase.type) {
    case 'starting':
    case 'clearing':
    case 'joining': {
      if (mode === 'keep') return end(state, 'kept', effects)
      const hasLease = state.lease.request !== undefined || fleet.leases.some((lease) => isHeldBy(lease, self))
      return hasLease ? leave(state, mode, nowMs) : end(state, 'not-listed', effects)
    }
    case 'listed':
      return mode === 'keep' ? end(state, 'kept', effects) : leave(state, mode, nowMs)
    case 'leaving':
      return state
    case 'out': {
      if (phase.why !== 'withdrawn' || mode === 'keep') return state
      const left = leave(state, mode, nowMs)
      return left.phase.type === 'leaving' ? { ...left, phase: { ...left.phase, step: { type: 'removing' } } } : left
    }
  }
}

function leave(state: Membership, mode: 'withdraw' | 'always', nowMs: number): Membership {
  const { departures, self } = state
  return {
    ...state,
    departures: departures + 1,
    phase: {
      type: 'leaving',
      mode,
      sinceAtMs: nowMs,
      step: mode === 'always' ? { type: 'removing' } : { type: 'probing', sinceAtMs: nowMs },
      before: self.state,
      departure: departureId(state),
    },
  }
}

function departureId({ self, departures }: Membership): string {
  return `${self.instanceId}/${departures + 1}`
}

// ---- what to do

function next(state: Membership, nowMs: number, timings: MembershipTimings, effects: MembershipEffect[]): Membership {
  switch (state.phase.type) {
    case 'starting':
      return nextStarting(state, nowMs, timings, effects)
    case 'clearing':
      return nextClearing(state, state.phase.departure, nowMs, timings, effects)
    case 'joining':
      return nextJoining(state, state.phase.sinceAtMs, nowMs, timings, effects)
    case 'listed':
      return nextListed(state, nowMs, timings, effects)
    case 'leaving':
      return nextLeaving(state, state.phase, nowMs, timings, effects)
    case 'out':
      return state
  }
}

function nextStarting(
  state: Membership,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { server, fleet, departures } = state
  if (server.readiness.phase !== 'starting') return { ...state, phase: { type: 'joining', sinceAtMs: nowMs } }
  // A server that has never answered may be about to: its earlier life's lease is left to its end.
  // One whose etcd alone fails may have served until now, and shares that etcd with others most of the time.
  if (!Number.isFinite(server.answeredAtMs) || server.serving || server.failsByEtcd) return state
  if (fleet.readAtMs === undefined) return read(state, nowMs, timings, effects)
  if (!hasEarlierLife(state)) return state
  return { ...state, departures: departures + 1, phase: { type: 'clearing', departure: departureId(state) } }
}

/** A record of an earlier life of this master, and of none that began later, which says that its server may serve. */
function hasEarlierLife({ fleet, self }: Membership): boolean {
  const own = fleet.leases.filter((lease) => isHeldBy(lease, self) && lease.doubtful !== true)
  return (
    own.some(({ holder }) => holder?.state !== 'unready' && holder?.state !== 'withdrawn') &&
    !own.some(({ holder }) => holder !== undefined && holder.startedAt > self.startedAt)
  )
}

/**
 * The address that an earlier life left sends clients to a server that does not serve yet. It is taken off the list as one that
 * turns unready is: in two steps, and not when nobody else serves.
 */
function nextClearing(
  state: Membership,
  departure: string,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { server, lease, self } = state
  if (lease.request !== undefined) return state
  if (server.readiness.phase !== 'starting') return { ...state, phase: { type: 'joining', sinceAtMs: nowMs } }
  if (nowMs < lease.retryAtMs || self.state === 'unready') return state
  const failing: Holder = { ...self, state: 'failing', departure, confirms: [] }
  const isSaid = self.state === 'failing' && self.departure === departure
  if (!isSaid) return request(state, 'mark', failing, nowMs, timings, effects)
  if (!isConfirmed(state, departure)) return state
  return request(state, 'mark', { ...failing, state: 'unready', departure: undefined }, nowMs, timings, effects)
}

function nextJoining(
  state: Membership,
  sinceAtMs: number,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { fleet, lease } = state
  if (lease.renewedAtMs !== undefined) {
    effects.push({ type: 'tell', event: { type: 'joined' } }, { type: 'reconcile' })
    return { ...state, phase: { type: 'listed', departure: undefined } }
  }
  if (lease.request !== undefined || nowMs < lease.retryAtMs) return state
  // Who is there already decides how this life is told from an earlier one.
  if (fleet.readAtMs === undefined || fleet.readAtMs < sinceAtMs) return read(state, nowMs, timings, effects)
  return ifAlive(state, nowMs, timings, effects, (alive) => {
    const { server, self } = alive
    // It was ready once. Whoever could not join at once may have to say something else by now.
    const says = server.serving ? 'ready' : othersReady(fleet.leases, self).length > 0 ? 'unready' : 'failing'
    const joining: Holder = { ...self, state: says, departure: undefined, confirms: [] }
    return request(alive, 'renew', joining, nowMs, timings, effects)
  })
}

function nextListed(
  before: Membership,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  let state = departing(quieted(before, nowMs, timings, effects), nowMs)
  const { lease, fleet, server } = state
  // The end of a lease is certain only if a read after the margin does not show it.
  const isProved = fleet.ended.some(
    ({ provedAtMs }) => provedAtMs !== undefined && nowMs >= provedAtMs + timings.removalMarginMs,
  )
  if (isProved && lease.trust.type === 'steady') state = read(state, nowMs, timings, effects)
  // Somebody wants to know whether this server serves.
  const isAskedAbout = fleet.departures.some(({ seenAtMs }) => server.probedAtMs < seenAtMs)
  const isOverdue = state.self.state !== 'ready' && nowMs >= nextProbeAtMs(server, timings)
  if ((isAskedAbout && state.self.state === 'ready') || isOverdue)
    state = probe(state, timings.probeTimeoutMs, nowMs, effects)

  if (lease.request !== undefined || nowMs < lease.retryAtMs) return state
  const renewing = nowMs >= renewalDueAtMs(state, timings)
  const wanted = wantedRecord(state, renewing, nowMs, timings)
  if (renewing) {
    if (isAlive(state, nowMs, timings)) return request(state, 'renew', wanted, nowMs, timings, effects)
    state = probe(state, timings.attemptMs, nowMs, effects)
    // Whoever is found dead lets its lease end, and says meanwhile that nobody may leave to it.
    if (server.serving) return state
  }
  if (lease.missing || says(wanted, state.self)) return state
  return request(state, 'mark', wanted, nowMs, timings, effects)
}

/** When the lease must be renewed: each interval, at once when it has gone, and to prove that others' leases have ended. */
function renewalDueAtMs({ lease, fleet }: Membership, timings: MembershipTimings): number {
  const { renewedAtMs = Number.NEGATIVE_INFINITY, missing, trust, contention } = lease
  if (missing) return correctionDueMs(contention, limitsOf(timings))
  const unproved = trust.type === 'steady' && fleet.ended.some(({ provedAtMs }) => provedAtMs === undefined)
  return unproved ? Number.NEGATIVE_INFINITY : renewedAtMs + timings.intervalMs
}

/** Begins or gives up this master's own departure for unreadiness. */
function departing(state: Membership, nowMs: number): Membership {
  const { phase, server, lease, departures } = state
  if (phase.type !== 'listed') return state
  // In an outage all fail, and not all can say so. Whoever spoke first after it would leave to those who could not.
  const wants = isFailing(server.readiness, nowMs) && (lease.trust.type === 'steady' || state.self.state === 'unready')
  if (wants === (phase.departure !== undefined)) return state
  if (!wants) return { ...state, phase: { ...phase, departure: undefined } }
  return { ...state, departures: departures + 1, phase: { ...phase, departure: departureId(state) } }
}

/** What this master's record should say now. */
function wantedRecord(state: Membership, renewing: boolean, nowMs: number, timings: MembershipTimings): Holder {
  const { self, server, fleet, phase, lease } = state
  const departure = phase.type === 'listed' ? phase.departure : undefined
  const isWell = server.serving && server.readiness.phase === 'ready'
  const asked = fleet.departures.filter(({ seenAtMs }) => server.probedAtMs >= seenAtMs)
  // A server that has just come back may be the first of many that failed together.
  const confirms = asked.filter(({ isStop }) => isStop || nowMs >= confirmsFromMs(server, timings)).map(({ id }) => id)
  const failing: Holder = { ...self, state: 'failing', departure, confirms: [] }
  const unready: Holder = { ...failing, state: 'unready', departure: undefined }
  if (self.state === 'unready' && !isWell) return unready
  if (departure !== undefined) {
    const isSaid = self.state === 'failing' && self.departure === departure
    return isSaid && isConfirmed(state, departure) ? unready : failing
  }
  // A lease that has ended is made anew for a server that does not serve: others that serve must not get it as company.
  if (lease.missing && !server.serving && othersReady(fleet.leases, self).length > 0) return unready
  const isAskedAbout = asked.length > 0
  if (!server.serving && (renewing || isAskedAbout)) return failing
  if (self.state === 'failing' && !isWell) return failing
  return { ...self, state: 'ready', departure: undefined, confirms: server.serving ? confirms : [] }
}

/** With the gate `startup` nobody probes at intervals; with the other one this time never comes. */
function nextProbeAtMs({ probedAtMs }: Membership['server'], timings: MembershipTimings): number {
  return probedAtMs + timings.probeTimeoutMs + 2 * timings.probePeriodMs
}

/** From when on this master confirms departures for unreadiness. */
function confirmsFromMs({ servingSinceAtMs }: Membership['server'], { confirmAfterMs }: MembershipTimings): number {
  return (servingSinceAtMs ?? Number.POSITIVE_INFINITY) + confirmAfterMs
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
function quieted(
  state: Membership,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
): Membership {
  const { contention, missing } = state.lease
  if (missing || contention.phase === 'calm') return state
  return contended(state, 'right', nowMs, timings, effects)
}

/** Goes on only if the own server lives; else asks it. */
function ifAlive(
  state: Membership,
  nowMs: number,
  timings: MembershipTimings,
  effects: MembershipEffect[],
  go: (state: Membership) => Membership,
): Membership {
  return isAlive(state, nowMs, timings) ? go(state) : probe(state, timings.attemptMs, nowMs, effects)
}

/** Whether the own server has answered since the last renewal, and lately. */
function isAlive({ server, lease }: Membership, nowMs: number, { answerFreshMs }: MembershipTimings): boolean {
  const { renewedAtMs = Number.NEGATIVE_INFINITY } = lease
  return server.answeredAtMs >= renewedAtMs && nowMs - server.answeredAtMs < answerFreshMs
}
