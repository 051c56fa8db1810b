import { formatDuration } from '../../documents/duration.ts'
import { type Contention, type ContentionInput, nextContention } from '../guarded-writes/contention.ts'
import type { Holder, HolderState, MasterLease } from '../leases/master-leases.ts'
import type { LifeSpan } from '../members.ts'
import type { ReadinessState } from './readiness.ts'
import { confirmationAfterMs, type MembershipTimings } from './timings.ts'

/**
 * How to handle a master's address when the program is stopped. `withdraw`: remove it, unless the master's server
 * answers and no other master serves. `always`: remove it. `keep`: leave it listed until the lease expires.
 */
export type OnShutdown = 'withdraw' | 'always' | 'keep'

/** Why a master is out. {@link outMessages} explains each reason. */
export type OutReason = 'left' | 'last-one' | 'left-listed' | 'not-listed' | 'no-answer' | 'denied' | 'withdrawn'

export const outMessages: Readonly<Record<OutReason, string>> = {
  left: 'withdrew the address',
  'last-one': 'the address stays listed: its API server still responds, and no other master is ready',
  'left-listed': 'stopped without withdrawing the address; its lease, if any, will expire',
  'not-listed': 'there is no address to withdraw: this master was not listed',
  'no-answer':
    'could not update the Endpoints: the API server does not respond; another master removes the address once the lease is gone',
  denied:
    'could not update the list: the API server refuses to write it; another master removes the address as soon as it may',
  withdrawn: 'this master was withdrawn and is not listed again until it is restarted',
}

/**
 * The phase of a master. Every field that ends in `AtMs` is a time on its monotonic clock.
 *
 * - `starting`: its API server has not been ready yet.
 * - `joining`: its server has been ready and its lease is being created, or it continues the lease of its earlier life.
 * - `listed`: it has a lease and renews it. Its record says whether its server is `ready`, `failing` or `unready`;
 *   while it is `unready`, and another master is ready, its address is not on the list.
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
 * - `waiting`: wait for another master to confirm that it serves.
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

/** A request for this master's own lease. There is at most one at a time. */
interface LeaseRequest {
  readonly type: 'renew' | 'mark' | 'remove'
  readonly holder: Holder
  readonly sentAtMs: number
}

/**
 * Whether the absence of a lease from the store proves that its master is gone.
 * - `steady`: this master's own renewals succeed.
 * - `lost`: its last renewal failed, or could not be sent because the server does not answer; or it has not joined yet,
 *   and its server or a read failed.
 * - `recovering`: a renewal has succeeded after `lost`, or so late that this master may have missed an outage. Other
 *   masters may need some time until their renewals succeed too. `isNew`: this master joined after a failure, and does
 *   not know which masters existed before.
 */
export type Trust =
  | { readonly type: 'steady' }
  | { readonly type: 'lost'; readonly isNew: boolean }
  | { readonly type: 'recovering'; readonly untilAtMs: number; readonly isNew: boolean }

export interface OwnLease {
  /** The time of sending the last successful renewal; undefined while there is no lease. */
  readonly renewedAtMs: number | undefined
  /** The time of the answer to the last write. Reads that were sent before it may not show that write. */
  readonly writtenAtMs: number
  /** Whether the last read did not show the lease. */
  readonly missing: boolean
  /** When a read last found that the lease had gone missing. */
  readonly missedAtMs: number
  /** Whether a read showed the lease after it should have expired: leases do not expire while the store is away. */
  readonly outlasts: boolean
  readonly request: LeaseRequest | undefined
  /** Failed attempts in a row. */
  readonly failures: number
  /** The next request is not sent before this time. */
  readonly retryAtMs: number
  readonly trust: Trust
  readonly contention: Contention
}

/** The results of the probes of this master's own API server. */
export interface ServerFacts {
  readonly readiness: ReadinessState
  /** The time of the server's last answer, of any kind. */
  readonly answeredAtMs: number
  /** The time of sending the last probe that has ended. */
  readonly probedAtMs: number
  /** Whether that probe found the server serving. */
  readonly serving: boolean
  /**
   * The time of the first ready answer since the last failure, not of its probe, which may have hung through an outage.
   * Undefined while the server is not ready.
   */
  readonly readySinceAtMs: number | undefined
  /**
   * When the server's last failure may have begun, moved back by the part of the earlier failure that still counts (see
   * `stillCountedMs`). Undefined before the first failure, observed or assumed.
   */
  readonly failedAtMs: number | undefined
  /** Whether the last probe that has ended found only the server's etcd failing. */
  readonly failsByEtcd: boolean
  /** When the probe that a `probe` effect requested was sent; undefined while none is running. */
  readonly probingSinceAtMs: number | undefined
}

/** A lease that an earlier read showed and the last one did not. Its address stays until the expiry is certain. */
export interface MissingLease {
  readonly lease: MasterLease
  readonly sinceAtMs: number
  /** When a renewal that this master sent after `sinceAtMs` succeeded: the store then accepted writes. */
  readonly provedAtMs: number | undefined
}

export interface AnnouncedDeparture {
  readonly id: string
  /** Whether its master was stopped; otherwise its server is not ready. */
  readonly isStop: boolean
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
  /** The time of sending the newest read; undefined before the first. */
  readonly readAtMs: number | undefined
  /** When the read that a `read` effect requested was sent; undefined while none is running. */
  readonly readingSinceAtMs: number | undefined
  /** Whether the leases may have changed since the last read was sent. */
  readonly isReadDue: boolean
  /** After a failed read the next one is not sent before this time. */
  readonly retryAtMs: number
}

export interface Membership {
  readonly phase: Phase
  /** This master's record, as last written. */
  readonly self: Holder
  readonly server: ServerFacts
  readonly lease: OwnLease
  readonly fleet: FleetFacts
  /** How many departures this master has begun so far. Their ids contain this number. */
  readonly departures: number
}

export type MembershipInput =
  /** A probe of the master's own server. `serving`: see `ReadinessMonitor`. `requested`: by a `probe` effect. */
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
  /** A watch reports that the leases may have changed. */
  | { readonly type: 'changed' }
  /** The request for the lease succeeded. */
  | { readonly type: 'done' }
  /**
   * The request failed, or its effect is unknown. `unprepared`: the store answers, but cannot hold leases yet, for
   * example because their namespace is missing. `withdrawn`: another process has withdrawn this master.
   */
  | { readonly type: 'failed'; readonly failure: 'unknown' | 'unprepared' | 'withdrawn' }
  /**
   * A `write-list` effect has ended. `refused`: no other master serves any more. `denied`: the server refuses the
   * write, perhaps until its configuration is changed.
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

/** The effects for the runner. Each except `reconcile` and `report` is answered by one input. */
export type MembershipEffect =
  | { readonly type: 'read'; readonly limitMs: number }
  | { readonly type: 'renew' | 'mark' | 'remove'; readonly holder: Holder; readonly limitMs: number }
  | { readonly type: 'probe'; readonly limitMs: number }
  /** The list may be out of sync. */
  | { readonly type: 'reconcile' }
  /**
   * Writes the list for a stopped master. `mayEmpty`: the list may become empty. `needsOthers`: only if another master
   * serves.
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

/** Sends a request for this master's own lease. Call it only while none is running. */
export function request(state: Membership, type: LeaseRequest['type'], holder: Holder, turn: Turn): Membership {
  const { nowMs, timings, effects } = turn
  effects.push({ type, holder, limitMs: timings.callMs })
  return { ...state, lease: { ...state.lease, request: { type, holder, sentAtMs: nowMs } } }
}

/** Probes this master's own server, unless a probe is running. */
export function probe(state: Membership, limitMs: number, { nowMs, effects }: Turn): Membership {
  if (state.server.probingSinceAtMs !== undefined) return state
  effects.push({ type: 'probe', limitMs })
  return { ...state, server: { ...state.server, probingSinceAtMs: nowMs } }
}

/** Reads the leases, unless a read is running or has just failed. */
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

/** The state after another client has deleted the lease, or after the lease was created again or left alone. */
export function contended(state: Membership, input: ContentionInput, { nowMs, effects }: Turn): Membership {
  const before = state.lease.contention
  const now = nextContention(before, input, nowMs)
  if (now === before) return state
  effects.push({ type: 'report', event: { type: 'contention', before, now, corrected: input === 'corrected' } })
  return { ...state, lease: { ...state.lease, contention: now } }
}

/** Whether this master's lease lasts at `atMs` by this master's clock, unless another client has deleted the lease. */
export function wouldLast({ renewedAtMs }: OwnLease, atMs: number, { ttlMs }: MembershipTimings): boolean {
  return renewedAtMs !== undefined && atMs < renewedAtMs + ttlMs
}

/**
 * Whether another client has deleted this master's lease since its API server was last probed. That client may be the
 * server itself: a kube-apiserver with its own reconciler deletes the lease when it shuts down. An earlier answer does
 * not show whether the server has shut down since.
 */
export function isTakenUnprobed({ lease, server }: Membership, { nowMs, timings }: Now): boolean {
  return lease.missing && wouldLast(lease, nowMs, timings) && server.probedAtMs < lease.missedAtMs
}

/** The id of the next departure of this life. */
export function departureId({ self, departures }: Membership): string {
  return `${self.instanceId}/${departures + 1}`
}

/** Whether this master's own server has answered since the last renewal, and recently. */
export function isAlive({ server, lease }: Membership, { nowMs, timings }: Now): boolean {
  const { renewedAtMs = Number.NEGATIVE_INFINITY } = lease
  return server.answeredAtMs >= renewedAtMs && nowMs - server.answeredAtMs < timings.answerFreshMs
}

/** When this master begins to confirm departures caused by unreadiness; infinite while its server is not ready. */
export function confirmsFromMs(server: ServerFacts, timings: MembershipTimings): number {
  const { readySinceAtMs = Number.POSITIVE_INFINITY } = server
  return readySinceAtMs + confirmationAfterMs(failedForMs(server), timings)
}

/** How long the server had failed when it became ready, in milliseconds; 0 without a failure and while it fails. */
export function failedForMs({ readySinceAtMs, failedAtMs }: ServerFacts): number {
  return readySinceAtMs === undefined || failedAtMs === undefined ? 0 : readySinceAtMs - failedAtMs
}

/**
 * The fault of a listed or withdrawn master, as one line; undefined without a fault, before the master is listed and
 * while it leaves. A lease that was not renewed for a TTL has expired for all other masters. Pure.
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
