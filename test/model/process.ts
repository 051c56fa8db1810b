import type { Contention } from '../../src/kubernetes-service/guarded-writes/contention.ts'
import type { Holder, MasterLease } from '../../src/kubernetes-service/leases/master-leases.ts'
import type { ReadinessState } from '../../src/kubernetes-service/membership/readiness.ts'
import type { LeavingStep, Membership, Phase } from '../../src/kubernetes-service/membership/state.ts'
import { modelTimings, TICK_MS } from './machine.ts'
import { type Observer, older } from './observer.ts'

/** What has become of a request that is under way. `lost`: no answer will come, and its time limit ends it at the next tick. */
export type Underway = 'none' | 'pending' | 'delayed' | 'lost'

/** A comparison of the list with the leases, or the write of a master that leaves. `base`, `plan`: addresses as bits. */
export interface ListJob {
  readonly kind: 'reconcile' | 'leave'
  readonly stage: 'look' | 'commit'
  /** `failing`: it ends at the next tick without success. `lost`: the same, but it was carried out. */
  readonly status: 'pending' | 'delayed' | 'failing'
  readonly mayEmpty: boolean
  readonly needsOthers: boolean
  readonly base: number
  readonly plan: number
  /** Whose removal is judged: those that the planner had ever met, and that could have kept their addresses. */
  readonly met: number
  /** Somebody has written the list since `base` was read. */
  readonly stale: boolean
}

/** One sidecar: the membership, and what its runner has under way. All times are counted from the present tick. */
export interface Process {
  readonly master: number
  readonly life: number
  readonly state: Membership
  readonly lease: Underway
  readonly read: Underway
  /** The store's contents that a slow read has found already. */
  readonly found: number | undefined
  readonly list: ListJob | undefined
  /** The list is to be compared again. */
  readonly again: boolean
  /** Since when a probe of the period has had no answer. */
  readonly probingMs: number | undefined
  /** Bits of the masters that have renewed their leases since it runs. */
  readonly renewing: number
  /** Bits of those among them whose leases it has read after that, and after they were made. */
  readonly met: number
  /** Where the store ends no leases: how old they are for this sidecar. */
  readonly observer: Observer | undefined
  /** The store tells renewals apart. */
  readonly knowsRenewals: boolean
}

/** Answers within one tick are told apart by their order only. Those of the present tick begin here. */
const PRESENT_MS = 50
/** What is older does not matter any more: longer than any lease, any time-out and any recovery. */
const HORIZON_MS = 9 * TICK_MS
const LONG_AGO_MS = -HORIZON_MS

type Times = {
  /** When something happened. */
  readonly past: (atMs: number) => number
  /** When something is due, or what only whole ticks are counted of. */
  readonly whole: (atMs: number) => number
}

/** The present time of this process: later than all that it remembers. */
export function nowOf(process: Process): number {
  let latest = PRESENT_MS - 1
  mapTimes(process, {
    past: (atMs) => {
      if (atMs > latest && atMs < TICK_MS) latest = atMs
      return atMs
    },
    whole: (atMs) => atMs,
  })
  return latest + 1
}

/** The same process one tick later. */
export function aged(process: Process): Process {
  const earlier = (atMs: number): number => (Number.isFinite(atMs) ? atMs - TICK_MS : atMs)
  const { observer } = process
  return mapTimes({ ...process, observer: observer && older(observer) }, { past: earlier, whole: earlier })
}

/**
 * The one form of all processes that behave alike from now on.
 *
 * Within a tick only the order of what happened counts; what is too old, or is not looked at in this phase, is forgotten.
 */
export function canonical(process: Process): Process {
  const lean = withoutDeadTimes(process)
  const keepsBegan = comparesRenewals(lean) && !forgetsReadTime(lean)
  const stamps = new Map<number, number[]>()
  const times: Times = {
    past: (atMs) => {
      if (atMs >= LONG_AGO_MS && Number.isFinite(atMs)) {
        const tick = Math.floor(atMs / TICK_MS)
        const of = stamps.get(tick)
        if (of === undefined) stamps.set(tick, [atMs])
        else if (!of.includes(atMs)) of.push(atMs)
      }
      return atMs
    },
    whole: (atMs) => atMs,
  }
  mapTimes(lean, times, keepsBegan)
  for (const of of stamps.values()) of.sort((a, b) => a - b)
  const put: Times = {
    past: (atMs) => {
      if (!Number.isFinite(atMs)) return atMs
      if (atMs < LONG_AGO_MS) return LONG_AGO_MS
      const tick = Math.floor(atMs / TICK_MS)
      return tick * TICK_MS + (tick === 0 ? PRESENT_MS : 0) + (stamps.get(tick)?.indexOf(atMs) ?? 0)
    },
    whole: (atMs) => (Number.isFinite(atMs) ? Math.max(Math.floor(atMs / TICK_MS) * TICK_MS, LONG_AGO_MS) : atMs),
  }
  return mapTimes(lean, put, keepsBegan)
}

/** Whether the leases tell of renewals, and it matters when this sidecar began to recover. */
function comparesRenewals({ knowsRenewals, state }: Process): boolean {
  return knowsRenewals && state.lease.trust.type === 'recovering'
}

/** A master that is listed and does not read compares the time of its last read with nothing. */
function forgetsReadTime({ read, state }: Process): boolean {
  return read === 'none' && state.phase.type === 'listed'
}

/** Times that nothing will be compared with. */
function withoutDeadTimes(process: Process): Process {
  const { state } = process
  const { phase, lease, fleet, server } = state
  const isReading = process.read !== 'none'
  const now = nowOf(process)
  const { trust } = lease
  const beganMs = trust.type === 'recovering' ? trust.untilAtMs - modelTimings.recoveryMs : Number.POSITIVE_INFINITY
  const { readAtMs } = fleet
  const readSince = readAtMs !== undefined && readAtMs >= beganMs
  return {
    ...process,
    state: {
      ...state,
      self: bare(state.self),
      lease: {
        ...lease,
        writtenAtMs: isReading ? lease.writtenAtMs : Number.NEGATIVE_INFINITY,
        missedAtMs: lease.missing && server.probedAtMs < lease.missedAtMs ? lease.missedAtMs : Number.NEGATIVE_INFINITY,
        failures: Math.min(lease.failures, 3),
        // Below a tick, a pause ends with the tick.
        retryAtMs: lease.retryAtMs <= now ? LONG_AGO_MS : Math.max(lease.retryAtMs, TICK_MS),
        renewedAtMs: phase.type === 'out' ? undefined : lease.renewedAtMs,
      },
      fleet: {
        ...fleet,
        leases: process.knowsRenewals ? fleet.leases.map((one) => comparable(one, process, readSince)) : fleet.leases,
        missing: fleet.missing.map(({ lease, sinceAtMs, provedAtMs }) => ({
          lease: process.knowsRenewals ? { ...lease, renewal: BEFORE } : lease,
          sinceAtMs: provedAtMs === undefined ? sinceAtMs : LONG_AGO_MS,
          provedAtMs,
        })),
        renewed:
          trust.type === 'recovering' ? fleet.renewed.filter((name) => !name.endsWith(state.self.host)).sort() : [],
        departures: fleet.departures.map((one) =>
          one.seenAtMs <= server.probedAtMs ? { ...one, seenAtMs: LONG_AGO_MS } : one,
        ),
        readAtMs: readAtMs === undefined || !forgetsReadTime(process) ? readAtMs : forgotten(readSince, beganMs),
        retryAtMs: fleet.retryAtMs <= now ? LONG_AGO_MS : Math.max(fleet.retryAtMs, TICK_MS),
      },
    },
  }
}

/** The renewal that a read shows. {@link BEFORE}: any earlier one. {@link LONG_BEFORE}: one before the earlier one that a slow read has found. */
export const [SHOWN, BEFORE, LONG_BEFORE] = ['1', '0', '-'] as const

/**
 * A lease with its renewal, as far as a later read is compared with it: the own one never is, and none that was read before this sidecar
 * began to recover. The next renewal of a lease that has gone is another one in any case.
 */
function comparable(lease: MasterLease, { state }: Process, readSince: boolean): MasterLease {
  const { renewal, ...rest } = lease
  if (!readSince || renewal === undefined || lease.holder?.host === state.self.host) return rest
  return lease.expirySuspected === true ? { ...rest, renewal: BEFORE } : lease
}

/** Of the time of the last read nothing counts but whether it was sent since this sidecar recovers. */
function forgotten(readSince: boolean, beganMs: number): number {
  return readSince ? Math.floor(beganMs / TICK_MS) * TICK_MS : LONG_AGO_MS
}

/** A holder record without what says nothing. */
export function bare({ departure, confirms, reason: _, ...holder }: Holder): Holder {
  return {
    ...holder,
    ...(departure !== undefined && { departure }),
    ...(confirms !== undefined && confirms.length > 0 && { confirms }),
  }
}

function mapTimes(process: Process, { past, whole }: Times, keepsBegan = false): Process {
  const { state } = process
  const { server, lease, fleet } = state
  const ifAny = (atMs: number | undefined): number | undefined => (atMs === undefined ? undefined : past(atMs))
  const { request, trust } = lease
  return {
    ...process,
    probingMs: ifAny(process.probingMs),
    state: {
      phase: phaseTimes(state.phase, past, whole),
      self: state.self,
      server: {
        readiness: readinessTimes(server.readiness, whole),
        answeredAtMs: past(server.answeredAtMs),
        probedAtMs: past(server.probedAtMs),
        serving: server.serving,
        readySinceAtMs: server.readySinceAtMs === undefined ? undefined : LONG_AGO_MS,
        // Compared with nothing: the share is none here.
        failedAtMs: undefined,
        failsByEtcd: false,
        probingSinceAtMs: ifAny(server.probingSinceAtMs),
      },
      lease: {
        renewedAtMs: ifAny(lease.renewedAtMs),
        writtenAtMs: past(lease.writtenAtMs),
        missing: lease.missing,
        missedAtMs: past(lease.missedAtMs),
        outlasts: lease.outlasts,
        request:
          request === undefined
            ? undefined
            : { type: request.type, holder: bare(request.holder), sentAtMs: past(request.sentAtMs) },
        failures: lease.failures,
        retryAtMs: whole(lease.retryAtMs),
        trust:
          trust.type !== 'recovering'
            ? trust
            : {
                ...trust,
                untilAtMs: keepsBegan
                  ? past(trust.untilAtMs - modelTimings.recoveryMs) + modelTimings.recoveryMs
                  : whole(trust.untilAtMs),
              },
        contention: contentionTimes(lease.contention, whole),
      },
      fleet: {
        leases: fleet.leases,
        missing: fleet.missing.map((one) => ({
          lease: one.lease,
          sinceAtMs: past(one.sinceAtMs),
          provedAtMs: ifAny(one.provedAtMs),
        })),
        departures: fleet.departures.map((one) => ({ ...one, seenAtMs: past(one.seenAtMs) })),
        renewed: fleet.renewed,
        readAtMs: ifAny(fleet.readAtMs),
        readingSinceAtMs: ifAny(fleet.readingSinceAtMs),
        isReadDue: fleet.isReadDue,
        retryAtMs: whole(fleet.retryAtMs),
      },
      departures: state.departures,
    },
  }
}

type Map1 = (atMs: number) => number

function phaseTimes(phase: Phase, past: Map1, whole: Map1): Phase {
  switch (phase.type) {
    case 'joining':
      return { type: 'joining', sinceAtMs: past(phase.sinceAtMs) }
    case 'leaving':
      return { ...phase, sinceAtMs: past(phase.sinceAtMs), step: leavingTimes(phase.step, past, whole) }
    default:
      return phase
  }
}

function leavingTimes(step: LeavingStep, past: Map1, whole: Map1): LeavingStep {
  switch (step.type) {
    case 'probing':
    case 'checking':
      return { type: step.type, sinceAtMs: past(step.sinceAtMs) }
    case 'waiting':
      return { type: 'waiting', untilAtMs: whole(step.untilAtMs), sinceAtMs: past(step.sinceAtMs) }
    default:
      return step
  }
}

function readinessTimes(state: ReadinessState, whole: Map1): ReadinessState {
  const ifAny = (atMs: number | undefined): number | undefined => (atMs === undefined ? undefined : whole(atMs))
  switch (state.phase) {
    case 'starting':
    case 'ready':
      return { ...state, failures: Math.min(state.failures, 3), failingSinceMs: ifAny(state.failingSinceMs) }
    case 'unready':
      return {
        ...state,
        failures: Math.min(state.failures, 3),
        reason: '',
        failingSinceMs: ifAny(state.failingSinceMs),
        recoveringSinceMs: ifAny(state.recoveringSinceMs),
      }
  }
}

function contentionTimes(state: Contention, whole: Map1): Contention {
  if (state.phase === 'calm') {
    if (state.corrections.length === 0) return state
    return { phase: 'calm', corrections: state.corrections.map(whole).filter((atMs) => atMs > LONG_AGO_MS) }
  }
  const { inSyncSinceMs } = state
  return {
    ...state,
    sinceMs: whole(state.sinceMs),
    writtenMs: whole(state.writtenMs),
    corrections: Math.min(state.corrections, 11),
    inSyncSinceMs: inSyncSinceMs === undefined ? undefined : whole(inSyncSinceMs),
  }
}
