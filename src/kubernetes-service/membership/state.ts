import { formatDuration } from '../../documents/duration.ts'
import { type Contention, type ContentionInput, nextContention } from '../guarded-writes/contention.ts'
import type { Holder, HolderState, MasterLease } from '../leases/master-leases.ts'
import type { LifeSpan } from '../members.ts'
import type { ReadinessState } from './readiness.ts'
import { type MembershipTimings, readyToConfirmMs } from './timings.ts'

/**
 * How to handle a master's address when the program is stopped. `withdraw`: remove it, unless the master's server
 * answers and no other master serves. `always`: remove it. `keep`: leave it listed until the lease expires.
 */
export type OnShutdown = 'withdraw' | 'always' | 'keep'

/** Why a master is out. {@link outMessages} explains each reason. */
export type OutReason = 'left' | 'last-one' | 'left-listed' | 'not-listed' | 'no-answer' | 'denied' | 'withdrawn'

export const outMessages: Readonly<Record<OutReason, string>> = {
  left: 'withdrew the address',
  'last-one': 'leaving the address on the list: its API server still responds, and no other master is ready',
  'left-listed': 'stopped without withdrawing the address; its lease, if any, will expire',
  'not-listed': 'there is no address to withdraw: this master was not listed',
  'no-answer':
    'could not update the Endpoints: the API server does not respond; the lease is removed, and another master removes the address',
  denied:
    'could not update the list: the API server refuses to write it; another master removes the address as soon as it may',
  withdrawn: 'this master was withdrawn and is not listed again until it is restarted',
}

/**
 * The phase of a master. Every field that ends in `AtMs` is a time on its monotonic clock.
 *
 * - `starting`: its API server has not been ready yet.
 * - `joining`: its server has been ready, and the master creates its lease or continues that of an earlier life.
 * - `listed`: it has created its lease and renews that lease. Its record has the state `ready`, `failing` or `unready`;
 *   while the state is `unready` and another master is ready, its address is not on the list. `departure`: the id of
 *   its own departure while its server fails.
 * - `leaving`: it was stopped. `before` is the state that its record had until then.
 * - `out`: it makes no more requests.
 */
export type Phase =
  | { readonly type: 'starting' }
  | { readonly type: 'joining'; readonly sinceAtMs: number }
  | { readonly type: 'listed'; readonly departure: string | undefined }
  | {
      readonly type: 'leaving'
      readonly mode: 'withdraw' | 'always'
      readonly step: LeavingStep
      readonly sinceAtMs: number
      readonly before: HolderState
      readonly departure: string
    }
  | { readonly type: 'out'; readonly why: OutReason }

/**
 * - `probing`: does the master's own server still answer?
 * - `announcing`: write the departure into the record.
 * - `waiting`: wait until another master confirms the departure.
 * - `staying`: no other master serves; write the former state into the record.
 * - `removing`: remove the lease.
 * - `writing`: update the list.
 * - `checking`: the list could not be written; does the master's own server still answer?
 * - `returning`: no other master serves any more; create the lease again.
 * - `listing`: the lease exists again; update the list with this master's address.
 */
export type LeavingStep =
  | { readonly type: 'probing'; readonly sinceAtMs: number }
  | { readonly type: 'announcing' }
  | { readonly type: 'waiting'; readonly untilAtMs: number; readonly sinceAtMs: number }
  | { readonly type: 'staying' }
  | { readonly type: 'removing' }
  | { readonly type: 'writing'; readonly sent: boolean }
  | { readonly type: 'checking'; readonly sinceAtMs: number }
  | { readonly type: 'returning' }
  | { readonly type: 'listing'; readonly sent: boolean }

/** A request for this master's own lease. At most one is running at a time. */
interface LeaseRequest {
  readonly type: 'renew' | 'mark' | 'remove'
  readonly holder: Holder
  readonly sentAtMs: number
}

/**
 * Whether the absence of a lease from the store proves that its master is gone.
 * - `steady`: yes, because this master's own renewals succeed.
 * - `lost`: no. The last request for this master's lease failed, or was not sent because this master's server did not
 *   answer; or, before this master was listed, its server or a read failed.
 * - `recovering`: only for a master that was seen to renew during the recovery. A renewal of this master has succeeded
 *   after `lost`, or so late that this master may have missed an outage. Other masters may need some time until their
 *   renewals succeed too. `isNew`: this master joined after a failure, and does not know which masters existed before.
 */
export type Trust =
  | { readonly type: 'steady' }
  | { readonly type: 'lost'; readonly isNew: boolean }
  | { readonly type: 'recovering'; readonly untilAtMs: number; readonly isNew: boolean }

export interface OwnLease {
  /** When the last successful renewal was sent; undefined before the first, and after the lease was removed. */
  readonly renewedAtMs: number | undefined
  /** The time of the answer to the last write. Reads that were sent before it may not show that write. */
  readonly writtenAtMs: number
  /**
   * Whether the lease is missing, by the last read or renewal. Reads that overlap a request for the lease do not count.
   */
  readonly missing: boolean
  /** When {@link missing} last became true. */
  readonly missedAtMs: number
  /** Whether the last read showed the lease although its TTL had passed: no lease expires while the store is away. */
  readonly outlasts: boolean
  readonly request: LeaseRequest | undefined
  /** How many requests for the lease, or probes before a renewal, have failed in a row. */
  readonly failures: number
  /** The next request for the lease is not sent before this time. */
  readonly retryAtMs: number
  readonly trust: Trust
  readonly contention: Contention
}

/** The results of the probes of this master's own API server. */
export interface ServerFacts {
  readonly readiness: ReadinessState
  /** The time of the server's last answer, of any kind. */
  readonly answeredAtMs: number
  /** When the latest of the probes that have ended was sent. */
  readonly probedAtMs: number
  /** Whether the server serves, by the newest result of a probe. */
  readonly serving: boolean
  /**
   * When the first ready answer since the last failure arrived; undefined while the server is not ready. Its probe may
   * have been sent earlier, and have hung through an outage.
   */
  readonly readySinceAtMs: number | undefined
  /**
   * When the server's last failure may have begun, moved back by the part of an earlier failure that still counts (see
   * `stillCountedMs`). Undefined before the first failure, observed or assumed.
   */
  readonly failedAtMs: number | undefined
  /** Whether only the server's etcd fails, by the newest result of a probe. */
  readonly failsByEtcd: boolean
  /** When the running probe that a `probe` effect requested was sent; undefined without one. */
  readonly probingSinceAtMs: number | undefined
}

/** A lease that an earlier read showed and the last read did not. Its address stays until the expiry is certain. */
export interface MissingLease {
  readonly lease: MasterLease
  /** When the first read without the lease was answered. */
  readonly sinceAtMs: number
  /** When a renewal that this master sent after `sinceAtMs` succeeded: the store then accepted writes. */
  readonly provedAtMs: number | undefined
}

export interface AnnouncedDeparture {
  readonly id: string
  /** Whether the departing master was stopped; otherwise its server fails. */
  readonly isStop: boolean
  /** When the first read that showed the departure was answered. */
  readonly seenAtMs: number
}

/** The results of the reads of the leases. */
export interface FleetFacts {
  /** The live leases; and, with a suspected expiry, those in {@link missing} and this master's own if it is missing. */
  readonly leases: readonly MasterLease[]
  readonly missing: readonly MissingLease[]
  readonly departures: readonly AnnouncedDeparture[]
  /** The names of leases that were renewed during this recovery, as reads have shown; see {@link Trust}. */
  readonly renewed: readonly string[]
  /** When the newest read that was answered was sent; undefined before the first answer. */
  readonly readAtMs: number | undefined
  /** When the running read that a `read` effect requested was sent; undefined without one. */
  readonly readingSinceAtMs: number | undefined
  /** Whether to read again: the leases may have changed since the last read was sent, or that read failed. */
  readonly isReadDue: boolean
  /** After a failed read the next one is not sent before this time. */
  readonly retryAtMs: number
}

export interface Membership {
  readonly phase: Phase
  /** This master's record as last written; before the first write, as configured. */
  readonly self: Holder
  readonly server: ServerFacts
  readonly lease: OwnLease
  readonly fleet: FleetFacts
  /** How many departures this master has begun so far. The id of each contains its number. */
  readonly departures: number
}

export type MembershipInput =
  /**
   * A probe of the master's own server has ended. `answered`: the server answered /readyz or another request.
   * `serving`: it answered /readyz, and serves as `ReadinessMonitor` defines. `requested`: by a `probe` effect.
   */
  | {
      readonly type: 'probed'
      readonly sentAtMs: number
      readonly answered: boolean
      readonly serving: boolean
      /** The server lives, but refuses to report its readiness. @default false */
      readonly refused?: boolean | undefined
      /** Only the checks of the server's etcd fail. @default false */
      readonly failsByEtcd?: boolean | undefined
      readonly readiness: ReadinessState
      readonly requested: boolean
    }
  /** The leases were read. `requested`: by a `read` effect. */
  | {
      readonly type: 'leases'
      readonly sentAtMs: number
      readonly leases: readonly MasterLease[]
      readonly span: LifeSpan
      readonly requested: boolean
    }
  | { readonly type: 'read-failed' }
  /** The leases may have changed since the last read. */
  | { readonly type: 'changed' }
  /** The running request for the lease succeeded. */
  | { readonly type: 'done' }
  /**
   * The running request for the lease failed. `unprepared`: the store answers, but cannot hold leases yet, for example
   * because their namespace is missing. `withdrawn`: another process has withdrawn this master. `unknown`: any other
   * failure; the request may have taken effect.
   */
  | { readonly type: 'failed'; readonly failure: 'unknown' | 'unprepared' | 'withdrawn' }
  /**
   * A `write-list` effect has ended. `refused`: this program did not write, because no other master serves or no
   * address would remain. `denied`: the server refuses the write, perhaps until its configuration is changed.
   */
  | { readonly type: 'list'; readonly outcome: 'written' | 'conflict' | 'failed' | 'denied' | 'refused' }
  | { readonly type: 'timer' }
  | { readonly type: 'stop'; readonly mode: OnShutdown }

export type MembershipEvent =
  | { readonly type: 'joined' }
  | { readonly type: 'unready' }
  | { readonly type: 'expiry-suspected'; readonly addresses: readonly string[] }
  | { readonly type: 'contention'; readonly before: Contention; readonly now: Contention; readonly corrected: boolean }
  | { readonly type: 'out'; readonly why: OutReason }

/** The effects for the runner, which answers each with one input, except `reconcile` and `report`. */
export type MembershipEffect =
  | { readonly type: 'read'; readonly limitMs: number }
  | { readonly type: 'renew' | 'mark' | 'remove'; readonly holder: Holder; readonly limitMs: number }
  | { readonly type: 'probe'; readonly limitMs: number }
  /** The list may be out of sync. */
  | { readonly type: 'reconcile' }
  /**
   * Writes the list for a stopped master. `mayEmpty`: the list may become empty. `needsOthers`: write only while
   * another master is ready.
   */
  | { readonly type: 'write-list'; readonly mayEmpty: boolean; readonly needsOthers: boolean }
  | { readonly type: 'report'; readonly event: MembershipEvent }

export interface Step {
  readonly state: Membership
  readonly effects: readonly MembershipEffect[]
}

export interface Now {
  readonly nowMs: number
  readonly timings: MembershipTimings
}

/** One step: its time, and the effects so far. */
export interface Turn extends Now {
  readonly effects: MembershipEffect[]
}

/** Sends a request for this master's own lease. Call this only while no other such request is running. */
export function request(state: Membership, type: LeaseRequest['type'], holder: Holder, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  effects.push({ type, holder, limitMs: timings.callMs })
  return { ...state, lease: { ...state.lease, request: { type, holder, sentAtMs: nowMs } } }
}

/** Probes this master's own server for at most `limitMs`, unless an earlier call's probe is running. */
export function probe(state: Membership, limitMs: number, { nowMs, effects }: Turn): Membership {
  if (state.server.probingSinceAtMs !== undefined) return state
  effects.push({ type: 'probe', limitMs })
  return { ...state, server: { ...state.server, probingSinceAtMs: nowMs } }
}

/** Reads the leases, unless an earlier call's read is running or has just failed. */
export function read(state: Membership, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  const { fleet } = state
  if (fleet.readingSinceAtMs !== undefined || nowMs < fleet.retryAtMs) return state
  effects.push({ type: 'read', limitMs: timings.callMs })
  return { ...state, fleet: { ...fleet, isReadDue: false, readingSinceAtMs: nowMs } }
}

export type Leaving = Extract<Phase, { readonly type: 'leaving' }>

/** The record of a stopped master. An unready one stays unready: as `leaving` its address would be listed again. */
export function leavingRecord(self: Holder, departure: string): Holder {
  const announced: Holder = { ...self, departure, confirms: [] }
  return self.state === 'unready' ? announced : { ...announced, state: 'leaving', reason: undefined }
}

export function goOn(state: Membership, phase: Leaving, step: LeavingStep): Membership {
  return { ...state, phase: { ...phase, step } }
}

export function end(state: Membership, why: OutReason, { effects }: Turn): Membership {
  effects.push({ type: 'report', event: { type: 'out', why } })
  return { ...state, phase: { type: 'out', why } }
}

/** The state after another client has deleted the lease, this master has created it again, or it was found in place. */
export function contended(state: Membership, input: ContentionInput, { nowMs, effects }: Turn): Membership {
  const before = state.lease.contention
  const now = nextContention(before, input, nowMs)
  if (now === before) return state
  effects.push({ type: 'report', event: { type: 'contention', before, now, corrected: input === 'corrected' } })
  return { ...state, lease: { ...state.lease, contention: now } }
}

/** Whether the TTL of this master's last renewal still runs at `atMs`, by its own clock; false without a renewal. */
export function wouldLast({ renewedAtMs }: OwnLease, atMs: number, { ttlMs }: MembershipTimings): boolean {
  return renewedAtMs !== undefined && atMs < renewedAtMs + ttlMs
}

/**
 * Whether another client has deleted this master's lease, and this master has not probed its API server since. That
 * client may be the server itself: a kube-apiserver with its own reconciler deletes the lease when it shuts down. An
 * earlier answer does not show whether the server has shut down since.
 */
export function isDeletedUnprobed({ lease, server }: Membership, { nowMs, timings }: Now): boolean {
  return lease.missing && wouldLast(lease, nowMs, timings) && server.probedAtMs < lease.missedAtMs
}

/** The id of the next departure of this life. */
export function departureId({ self, departures }: Membership): string {
  return `${self.instanceId}/${departures + 1}`
}

/** Whether this master's own server has answered within `answerFreshMs`, and since the last renewal was sent. */
export function isAlive({ server, lease }: Membership, { nowMs, timings }: Now): boolean {
  const { renewedAtMs = Number.NEGATIVE_INFINITY } = lease
  return server.answeredAtMs >= renewedAtMs && nowMs - server.answeredAtMs < timings.answerFreshMs
}

/** When this master begins to confirm departures of failing masters; infinite while its own server is not ready. */
export function mayConfirmAtMs(server: ServerFacts, timings: MembershipTimings): number {
  const { readySinceAtMs = Number.POSITIVE_INFINITY } = server
  return readySinceAtMs + readyToConfirmMs(failedForMs(server), timings)
}

/**
 * How long the server had failed when it became ready, in milliseconds, with the part of an earlier failure that still
 * counts; 0 without a failure and while the server is not ready.
 */
export function failedForMs({ readySinceAtMs, failedAtMs }: ServerFacts): number {
  return readySinceAtMs === undefined || failedAtMs === undefined ? 0 : readySinceAtMs - failedAtMs
}

/**
 * The fault of a master that is listed, or that another process has withdrawn, as one line; undefined without a fault
 * and in every other phase. After a TTL without a renewal, the other masters may have removed the address. Pure.
 */
export function membershipFault(
  { phase, self, lease }: Membership,
  nowMs: number,
  { ttlMs }: Pick<MembershipTimings, 'ttlMs'>,
): string | undefined {
  switch (phase.type) {
    case 'starting':
    case 'joining':
    case 'leaving':
      return undefined
    case 'listed': {
      if (lease.missing || lease.renewedAtMs === undefined) return 'the lease of this master is missing'
      const oldMs = nowMs - lease.renewedAtMs
      if (oldMs >= ttlMs) {
        return `the lease of this master was not renewed for ${formatDuration(Math.floor(oldMs / 1_000) * 1_000)}`
      }
      return self.state === 'unready' ? 'the holder record of this master has the state unready' : undefined
    }
    case 'out':
      return phase.why === 'withdrawn' ? outMessages.withdrawn : undefined
  }
}
