import { stillCountedMs } from '../kubernetes-service/membership/timings.ts'
import { hasSameState, type MemberState, snapshotOf } from './member-state.ts'
import { type Bounds, faultTimes } from './observation.ts'
import { type Period, ReadinessHistory } from './readiness-history.ts'

/** Within this time, in milliseconds, a master repeats a write that a full etcd has refused. */
const REFUSED_MS = 10_000
/** How much later than its interval a renewal may be, in milliseconds. */
const RENEWAL_MS = 500
/** A state counts as present for this long, in milliseconds, because checks are up to a second apart. */
const PRESENT_MS = 1_000
/** An outage lasts up to this much longer for a member, in milliseconds, because the member must connect again. */
const RECONNECTED_MS = 1_000
/** How long a process with a ready server needs to get its lease, in milliseconds. */
const READY_AT_ONCE_MS = 500
/**
 * How long a master waits at most, in milliseconds, for an answer of its server before it leaves for good or renews its
 * lease.
 */
const ASKS_MS = 3_000
/** The most messages that one action of a master needs in a row. A request and its answer are two messages. */
const MESSAGES = 12

/** How much longer an action of a master takes at most, in milliseconds, if each message takes `delayMs` longer. */
export function lagOf(delayMs: number): number {
  return MESSAGES * delayMs
}

/**
 * The history of one member under one address. A new address ends the history, by {@link close}. All times are those of
 * the drill's clock. Other code only reads the fields.
 */
export class MemberHistory {
  readonly name: string
  readonly address: string
  readonly kind: MemberState['kind']
  readonly readiness = new ReadinessHistory()
  state: MemberState
  changedAtMs: number
  /** When the present life began; negative infinity in the first life under this address. */
  startedAtMs = Number.NEGATIVE_INFINITY
  /** The longest TTL of all lives since the member was last settled. The stored lease may be of any of these lives. */
  ttlMs: number
  /** When {@link hasCauseToGo} was last true; negative infinity if never. */
  causeAtMs = Number.NEGATIVE_INFINITY
  healthySinceMs: number | undefined
  /** When the member last ran disconnected; negative infinity if never. */
  cutOffUntilMs = Number.NEGATIVE_INFINITY
  /** Since when the member cannot renew its lease; undefined while it can. */
  goneSinceMs: number | undefined
  /**
   * As {@link goneSinceMs}, but also undefined while the member runs and a fault of requests prevents renewals: some
   * may succeed.
   */
  deadSinceMs: number | undefined
  stoppedSinceMs: number | undefined
  /** When a fault last affected the requests or probes of the member; negative infinity if none ever did. */
  impairedAtMs = Number.NEGATIVE_INFINITY
  readonly #member: MemberState
  readonly #bounds: Bounds
  #closed = false
  #refusedAtMs = Number.NEGATIVE_INFINITY
  /** When the member last ran while its server was up but did not answer. */
  #askingAtMs = Number.NEGATIVE_INFINITY
  #unhealthy: { forMs: number; sinceMs: number | undefined } = { forMs: 0, sinceMs: undefined }
  #settledAtMs: number | undefined
  /** Whether the member was stopped, and its server did not answer at some moment since. */
  #serverWasSilent = false
  #connectedSinceMs: number | undefined
  /** The period in which no lease could expire, and through which the member held its lease. */
  #throughOutage: Period | undefined
  /** Since when no lease can expire; undefined while leases can. */
  #noExpirySinceMs: number | undefined
  /** Whether the member was stopped since it was last settled. */
  #stopRequested = false
  #startedUnready = false
  #troubledAtMs = Number.NEGATIVE_INFINITY
  #lives = 0
  #ran = false
  #overlaps = false
  /**
   * Since when the member is healthy in its present life, and whether it was ever healthy long enough to get a lease.
   */
  #life: { healthySinceMs: number | undefined; hasLease: boolean } = { healthySinceMs: undefined, hasLease: false }
  #resets = 0
  #disturbances = 0
  #resetAtMs = 0
  #slackMs: number
  /** For how long no lease could expire since the member was last settled; negative infinity if that is unknown. */
  #noExpiryMs = 0
  #notedAtMs: number
  #delay = { ms: 0, untilMs: 0 }

  constructor(member: MemberState, nowMs: number, bounds: Bounds) {
    this.name = member.name
    this.address = member.address
    this.kind = member.kind
    this.#member = member
    this.#bounds = bounds
    this.state = snapshotOf(member)
    this.ttlMs = member.leaseTtlMs
    this.#slackMs = slackOf(member)
    this.changedAtMs = nowMs
    this.#notedAtMs = nowMs
  }

  /** How much longer an action of the member takes at most, in milliseconds, because of slow messages. */
  get lagMs(): number {
    return this.#delay.untilMs >= this.#notedAtMs ? this.#delay.ms : 0
  }

  /** Whether answers arrive too late for the member to renew its lease in time. */
  get isTooSlow(): boolean {
    return this.lagMs > slackOf(this.state)
  }

  /** How long the member was unhealthy before it last became healthy, with what still counted of an earlier failure. */
  get unhealthyMs(): number {
    return this.#unhealthy.forMs
  }

  /**
   * From when on the member watches the others without a break, perhaps in the future; undefined while it is unhealthy.
   */
  get watchingSinceMs(): number | undefined {
    if (this.healthySinceMs === undefined) return undefined
    return Math.max(this.healthySinceMs, this.#resetAtMs, this.#refusedAtMs + REFUSED_MS, this.#askingAtMs + ASKS_MS)
  }

  /** Whether an earlier life may withdraw the address although the present life may have no lease yet. */
  get mayBeLeftByEarlierLife(): boolean {
    return this.#overlaps && this.#startedUnready
  }

  /**
   * When the stopped member should begin to leave: once it is both stopped and connected. If its server did not answer
   * at some moment since the stop, the time of one probe is added. Undefined if the member was not stopped, need not
   * leave, is not connected, or ended before it was connected.
   */
  get leavingSinceMs(): number | undefined {
    const { withdrawsOnStop, hasBeenReady } = this.state
    // A life that has never been ready has no lease of its own to remove.
    if (!withdrawsOnStop || hasBeenReady === false) return undefined
    if (this.stoppedSinceMs === undefined || this.#connectedSinceMs === undefined) return undefined
    return Math.max(this.stoppedSinceMs, this.#connectedSinceMs) + (this.#serverWasSilent ? ASKS_MS : 0)
  }

  /**
   * How long a healthy member takes at most to be listed, or to list others. A kube-apiserver acts only at its ticks.
   */
  get settlingMs(): number {
    const { listedMs, removalMarginMs } = this.#bounds
    const tickMs = this.kind === 'kube-apiserver' ? this.state.reconcileIntervalMs + removalMarginMs : 0
    return Math.max(listedMs, tickMs) + this.lagMs
  }

  /** Whether the member has been healthy long enough to be certainly listed. */
  isSettled(nowMs: number): boolean {
    if (this.healthySinceMs === undefined) return false
    return nowMs >= Math.max(this.healthySinceMs, this.#refusedAtMs + REFUSED_MS) + this.settlingMs
  }

  note(nowMs: number, leasesCannotExpire: boolean): void {
    if (!this.#closed && !hasSameState(this.#member, this.state)) {
      const before = this.state
      this.state = snapshotOf(this.#member)
      this.changedAtMs = nowMs
      // A frozen server that continues executes the requests that it received meanwhile, perhaps a renewal. So does a
      // server whose store answers again, or that can be reached again, even if its /readyz still hangs. The master
      // counts as gone only from then on.
      if ((isStopped(before) && goesOn(this.state)) || isReachedAgain(before, this.state))
        this.goneSinceMs = this.deadSinceMs = undefined
    }
    this.#noteState(nowMs, leasesCannotExpire)
    if (this.hasCauseToGo(nowMs)) this.causeAtMs = nowMs
  }

  /** The member has another address from now on. A lease of the old address may remain until it expires. */
  close(nowMs: number): void {
    this.#closed = true
    this.changedAtMs = nowMs
    this.state = { ...this.state, running: false, healthy: false, renewing: false }
    this.#noteState(nowMs, false)
  }

  /**
   * Whether masters may still act on records of a time in which this member did not serve, was cut off or frozen, or
   * was taking over a lease.
   */
  isRecovering(nowMs: number): boolean {
    return nowMs - this.#troubledAtMs < this.#bounds.listedMs + this.lagMs
  }

  /** From now on it counts as unknown whether the lease expired in the last outage. */
  forgetOutage(): void {
    this.#noExpiryMs = Number.NEGATIVE_INFINITY
    this.#throughOutage = undefined
  }

  /** Whether the address may be removed at this moment. */
  hasCauseToGo(nowMs: number): boolean {
    return this.hasCauseBesideUnready(nowMs) || (this.state.leavesWhenUnready && this.readiness.mayLeave(nowMs))
  }

  /** As {@link hasCauseToGo}, but an unready server is no cause. */
  hasCauseBesideUnready(nowMs: number): boolean {
    // A member that was never settled was not healthy long enough to be listed.
    if (this.#settledAtMs === undefined || this.#mayLeaseHaveEnded(nowMs, this.#settledAtMs)) return true
    return this.#startedUnready || (this.#stopRequested && this.state.withdrawsOnStop)
  }

  /** Whether the lease may exist at this moment, so that the address may be added. */
  mayCome(nowMs: number): boolean {
    // A process that has not ended may still publish that its server is unready. Its address is listed while no master
    // is ready.
    if (this.goneSinceMs === undefined || this.state.running || !this.state.ended) return true
    if (this.#noExpiryMs === Number.NEGATIVE_INFINITY) return true
    const aloneMs = nowMs - this.goneSinceMs - this.#noExpiryMs
    return aloneMs <= this.ttlMs + this.#bounds.removalMarginMs + this.lagMs
  }

  #noteState(nowMs: number, leasesCannotExpire: boolean): void {
    const state = this.state
    if (state.storeFull) this.#refusedAtMs = nowMs
    if (state.running && !state.answering && state.clientConnections !== 'refused') this.#askingAtMs = nowMs
    if (leasesCannotExpire) this.#noExpiryMs += nowMs - this.#notedAtMs
    this.#notedAtMs = nowMs
    if (state.delayMs > 0) this.#delay = { ms: lagOf(state.delayMs), untilMs: nowMs + lagOf(state.delayMs) }
    if (state.running && !state.connected) this.cutOffUntilMs = nowMs
    // A fault may end with the request that it hits, so that no check sees the member impaired.
    const disturbances = this.#closed ? this.#disturbances : this.#member.disturbances
    if (state.impaired !== 'no' || disturbances > this.#disturbances) this.impairedAtMs = nowMs
    this.#disturbances = disturbances
    const isImpaired = nowMs - this.impairedAtMs < Math.max(faultTimes.requestMs, state.reconcileIntervalMs)
    // A process that has ended cannot connect again.
    const inTouch = state.connected && !isImpaired && (this.#connectedSinceMs !== undefined || !state.ended)
    this.#connectedSinceMs = inTouch ? (this.#connectedSinceMs ?? nowMs) : undefined
    // A master that waits too long for each answer can neither renew nor manage the list in time.
    const able = state.healthy && !isImpaired && !this.isTooSlow && !this.#isTakingOver(nowMs)
    // A member that becomes healthy while it is slow counts as healthy only from the end of the slowness.
    const fromMs = this.lagMs === 0 ? nowMs : undefined
    const healthyFromMs = this.healthySinceMs
    // The member's own probes may have noticed up to `noticedMs` later that its server was ready.
    const knownHealthyMs = nowMs - (healthyFromMs ?? nowMs) - faultTimes.noticedMs
    if (!able) this.#unhealthy.sinceMs ??= nowMs - stillCountedMs(this.#unhealthy.forMs, knownHealthyMs)
    this.healthySinceMs = able ? (healthyFromMs ?? fromMs) : undefined
    if (healthyFromMs === undefined && this.healthySinceMs !== undefined)
      this.#unhealthy = { forMs: nowMs - (this.#unhealthy.sinceMs ?? nowMs), sinceMs: undefined }
    // After an outage the other masters wait for renewals. A master that is unhealthy then cannot use this time.
    if (!leasesCannotExpire && !state.healthy && this.#noExpiryMs > 0) this.#noExpiryMs = 0
    this.#noteOutage(nowMs, leasesCannotExpire)
    this.goneSinceMs = state.renewing ? undefined : (this.goneSinceMs ?? nowMs)
    const isDead = !state.renewing && !(state.running && state.impaired === 'lease')
    this.deadSinceMs = isDead ? (this.deadSinceMs ?? nowMs) : undefined
    this.ttlMs = Math.max(this.ttlMs, state.leaseTtlMs)
    this.#slackMs = Math.min(this.#slackMs, slackOf(state))
    // A master with the impairment `rest` renews its lease as usual.
    const renews = isImpaired && state.impaired !== 'lease' && state.running && state.serves && state.renewing
    if (renews && this.#wasJustListed(nowMs) && this.#life.hasLease && !this.isTooSlow && !this.#startedUnready)
      this.#settledAtMs = nowMs
    if (this.isSettled(nowMs)) {
      this.#settledAtMs = nowMs
      this.#throughOutage = undefined
      this.#noExpiryMs = 0
      this.#startedUnready = false
      this.#stopRequested = false
      if (nowMs - this.startedAtMs > state.reconcileIntervalMs) {
        this.ttlMs = state.leaseTtlMs
        this.#slackMs = slackOf(state)
      }
    }
    if (state.connectionResets > this.#resets || state.lifeCount > this.#lives) this.#resetAtMs = nowMs
    this.#resets = state.connectionResets
    this.#noteReadiness(nowMs)
    this.#noteLives(nowMs)
  }

  /**
   * With slow messages, a new life needs time to take over the lease of an earlier life that still runs. Meanwhile the
   * earlier life may leave.
   */
  #isTakingOver(nowMs: number): boolean {
    return this.#overlaps && nowMs - this.startedAtMs < this.lagMs
  }

  /** A lease that existed when the outage began lasts for a whole TTL after it, even if its server recovers late. */
  #noteOutage(nowMs: number, leasesCannotExpire: boolean): void {
    const { running, lifeCount, leaseTtlMs, reconcileIntervalMs } = this.state
    const outage = this.#throughOutage
    this.#noExpirySinceMs = leasesCannotExpire ? (this.#noExpirySinceMs ?? nowMs) : undefined
    const sinceMs = this.#noExpirySinceMs
    if (sinceMs !== undefined) {
      // A further outage counts only if masters can notice it, and if it began before the lease had expired.
      const counts =
        outage === undefined
          ? this.#wasJustListed(nowMs)
          : nowMs - sinceMs >= reconcileIntervalMs && sinceMs - outage.untilMs <= leaseTtlMs
      if (counts || outage?.sinceMs === sinceMs) this.#throughOutage = { sinceMs, untilMs: nowMs }
    }
    if (!running || lifeCount !== this.#lives) this.#throughOutage = undefined
  }

  #mayLeaseHaveEnded(nowMs: number, settledAtMs: number): boolean {
    const { leaseTtlMs, reconcileIntervalMs } = this.state
    // Masters see the leases only when they list them, so they do not notice an outage between two lists.
    const outage = this.#throughOutage
    if (outage !== undefined && outage.untilMs - outage.sinceMs >= reconcileIntervalMs + RECONNECTED_MS) {
      return nowMs - outage.untilMs > leaseTtlMs - RENEWAL_MS - this.lagMs
    }
    const notCountedMs = this.#noExpiryMs < reconcileIntervalMs ? 0 : this.#noExpiryMs
    return nowMs - settledAtMs - notCountedMs > this.#slackMs - RENEWAL_MS - this.lagMs
  }

  #wasJustListed(nowMs: number): boolean {
    return this.#settledAtMs !== undefined && nowMs - this.#settledAtMs <= PRESENT_MS
  }

  #noteReadiness(nowMs: number): void {
    const { serves, connected, frozen, lifeCount } = this.state
    if (!serves || !connected || frozen || this.#isTakingOver(nowMs)) this.#troubledAtMs = nowMs
    this.readiness.note(nowMs, this.state, {
      wasJustListed: this.#wasJustListed(nowMs),
      startedUnready: this.#startedUnready,
      isImpaired: nowMs - this.impairedAtMs <= faultTimes.noticedMs,
      isAnother: lifeCount !== this.#lives,
      lagMs: this.lagMs,
    })
  }

  #noteLives(nowMs: number): void {
    const { stopping, lifeCount, hasBeenReady, answering, ready, serves, impaired, running, healthy } = this.state
    this.#serverWasSilent = stopping && (this.#serverWasSilent || !answering)
    this.stoppedSinceMs = stopping ? (this.stoppedSinceMs ?? nowMs) : undefined
    if (stopping) this.#stopRequested = true
    if (lifeCount > this.#lives) {
      if (this.#lives > 0) this.startedAtMs = nowMs
      this.#overlaps = this.#ran
      this.#life = { healthySinceMs: undefined, hasLease: false }
      // A kube-apiserver removes its own lease and address at its start.
      if (this.kind === 'kube-apiserver') this.#startedUnready = true
    }
    if (this.kind !== 'kube-apiserver' && hasBeenReady === false) {
      if (!(answering && ready) || (impaired !== 'no' && !serves)) this.#startedUnready = true
    }
    const life = this.#life
    life.healthySinceMs = healthy ? (life.healthySinceMs ?? nowMs) : undefined
    if (hasBeenReady && nowMs - (life.healthySinceMs ?? nowMs) >= READY_AT_ONCE_MS) life.hasLease = true
    // The earlier life may be stopped before the present life has a lease of its own.
    const waits = this.#overlaps && !life.hasLease && nowMs - this.startedAtMs >= READY_AT_ONCE_MS
    if (waits && this.kind !== 'kube-apiserver') this.#startedUnready = true
    if (this.#isTakingOver(nowMs)) this.#startedUnready = true
    this.#lives = lifeCount
    this.#ran = running
  }
}

/** A frozen server accepts connections and answers nothing. A server that is gone refuses connections. */
function isStopped({ clientConnections, answering }: MemberState): boolean {
  return clientConnections === 'black-holed' && !answering
}

/** Whether the server has continued after a freeze, and its sidecar still exists. */
function goesOn(state: MemberState): boolean {
  return state.clientConnections !== 'refused' && !isStopped(state) && !state.ended
}

/** Whether requests that hung may have been executed just now, although the server still answers no probe. */
function isReachedAgain(before: MemberState, now: MemberState): boolean {
  return !before.connected && now.connected && !now.answering && !now.ended
}

/** The shortest time for which a lease outlasts its master: the last renewal may be an interval old. */
function slackOf({ leaseTtlMs, reconcileIntervalMs }: MemberState): number {
  return leaseTtlMs - reconcileIntervalMs
}
