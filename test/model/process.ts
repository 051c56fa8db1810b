import type { Contention } from '../../src/kubernetes-service/guarded-writes/contention.ts'
import type { Holder, MasterLease } from '../../src/kubernetes-service/leases/master-leases.ts'
import type { ReadinessState } from '../../src/kubernetes-service/membership/readiness.ts'
import type { LeavingStep, Membership, Phase } from '../../src/kubernetes-service/membership/state.ts'
import { modelTimings, TICK_MS } from './machine.ts'
import { type Observer, older } from './observer.ts'

/** The state of a request. `lost`: no answer comes, and the request times out at the next tick. */
export type Underway = 'none' | 'pending' | 'delayed' | 'lost'

/**
 * A comparison of the list with the leases, or the write of a master that leaves. `base` and `plan` are bits of
 * addresses.
 */
export interface ListJob {
  readonly kind: 'reconcile' | 'leave'
  readonly stage: 'read' | 'commit'
  /** `failing`: it fails at the next tick, although its write may have been executed. */
  readonly status: 'pending' | 'delayed' | 'failing'
  readonly mayEmpty: boolean
  readonly needsOthers: boolean
  readonly base: number
  readonly plan: number
  /**
   * Bits of the masters whose removal is judged: those that the planner had met and that could keep their addresses.
   */
  readonly met: number
  /** Whether the list was written since `base` was read. */
  readonly stale: boolean
}

/** One sidecar: its membership and the running requests of its runner. All times are relative to the current tick. */
export interface Process {
  readonly master: number
  readonly life: number
  readonly state: Membership
  readonly lease: Underway
  readonly read: Underway
  /** The view of the store that a slow read has already taken. */
  readonly found: number | undefined
  readonly list: ListJob | undefined
  /** Whether the list must be compared again. */
  readonly again: boolean
  /** When the periodic probe that has no answer yet was sent. */
  readonly probingMs: number | undefined
  /** Bits of the masters that have renewed their leases since this sidecar started. */
  readonly renewing: number
  /**
   * Bits of those among them whose leases this sidecar has read after such a renewal, and since the lease was created.
   */
  readonly met: number
  /** If the store does not expire leases: what this sidecar has observed of their age. */
  readonly observer: Observer | undefined
  /** Whether reads distinguish renewals. */
  readonly knowsRenewals: boolean
}

/** Within a tick, times only order the answers. Those of the current tick begin here. */
const PRESENT_MS = 50
/** Older times do not matter: this is longer than any lease, time limit or recovery. */
const HORIZON_MS = 9 * TICK_MS
const LONG_AGO_MS = -HORIZON_MS

type Times = {
  /** When something happened. */
  readonly past: (atMs: number) => number
  /** When something is due, or a time that only counts in whole ticks. */
  readonly whole: (atMs: number) => number
}

/** The current time of this process: later than all times that it remembers. */
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
 * The same form for all processes that behave alike from now on.
 *
 * Within a tick only the order of events counts. Times that are too old, or that this phase does not read, are dropped.
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

/** Whether the leases show renewals and this sidecar compares them with the time when it began to recover. */
function comparesRenewals({ knowsRenewals, state }: Process): boolean {
  return knowsRenewals && state.lease.trust.type === 'recovering'
}

/** Whether the time of the last read no longer counts: the master is listed, and no read is running. */
function forgetsReadTime({ read, state }: Process): boolean {
  return read === 'none' && state.phase.type === 'listed'
}

/** Resets the times that nothing will be compared with. */
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
        // A pause shorter than a tick ends with the tick.
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

/**
 * The renewal that a read shows. {@link BEFORE}: any earlier one. {@link LONG_BEFORE}: one before the earlier one that
 * a slow read has found.
 */
export const [SHOWN, BEFORE, LONG_BEFORE] = ['1', '0', '-'] as const

/**
 * The lease, with its renewal only if a later read is compared with it. This sidecar's own lease never is, nor is a
 * lease that was read before the sidecar began to recover. The next renewal of a missing lease differs in any case.
 */
function comparable(lease: MasterLease, { state }: Process, readSince: boolean): MasterLease {
  const { renewal, ...rest } = lease
  if (!readSince || renewal === undefined || lease.holder?.host === state.self.host) return rest
  return lease.expirySuspected === true ? { ...rest, renewal: BEFORE } : lease
}

/** The time of the last read, reduced to whether the read was sent since this sidecar began to recover. */
function forgotten(readSince: boolean, beganMs: number): number {
  return readSince ? Math.floor(beganMs / TICK_MS) * TICK_MS : LONG_AGO_MS
}

/** A holder record without empty fields and without the reason. */
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
        // Compared with nothing, because `confirmShare` is 0 here.
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
