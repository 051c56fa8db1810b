import type { MemberState } from './member-state.ts'

/**
 * A change of readiness is noticed by a probe after this long, in milliseconds; later when probes must time out first,
 * and when the master may have stated its unreadiness: it withdraws that statement after two seconds.
 */
const NOTICED_MS = { answered: 1_500, stated: 3_500, silent: 5_000 }
/** No master leaves because of unreadiness before this, in milliseconds: three seconds, less the error of a clock. */
const LEAVES_MS = 2_900

/** A past or present period: the end of a present one is far away. */
export interface Period {
  readonly sinceMs: number
  readonly untilMs: number
}

/** Further circumstances when the readiness of a member is noted. */
export interface Circumstances {
  /** It was certainly listed a moment ago. */
  readonly isPlaced: boolean
  /** Its present life was started while its server was not ready. */
  readonly startedUnready: boolean
  /** Its probes may have failed until a moment ago. */
  readonly isImpaired: boolean
  /** It is in another life than before. */
  readonly isAnother: boolean
  readonly lagMs: number
}

/** When the server of one member was ready, and what its master may have stated. All times are true ones. */
export class ReadinessHistory {
  #unready: { readonly sinceMs: number; silent: boolean; servesSinceMs: number | undefined } | undefined
  #unserving: Period | undefined
  /** Of `#unserving`. */
  #wasPlaced = false
  #cleanSinceMs: number | undefined
  #clean: Period | undefined

  /** Whether its master may still state the unreadiness of an earlier time. */
  get mayStillSeemUnready(): boolean {
    return this.#unready !== undefined
  }

  /** Since when it is not ready in the same manner, while its master can state it and is listed. */
  get cleanlyUnreadySinceMs(): number | undefined {
    return this.#cleanSinceMs
  }

  /** When it was last not ready in this manner. */
  get cleanlyUnready(): Period | undefined {
    const sinceMs = this.#cleanSinceMs
    return sinceMs === undefined ? this.#clean : { sinceMs, untilMs: Number.POSITIVE_INFINITY }
  }

  /** When it last did not serve. */
  get unserving(): Period | undefined {
    return this.#unserving
  }

  /** The same for a master that was listed at the start of it, and was neither stopped nor started since. */
  get unservingInPlace(): Period | undefined {
    return this.#wasPlaced ? this.#unserving : undefined
  }

  /** Whether it was not ready for long enough for its master to leave. */
  mayLeave(nowMs: number): boolean {
    return this.#unready !== undefined && nowMs - this.#unready.sinceMs >= LEAVES_MS
  }

  /** Takes in its state from now on. */
  note(nowMs: number, state: MemberState, around: Circumstances): void {
    if (!state.running || around.isAnother) this.#wasPlaced = false
    if (state.serves) this.#noteServing(nowMs, state, around.lagMs)
    else this.#noteFailing(nowMs, state, around)
  }

  #noteServing(nowMs: number, { impaired }: MemberState, lagMs: number): void {
    const period = this.#unserving
    if (period?.untilMs === Number.POSITIVE_INFINITY) this.#unserving = { ...period, untilMs: nowMs }
    const unready = this.#unready
    // A master with failing probes may not notice that its server is ready again.
    if (unready !== undefined && impaired === 'no') {
      unready.servesSinceMs ??= nowMs
      const stated = unready.servesSinceMs - unready.sinceMs >= LEAVES_MS
      const noticedMs = NOTICED_MS[unready.silent ? 'silent' : stated ? 'stated' : 'answered']
      if (nowMs - unready.servesSinceMs >= noticedMs + lagMs) this.#unready = undefined
    }
    const sinceMs = this.#cleanSinceMs
    if (sinceMs !== undefined) this.#clean = { sinceMs, untilMs: nowMs }
    this.#cleanSinceMs = undefined
  }

  #noteFailing(nowMs: number, state: MemberState, { isPlaced, startedUnready, isImpaired }: Circumstances): void {
    const { answering, connected, running, ready, leavesWhenUnready, etcdFails, renewing, impaired } = state
    if (this.#unserving?.untilMs !== Number.POSITIVE_INFINITY) {
      this.#unserving = { sinceMs: nowMs, untilMs: Number.POSITIVE_INFINITY }
      this.#wasPlaced = running && isPlaced
    }
    // Probes that hung before count.
    this.#unready ??= { sinceMs: nowMs - (isImpaired ? LEAVES_MS : 0), silent: false, servesSinceMs: undefined }
    this.#unready.servesSinceMs = undefined
    if (!answering) this.#unready.silent = true
    // A master with its lease in another store can state that its server's own etcd is dead.
    const hasLease = running && (connected || (etcdFails && renewing)) && !startedUnready
    // A master with failing requests may not notice that its server is not ready.
    const clean = answering && (!ready || etcdFails) && impaired === 'no' && hasLease && leavesWhenUnready
    if (!clean) this.#cleanSinceMs = undefined
    else if (isPlaced) this.#cleanSinceMs ??= nowMs
  }
}
