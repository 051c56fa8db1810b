import type { MemberState } from './member-state.ts'

/** How long a master that has become well may take until it is listed, in milliseconds: probes and back-offs included. */
const SETTLING_MS = 6_000
/** A kube-apiserver acts at its ticks. */
const KUBE_APISERVER_SETTLING_MS = 12_000
/** What etcd refuses for good is tried again now and then, in milliseconds. */
const REFUSED_MS = 10_000
/** Readiness that lasted so long was noticed by a probe, in milliseconds; longer when probes had to time out first. */
const NOTICED_MS = { answered: 1_500, silent: 5_000 }

/** What one member has gone through, for those who judge whether it is rightly listed. All times are true ones. */
export class MemberHistory {
  readonly member: MemberState
  readonly address: string
  readonly ttlMs: number
  readonly #settlingMs: number
  readonly #intervalMs: number
  #refusedAtMs = Number.NEGATIVE_INFINITY
  #wellSinceMs: number | undefined
  #goneSinceMs: number | undefined
  #settledAtMs: number | undefined
  #stoppedSinceMs: number | undefined
  #unready: { readonly sinceMs: number; silent: boolean; servesSinceMs: number | undefined } | undefined
  #cleanlyUnreadySinceMs: number | undefined
  /** Since it was last settled. */
  #toldToStop = false
  #startedUnready = false
  #troubledAtMs = Number.NEGATIVE_INFINITY
  #lives = 0
  #resets = 0
  #resetAtMs = 0
  /** Since it was last settled: time in which no lease ends. */
  #stoodStillMs = 0
  #notedAtMs = 0

  constructor(member: MemberState) {
    this.member = member
    this.address = member.address
    this.ttlMs = member.leaseTtlMs
    this.#intervalMs = member.reconcileIntervalMs
    this.#settlingMs = member.kind === 'kube-apiserver' ? KUBE_APISERVER_SETTLING_MS : SETTLING_MS
  }

  /** Since when it is well; undefined while it is not. */
  get wellSinceMs(): number | undefined {
    return this.#wellSinceMs
  }

  /** Since when it has watched the others without a break; undefined while it is not well. */
  get watchingSinceMs(): number | undefined {
    if (this.#wellSinceMs === undefined) return undefined
    return Math.max(this.#wellSinceMs, this.#resetAtMs, this.#refusedAtMs + REFUSED_MS)
  }

  /** Since when it cannot renew its lease; undefined while it can. */
  get goneSinceMs(): number | undefined {
    return this.#goneSinceMs
  }

  /** Since when it should be leaving because it was told to, with nothing to keep it from doing so. */
  get leavingSinceMs(): number | undefined {
    const { member } = this
    if (this.#stoppedSinceMs === undefined || !(member.withdrawsOnStop && member.connected)) return undefined
    return this.#stoppedSinceMs
  }

  /** Since when it is not ready in one way, while it is in touch with everything and has been listed. */
  get cleanlyUnreadySinceMs(): number | undefined {
    return this.#cleanlyUnreadySinceMs
  }

  /** Whether it has been well long enough to be surely listed. */
  isSettled(nowMs: number): boolean {
    if (this.#wellSinceMs === undefined) return false
    return nowMs >= Math.max(this.#wellSinceMs, this.#refusedAtMs + REFUSED_MS) + this.#settlingMs
  }

  /** Takes in the state in which it is from now on. `standsStill`: nobody's lease can end. */
  note(nowMs: number, standsStill: boolean): void {
    const { member } = this
    if (member.storeFull) this.#refusedAtMs = nowMs
    if (standsStill) this.#stoodStillMs += nowMs - this.#notedAtMs
    this.#notedAtMs = nowMs
    this.#wellSinceMs = member.well ? (this.#wellSinceMs ?? nowMs) : undefined
    this.#goneSinceMs = member.renewing ? undefined : (this.#goneSinceMs ?? nowMs)
    if (this.isSettled(nowMs)) {
      this.#settledAtMs = nowMs
      this.#stoodStillMs = 0
      this.#startedUnready = false
      this.#toldToStop = false
    }
    if (member.connectionResets > this.#resets || member.lifeCount > this.#lives) this.#resetAtMs = nowMs
    this.#resets = member.connectionResets
    this.#noteReadiness(nowMs)
    this.#noteLives(nowMs)
  }

  /** Whether what it says of itself, or what others think of it, may still be what was so before an outage. */
  isRecovering(nowMs: number): boolean {
    return nowMs - this.#troubledAtMs < SETTLING_MS
  }

  /** The time in which no lease could end counts after all. */
  forgetOutage(): void {
    this.#stoodStillMs = Number.NEGATIVE_INFINITY
  }

  /** Why its address may go at this moment; undefined when it must not. */
  causeToGo(nowMs: number): string | undefined {
    if (this.#settledAtMs === undefined) return 'it has not been well yet'
    const unrenewedMs = nowMs - this.#settledAtMs - this.#stoodStillMs
    if (unrenewedMs > this.ttlMs - this.#intervalMs - 500) return 'its lease may have ended'
    if (this.#toldToStop && this.member.withdrawsOnStop) return 'it was told to stop'
    if (this.#startedUnready) return 'it was started before its server was ready'
    const unready = this.#unready
    if (this.member.leavesWhenUnready && unready !== undefined && nowMs - unready.sinceMs >= 2_900)
      return 'it was not ready'
    return undefined
  }

  #noteReadiness(nowMs: number): void {
    const { member } = this
    const { answering } = member
    if (!member.serves || !member.connected || member.frozen) this.#troubledAtMs = nowMs
    if (member.serves) {
      const unready = this.#unready
      if (unready !== undefined) {
        unready.servesSinceMs ??= nowMs
        const noticedMs = unready.silent ? NOTICED_MS.silent : NOTICED_MS.answered
        if (nowMs - unready.servesSinceMs >= noticedMs) this.#unready = undefined
      }
      this.#cleanlyUnreadySinceMs = undefined
      return
    }
    this.#unready ??= { sinceMs: nowMs, silent: false, servesSinceMs: undefined }
    this.#unready.servesSinceMs = undefined
    if (!answering) this.#unready.silent = true
    const wasListed = this.#settledAtMs !== undefined && nowMs - this.#settledAtMs <= 1_000
    const keepsLease = member.running && member.connected && !this.#startedUnready
    const clean = answering && !member.ready && keepsLease && member.leavesWhenUnready
    if (!clean) this.#cleanlyUnreadySinceMs = undefined
    else if (wasListed) this.#cleanlyUnreadySinceMs ??= nowMs
  }

  #noteLives(nowMs: number): void {
    const { member } = this
    this.#stoppedSinceMs = member.stopping ? (this.#stoppedSinceMs ?? nowMs) : undefined
    if (member.stopping) this.#toldToStop = true
    // A kube-apiserver takes its own address out when it starts, a master only while its server is not ready.
    if (member.kind === 'kube-apiserver') {
      if (member.lifeCount > this.#lives) this.#startedUnready = true
    } else if (member.hasBeenReady === false && !(member.answering && member.ready)) {
      this.#startedUnready = true
    }
    this.#lives = member.lifeCount
  }
}
