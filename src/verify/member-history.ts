import { type Bounds, faultTimes } from './bounds.ts'
import { isLike, snapshotOf } from './member-snapshot.ts'
import type { MemberState } from './member-state.ts'
import { type Period, ReadinessHistory } from './readiness-history.ts'

/** What etcd refuses for good is tried again now and then, in milliseconds. */
const REFUSED_MS = 10_000
/** How much later than its interval a renewal may be, in milliseconds. */
const RENEWAL_MS = 500
/** What was so lately was so until now, in milliseconds: a second passes between two looks. */
const SEEN_MS = 1_000
/** Until a process whose server is ready has heard so, and has its lease, in milliseconds. */
const READY_AT_ONCE_MS = 500
/** How long a master waits for its server to say something: before it leaves for good, and before it renews its lease. In milliseconds. */
const ASKS_MS = 3_000
/** How many messages one after the other whatever a master does takes at most, there and back. */
const MESSAGES = 20

/** How much later than usual what a master does may come about, where each of its messages takes so much longer; in milliseconds. */
export function lagOf(delayMs: number): number {
  return MESSAGES * delayMs
}

/**
 * What one member has gone through under one address, for those who judge whether it is rightly listed. All times are true ones. A member
 * that comes back with another address begins another history, and leaves this one {@link close}d.
 */
export class MemberHistory {
  readonly name: string
  readonly address: string
  readonly kind: MemberState['kind']
  readonly #member: MemberState
  readonly #bounds: Bounds
  #state: MemberState
  #closed = false
  #changedAtMs: number
  #refusedAtMs = Number.NEGATIVE_INFINITY
  /** When it was last asking its server in vain. */
  #askingAtMs = Number.NEGATIVE_INFINITY
  #wellSinceMs: number | undefined
  /** Until it became well. */
  #illMs = 0
  #lastWellMs: number | undefined
  #goneSinceMs: number | undefined
  #deadSinceMs: number | undefined
  #settledAtMs: number | undefined
  #stoppedSinceMs: number | undefined
  /** Since it was told to stop its server has not answered for a while. */
  #asksInVain = false
  #connectedSinceMs: number | undefined
  #cutOffUntilMs = Number.NEGATIVE_INFINITY
  readonly readiness = new ReadinessHistory()
  /** When requests of its last failed. */
  #impairedAtMs = Number.NEGATIVE_INFINITY
  /** It held its lease when nobody's could end, and has done nothing else since: until when that was so. */
  #throughOutage: Period | undefined
  /** Since when nobody's lease can end; undefined while they can. */
  #stillSinceMs: number | undefined
  /** Since it was last settled. */
  #toldToStop = false
  #startedUnready = false
  #troubledAtMs = Number.NEGATIVE_INFINITY
  #startedAtMs = Number.NEGATIVE_INFINITY
  #lives = 0
  #ran = false
  #overlaps = false
  /** Of its present life: since when it is well, and whether it was for long enough to have a lease. */
  #life: { wellSinceMs: number | undefined; hasLease: boolean } = { wellSinceMs: undefined, hasLease: false }
  #causeAtMs = Number.NEGATIVE_INFINITY
  #resets = 0
  #resetAtMs = 0
  /** Of the lives since it was last settled: what is stored may be any one's. */
  #longestTtlMs: number
  #slackMs: number
  /** Since it was last settled: time in which no lease ends. */
  #stoodStillMs = 0
  #notedAtMs: number
  #delay = { ms: 0, untilMs: 0 }

  constructor(member: MemberState, nowMs: number, bounds: Bounds) {
    this.name = member.name
    this.address = member.address
    this.kind = member.kind
    this.#member = member
    this.#bounds = bounds
    this.#state = snapshotOf(member)
    this.#longestTtlMs = member.leaseTtlMs
    this.#slackMs = slackOf(member)
    this.#changedAtMs = nowMs
    this.#notedAtMs = nowMs
  }

  /** How it fared when it was last looked at. */
  get state(): MemberState {
    return this.#state
  }

  /** When it was last otherwise than before. */
  get changedAtMs(): number {
    return this.#changedAtMs
  }

  /** When its last life began; long ago for the first. */
  get startedAtMs(): number {
    return this.#startedAtMs
  }

  /** How long its lease may last that it last renewed. */
  get ttlMs(): number {
    return this.#longestTtlMs
  }

  /** How much longer what it does takes, because messages of its take longer. */
  get lagMs(): number {
    return this.#delay.untilMs >= this.#notedAtMs ? this.#delay.ms : 0
  }

  /** Whether it waits too long for each answer to renew its lease in time. */
  get isTooSlow(): boolean {
    return this.lagMs > slackOf(this.#state)
  }

  /** When there last was a cause for its address to go. */
  get causeAtMs(): number {
    return this.#causeAtMs
  }

  /** Since when it is well; undefined while it is not. */
  get wellSinceMs(): number | undefined {
    return this.#wellSinceMs
  }

  /** For how long it had not been well when it became so, in milliseconds. */
  get illMs(): number {
    return this.#illMs
  }

  /** Since when it has watched the others without a break; undefined while it is not well. */
  get watchingSinceMs(): number | undefined {
    if (this.#wellSinceMs === undefined) return undefined
    return Math.max(this.#wellSinceMs, this.#resetAtMs, this.#refusedAtMs + REFUSED_MS, this.#askingAtMs + ASKS_MS)
  }

  /** When it was last out of touch with what it needs while it ran; long ago if it never was. */
  get cutOffUntilMs(): number {
    return this.#cutOffUntilMs
  }

  /** Since when it cannot renew its lease; undefined while it can. */
  get goneSinceMs(): number | undefined {
    return this.#goneSinceMs
  }

  /** Since when it cannot renew its lease in any case; undefined while it can, or some of its requests may be done after all. */
  get deadSinceMs(): number | undefined {
    return this.#deadSinceMs
  }

  /** Since when it was told to stop; undefined in a life that was not. */
  get stoppedSinceMs(): number | undefined {
    return this.#stoppedSinceMs
  }

  /** Whether an earlier life of it may leave although this one does not serve yet. */
  get mayBeLeftByEarlierLife(): boolean {
    return this.#overlaps && this.#startedUnready
  }

  /** Since when it should be leaving because it was told to, with nothing to keep it from doing so. Not if it had ended before. */
  get leavingSinceMs(): number | undefined {
    const { withdrawsOnStop, hasBeenReady } = this.#state
    // A life that has never been ready has no lease of its own to take back.
    if (!withdrawsOnStop || hasBeenReady === false) return undefined
    if (this.#stoppedSinceMs === undefined || this.#connectedSinceMs === undefined) return undefined
    return Math.max(this.#stoppedSinceMs, this.#connectedSinceMs) + (this.#asksInVain ? ASKS_MS : 0)
  }

  /** How long it takes to be listed, or to have others listed, once it is well. A kube-apiserver acts at its ticks. */
  get settlingMs(): number {
    const { listedMs, removalMarginMs } = this.#bounds
    const tickMs = this.kind === 'kube-apiserver' ? this.#state.reconcileIntervalMs + removalMarginMs : 0
    return Math.max(listedMs, tickMs) + this.lagMs
  }

  /** Whether it has been well long enough to be surely listed. */
  isSettled(nowMs: number): boolean {
    if (this.#wellSinceMs === undefined) return false
    return nowMs >= Math.max(this.#wellSinceMs, this.#refusedAtMs + REFUSED_MS) + this.settlingMs
  }

  /** Takes in the state in which it is from now on. `standsStill`: nobody's lease can end. */
  note(nowMs: number, standsStill: boolean): void {
    if (!this.#closed && !isLike(this.#member, this.#state)) {
      const before = this.#state
      this.#state = snapshotOf(this.#member)
      this.#changedAtMs = nowMs
      // What a stopped server was sent before is done when it goes on: a renewal, too, so it is gone from then only.
      if (isStopped(before) && goesOn(this.#state)) this.#goneSinceMs = this.#deadSinceMs = undefined
    }
    this.#noteState(nowMs, standsStill)
    if (this.causeToGo(nowMs) !== undefined) this.#causeAtMs = nowMs
  }

  /** The member has another address from now on; what it left under this one lasts as long as its lease does. */
  close(nowMs: number): void {
    this.#closed = true
    this.#changedAtMs = nowMs
    this.#state = { ...this.#state, running: false, well: false, renewing: false }
    this.#noteState(nowMs, false)
  }

  /** When its requests or probes last failed by themselves; long ago if they never did. */
  get impairedAtMs(): number {
    return this.#impairedAtMs
  }

  /** Whether what it says of itself, or what others think of it, may still be what was so before an outage. */
  isRecovering(nowMs: number): boolean {
    return nowMs - this.#troubledAtMs < this.#bounds.listedMs + this.lagMs
  }

  /** The time in which no lease could end counts after all. */
  forgetOutage(): void {
    this.#stoodStillMs = Number.NEGATIVE_INFINITY
    this.#throughOutage = undefined
  }

  /** Why its address may go at this moment; undefined when it must not. */
  causeToGo(nowMs: number): string | undefined {
    const other = this.causeBesideUnready(nowMs)
    if (other !== undefined) return other
    if (this.#state.leavesWhenUnready && this.readiness.mayLeave(nowMs)) return 'it was not ready'
    return undefined
  }

  /** The same, whether or not its server is ready. */
  causeBesideUnready(nowMs: number): string | undefined {
    if (this.#settledAtMs === undefined) return 'it has not been well yet'
    if (this.#mayLeaseHaveEnded(nowMs, this.#settledAtMs)) return 'its lease may have ended'
    if (this.#toldToStop && this.#state.withdrawsOnStop) return 'it was told to stop'
    if (this.#startedUnready) return 'it was started before its server was ready'
    return undefined
  }

  /** Whether its lease may be there at this moment, so that its address may come. */
  mayCome(nowMs: number): boolean {
    // Whoever has not ended may still say of itself that it is not ready, and is listed where nobody is.
    if (this.#goneSinceMs === undefined || this.#state.running || !this.#state.ended) return true
    if (this.#stoodStillMs === Number.NEGATIVE_INFINITY) return true
    const aloneMs = nowMs - this.#goneSinceMs - this.#stoodStillMs
    return aloneMs <= this.#longestTtlMs + this.#bounds.removalMarginMs + this.lagMs
  }

  #noteState(nowMs: number, standsStill: boolean): void {
    const state = this.#state
    if (state.storeFull) this.#refusedAtMs = nowMs
    if (state.running && !state.answering && state.clientsMeet !== 'refused') this.#askingAtMs = nowMs
    if (standsStill) this.#stoodStillMs += nowMs - this.#notedAtMs
    this.#notedAtMs = nowMs
    this.#noteDelay(nowMs)
    if (state.running && !state.connected) this.#cutOffUntilMs = nowMs
    // Whoever has ended gets in touch with nothing any more.
    if (state.impaired !== 'no') this.#impairedAtMs = nowMs
    const isImpaired = nowMs - this.#impairedAtMs < Math.max(faultTimes.requestMs, state.reconcileIntervalMs)
    const inTouch = state.connected && !isImpaired && (this.#connectedSinceMs !== undefined || !state.ended)
    this.#connectedSinceMs = inTouch ? (this.#connectedSinceMs ?? nowMs) : undefined
    // Who waits too long for each answer renews too late, and can neither be listed nor look after the list in time.
    const able = state.well && !isImpaired && !this.isTooSlow && !this.#isTakingOver(nowMs)
    // One that became well while it was slow is given its time from when it is no more.
    const becomesWell = able && this.lagMs === 0
    const wasWell = this.#wellSinceMs !== undefined
    if (wasWell) this.#lastWellMs = nowMs
    this.#wellSinceMs = able ? (this.#wellSinceMs ?? (becomesWell ? nowMs : undefined)) : undefined
    if (!wasWell && this.#wellSinceMs !== undefined) this.#illMs = nowMs - (this.#lastWellMs ?? nowMs)
    // Who is not there when it is over does not renew its lease in the time that others give it then.
    if (!standsStill && !state.well && this.#stoodStillMs > 0) this.#stoodStillMs = 0
    this.#noteOutage(nowMs, standsStill)
    this.#goneSinceMs = state.renewing ? undefined : (this.#goneSinceMs ?? nowMs)
    const isDead = !state.renewing && !(state.running && state.impaired === 'lease')
    this.#deadSinceMs = isDead ? (this.#deadSinceMs ?? nowMs) : undefined
    this.#longestTtlMs = Math.max(this.#longestTtlMs, state.leaseTtlMs)
    this.#slackMs = Math.min(this.#slackMs, slackOf(state))
    // Whoever is impaired, and no more than that, renews its lease as ever.
    const renews = isImpaired && state.impaired !== 'lease' && state.running && state.serves && state.renewing
    const before = this.#settledAtMs ?? Number.NEGATIVE_INFINITY
    if (renews && nowMs - before <= SEEN_MS && this.#life.hasLease && !this.isTooSlow && !this.#startedUnready)
      this.#settledAtMs = nowMs
    if (this.isSettled(nowMs)) {
      this.#settledAtMs = nowMs
      this.#throughOutage = undefined
      this.#stoodStillMs = 0
      this.#startedUnready = false
      this.#toldToStop = false
      if (nowMs - this.#startedAtMs > state.reconcileIntervalMs) {
        this.#longestTtlMs = state.leaseTtlMs
        this.#slackMs = slackOf(state)
      }
    }
    if (state.connectionResets > this.#resets || state.lifeCount > this.#lives) this.#resetAtMs = nowMs
    this.#resets = state.connectionResets
    this.#noteReadiness(nowMs)
    this.#noteLives(nowMs)
  }

  /** A life whose messages are slow needs a while until it holds the lease of the one that it overlaps, which may leave meanwhile. */
  #isTakingOver(nowMs: number): boolean {
    return this.#overlaps && nowMs - this.#startedAtMs < this.lagMs
  }

  #noteDelay(nowMs: number): void {
    const { delayMs } = this.#state
    if (delayMs > 0) this.#delay = { ms: lagOf(delayMs), untilMs: nowMs + lagOf(delayMs) }
  }

  /** A lease that lived when the outage began lasts for its whole time when it is over, whenever its server is back. */
  #noteOutage(nowMs: number, standsStill: boolean): void {
    const { running, lifeCount, leaseTtlMs, reconcileIntervalMs } = this.#state
    const outage = this.#throughOutage
    this.#stillSinceMs = standsStill ? (this.#stillSinceMs ?? nowMs) : undefined
    const sinceMs = this.#stillSinceMs
    if (sinceMs !== undefined) {
      // A shorter one after it is noticed by nobody, and one that comes later finds the lease ended.
      const counts =
        outage === undefined
          ? this.#isPlaced(nowMs)
          : nowMs - sinceMs >= reconcileIntervalMs && sinceMs - outage.untilMs <= leaseTtlMs
      if (counts || outage?.sinceMs === sinceMs) this.#throughOutage = { sinceMs, untilMs: nowMs }
    }
    if (!running || lifeCount !== this.#lives) this.#throughOutage = undefined
  }

  #mayLeaseHaveEnded(nowMs: number, settledAtMs: number): boolean {
    const { leaseTtlMs, reconcileIntervalMs } = this.#state
    // Leases are judged by lists: an outage that falls between two of them is noticed by nobody.
    const outage = this.#throughOutage
    if (outage !== undefined && outage.untilMs - outage.sinceMs >= reconcileIntervalMs) {
      return nowMs - outage.untilMs > leaseTtlMs - RENEWAL_MS - this.lagMs
    }
    const notCountedMs = this.#stoodStillMs < reconcileIntervalMs ? 0 : this.#stoodStillMs
    return nowMs - settledAtMs - notCountedMs > this.#slackMs - RENEWAL_MS - this.lagMs
  }

  /** Whether it was surely listed a moment ago. */
  #isPlaced(nowMs: number): boolean {
    return this.#settledAtMs !== undefined && nowMs - this.#settledAtMs <= SEEN_MS
  }

  #noteReadiness(nowMs: number): void {
    const { serves, connected, frozen, lifeCount } = this.#state
    if (!serves || !connected || frozen || this.#isTakingOver(nowMs)) this.#troubledAtMs = nowMs
    this.readiness.note(nowMs, this.#state, {
      isPlaced: this.#isPlaced(nowMs),
      startedUnready: this.#startedUnready,
      isImpaired: nowMs - this.#impairedAtMs <= faultTimes.noticedMs,
      isAnother: lifeCount !== this.#lives,
      lagMs: this.lagMs,
    })
  }

  #noteLives(nowMs: number): void {
    const { stopping, lifeCount, hasBeenReady, answering, ready, serves, impaired, running, well } = this.#state
    this.#asksInVain = stopping && (this.#asksInVain || !answering)
    this.#stoppedSinceMs = stopping ? (this.#stoppedSinceMs ?? nowMs) : undefined
    if (stopping) this.#toldToStop = true
    if (lifeCount > this.#lives) {
      if (this.#lives > 0) this.#startedAtMs = nowMs
      this.#overlaps = this.#ran
      this.#life = { wellSinceMs: undefined, hasLease: false }
      // A kube-apiserver takes its own address out when it starts, a master only while its server is not ready.
      if (this.kind === 'kube-apiserver') this.#startedUnready = true
    }
    if (this.kind !== 'kube-apiserver' && hasBeenReady === false) {
      if (!(answering && ready) || (impaired !== 'no' && !serves)) this.#startedUnready = true
    }
    const life = this.#life
    life.wellSinceMs = well ? (life.wellSinceMs ?? nowMs) : undefined
    if (hasBeenReady && nowMs - (life.wellSinceMs ?? nowMs) >= READY_AT_ONCE_MS) life.hasLease = true
    // The life before may be told to stop before this one has a lease of its own.
    const waits = this.#overlaps && !life.hasLease && nowMs - this.#startedAtMs >= READY_AT_ONCE_MS
    if (waits && this.kind !== 'kube-apiserver') this.#startedUnready = true
    if (this.#isTakingOver(nowMs)) this.#startedUnready = true
    this.#lives = lifeCount
    this.#ran = running
  }
}

/** Whether its server takes whatever it is sent, and does nothing: one that is gone refuses. */
function isStopped({ clientsMeet, answering }: MemberState): boolean {
  return clientsMeet === 'black-holed' && !answering
}

/** Whether it does what it was sent, for a sidecar that is still there. */
function goesOn(state: MemberState): boolean {
  return state.clientsMeet !== 'refused' && !isStopped(state) && !state.ended
}

/** How much later than the last renewal a lease may be looked for and still be there. */
function slackOf({ leaseTtlMs, reconcileIntervalMs }: MemberState): number {
  return leaseTtlMs - reconcileIntervalMs
}
