import type { Contention } from '../../runtime/contention.ts'
import type { Holder, HolderState, MasterLease } from '../leases/master-leases.ts'
import type { LifeSpan } from '../members.ts'
import type { ReadinessState } from './readiness.ts'

/** What becomes of a master's address when the program is told to stop. */
export type OnShutdown = 'withdraw' | 'always' | 'keep'

/** Why a master is out. */
export type OutReason =
  /** It has taken its address out. */
  | 'left'
  /** Its server still answers and no other one serves: the address stays until the lease ends. */
  | 'kept-the-last'
  /** It was told to leave the address to its lease. */
  | 'kept'
  /** It had no lease. */
  | 'not-listed'
  /** Its server does not answer, so the list could not be written. The lease is gone, or ends by itself. */
  | 'no-answer'
  /** Somebody else has withdrawn it. */
  | 'withdrawn'

/**
 * Where a master is between its start and its end. Every field that ends in `AtMs` is a time on its monotonic clock.
 *
 * - `starting`: its API server has not been ready yet.
 * - `joining`: the server is ready and the lease is being made; or an earlier life of this master has one, which it goes on with.
 * - `listed`: it keeps its lease. Whether it says `ready`, `failing` or `unready` is in its record.
 * - `leaving`: it was told to stop. `before` is what its record said.
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
 * - `probing`: does the own server still answer?
 * - `announcing`: the record is to say `leaving`.
 * - `waiting`: for another master to confirm that it serves.
 * - `staying`: nobody else serves; the record is to say what it said before.
 * - `removing`: the lease is to go.
 * - `writing`: the list is to follow.
 * - `checking`: the list could not be written; does the own server still answer?
 * - `returning`: whoever served has gone meanwhile; the lease is to be made again.
 * - `listing`: the list is to follow that.
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
export interface LeaseRequest {
  readonly type: 'renew' | 'mark' | 'remove'
  /** The record as it is to be. */
  readonly holder: Holder
  readonly sentAtMs: number
}

/**
 * Whether what this master finds in the store may be believed.
 * - `steady`: its own renewals succeed.
 * - `lost`: the last one failed, or could not be made because its server does not answer.
 * - `recovering`: one has succeeded after that; others may need some time for the same, until they are seen to renew too. `isNew`: it joins, so that it does not even know
 *   who was there before.
 */
export type Trust =
  | { readonly type: 'steady' }
  | { readonly type: 'lost'; readonly isNew: boolean }
  | { readonly type: 'recovering'; readonly untilAtMs: number; readonly isNew: boolean }

/** This master's own lease. */
export interface OwnLease {
  /** When the last successful renewal was sent; undefined while there is no lease. */
  readonly renewedAtMs: number | undefined
  /** When the last write to it was answered. Older reads say nothing of it. */
  readonly writtenAtMs: number
  /** A read has shown that it has gone. */
  readonly missing: boolean
  /** A read has shown it later than it would have ended by this master's clock: leases do not end while the store is away. */
  readonly outlasts: boolean
  readonly request: LeaseRequest | undefined
  /** Failed attempts in a row. */
  readonly failures: number
  /** Not before then is the next request sent. */
  readonly retryAtMs: number
  readonly trust: Trust
  /** Whether somebody takes it away again and again. */
  readonly contention: Contention
}

/** What probes told of this master's own API server. */
export interface ServerFacts {
  readonly readiness: ReadinessState
  /** When it last answered, whatever it said. */
  readonly answeredAtMs: number
  /** When the last probe was sent that has ended. */
  readonly probedAtMs: number
  /** Whether that one found it serving. */
  readonly serving: boolean
  /** When it first answered that it is ready, without another answer since: a probe may have hung through an outage before. */
  readonly readySinceAtMs: number | undefined
  /** When it was first found not ready, after it had been; undefined before that. */
  readonly failedAtMs: number | undefined
  /** Whether that one found nothing failing but its etcd. */
  readonly failsByEtcd: boolean
  /** When a probe was asked for here that has not ended. */
  readonly askedAtMs: number | undefined
}

/** A master whose lease is not in the store any more. Its address keeps its place until that is certain. */
export interface EndedLease {
  readonly lease: MasterLease
  readonly sinceAtMs: number
  /** When a renewal of this master's own lease, sent after that, succeeded: so the store takes writes. */
  readonly provedAtMs: number | undefined
}

/** A departure that another master has announced. */
export interface AnnouncedDeparture {
  readonly id: string
  /** Its master was told to stop; otherwise its server is not ready. */
  readonly isStop: boolean
  readonly seenAtMs: number
}

/** What reads of the leases told. */
export interface FleetFacts {
  /** The live leases, and those of {@link ended} marked as doubtful. */
  readonly leases: readonly MasterLease[]
  readonly ended: readonly EndedLease[]
  readonly departures: readonly AnnouncedDeparture[]
  /** The leases that reads have shown renewed while this master recovers; see {@link Trust}. */
  readonly renewed: readonly string[]
  /** When the newest read was sent; undefined before the first. */
  readonly readAtMs: number | undefined
  /** A read that was asked for here and has not ended. */
  readonly reading: { readonly sentAtMs: number } | undefined
  /** The leases may have changed since the last read was sent. */
  readonly isReadDue: boolean
  /** Not before then is another one sent after a failed one. */
  readonly retryAtMs: number
}

/** All that one master knows and means to do about its membership. Plain data. */
export interface Membership {
  readonly phase: Phase
  /** This master's record, as it was written last. */
  readonly self: Holder
  readonly server: ServerFacts
  readonly lease: OwnLease
  readonly fleet: FleetFacts
  /** Departures announced so far; makes their ids. */
  readonly departures: number
}

/** What a master learns. */
export type MembershipInput =
  /** A probe of the own server has ended. `serving`: see `isServing`. `asked`: it was sent for a `probe` effect. */
  | {
      readonly type: 'probed'
      readonly sentAtMs: number
      readonly answered: boolean
      readonly serving: boolean
      /** It lives, and refuses to say whether it is ready. @default false */
      readonly refused?: boolean | undefined
      /** Only the checks of its etcd fail. @default false */
      readonly failsByEtcd?: boolean | undefined
      readonly readiness: ReadinessState
      readonly asked: boolean
    }
  /** The leases were read. `asked`: for a `read` effect. */
  | {
      readonly type: 'leases'
      readonly sentAtMs: number
      readonly leases: readonly MasterLease[]
      readonly span: LifeSpan
      readonly asked: boolean
    }
  /** A read that was asked for has failed. */
  | { readonly type: 'read-failed' }
  /** A watch says that the leases may have changed. */
  | { readonly type: 'changed' }
  /** The request for the lease was carried out. */
  | { readonly type: 'done' }
  /**
   * It was not, or nobody knows. `unprepared`: the store answers, and has no place for leases yet, such as their namespace; `not-found`:
   * there was no lease to remove.
   */
  | { readonly type: 'failed'; readonly failure: 'unknown' | 'unprepared' | 'withdrawn' | 'not-found' }
  /** A `write-list` effect has ended. `refused`: nobody else serves any more. */
  | { readonly type: 'list'; readonly outcome: 'written' | 'conflict' | 'failed' | 'refused' }
  | { readonly type: 'timer' }
  | { readonly type: 'stop'; readonly mode: OnShutdown }

/** What must be said to people. */
export type MembershipEvent =
  | { readonly type: 'joined' }
  | { readonly type: 'unready' }
  | { readonly type: 'doubtful'; readonly addresses: readonly string[] }
  | { readonly type: 'contention'; readonly before: Contention; readonly now: Contention; readonly corrected: boolean }
  | { readonly type: 'out'; readonly why: OutReason }

/** What the shell is to do. Each but `reconcile` and `tell` is answered by one input. */
export type MembershipEffect =
  | { readonly type: 'read'; readonly limitMs: number }
  | { readonly type: 'renew' | 'mark' | 'remove'; readonly holder: Holder; readonly limitMs: number }
  | { readonly type: 'probe'; readonly limitMs: number }
  /** The list may not be what it should be. */
  | { readonly type: 'reconcile' }
  /** Writes the list for a master that leaves. Only with `mayEmpty` may it become empty. */
  | { readonly type: 'write-list'; readonly mayEmpty: boolean; readonly needsOthers: boolean }
  | { readonly type: 'tell'; readonly event: MembershipEvent }

export interface Step {
  readonly state: Membership
  readonly effects: readonly MembershipEffect[]
}
