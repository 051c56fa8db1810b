import type { MemberState } from './member-state.ts'

/**
 * How long a master takes at most, in milliseconds, to notice and publish that its server is ready again.
 * - `answered`: while it was not ready, the server still answered every probe.
 * - `stated`: the master may have published that its server is unready. It then publishes `ready` only after two
 *   seconds.
 * - `silent`: probes must time out first.
 */
const NOTICED_MS = { answered: 1_500, stated: 3_500, silent: 5_000 }
/**
 * The shortest unreadiness after which a master may leave, in milliseconds: three seconds, less the error of a clock.
 */
const LEAVES_MS = 2_900

/** A past or present period. A present one ends at infinity. */
export interface Period {
  readonly sinceMs: number
  readonly untilMs: number
}

export interface Circumstances {
  /** Whether the member was certainly listed within the last second. */
  readonly wasJustListed: boolean
  /** Whether the present life was started while the server was not ready. */
  readonly startedUnready: boolean
  /** Whether a fault may have made probes fail until a few seconds ago. */
  readonly isImpaired: boolean
  /** Whether a new life has begun since the last note. */
  readonly isAnother: boolean
  readonly lagMs: number
}

/**
 * When the server of one member was ready, and what its master may have published about that. All times are true time.
 * Other code only reads the fields.
 */
export class ReadinessHistory {
  /** The last period in which the server did not serve, perhaps the present one; undefined if it always served. */
  notServing: Period | undefined
  /**
   * Since when the server has answered that it is unready, while its master could publish that. Undefined at other
   * times, and if the master was not listed when the server became unready: `wasJustListed` becomes false soon after.
   */
  cleanlyUnreadySinceMs: number | undefined
  #unready: { readonly sinceMs: number; silent: boolean; servesSinceMs: number | undefined } | undefined
  /** Whether the master was listed when {@link notServing} began, and has run without a break since. */
  #wasListed = false
  #clean: Period | undefined

  /** Whether the server does not serve, or failed so recently that its master may still publish that. */
  get mayStillSeemUnready(): boolean {
    return this.#unready !== undefined
  }

  /**
   * The present period of {@link cleanlyUnreadySinceMs}; without one, the last period that ended because the server
   * served again.
   */
  get cleanlyUnready(): Period | undefined {
    const sinceMs = this.cleanlyUnreadySinceMs
    return sinceMs === undefined ? this.#clean : { sinceMs, untilMs: Number.POSITIVE_INFINITY }
  }

  /** {@link notServing}, if the master was listed when it began, and has run without a break since. */
  get notServingIfListed(): Period | undefined {
    return this.#wasListed ? this.notServing : undefined
  }

  /**
   * Whether the master may have found its server unready for so long that it may leave. A recovery that the master may
   * not have noticed yet does not count.
   */
  mayLeave(nowMs: number): boolean {
    return this.#unready !== undefined && nowMs - this.#unready.sinceMs >= LEAVES_MS
  }

  note(nowMs: number, state: MemberState, around: Circumstances): void {
    if (!state.running || around.isAnother) this.#wasListed = false
    if (state.serves) this.#noteServing(nowMs, state, around.lagMs)
    else this.#noteFailing(nowMs, state, around)
  }

  #noteServing(nowMs: number, { impaired }: MemberState, lagMs: number): void {
    const period = this.notServing
    if (period?.untilMs === Number.POSITIVE_INFINITY) this.notServing = { ...period, untilMs: nowMs }
    const unready = this.#unready
    // While a fault affects its probes, a master may not notice that its server is ready again.
    if (unready !== undefined && impaired === 'no') {
      unready.servesSinceMs ??= nowMs
      const stated = unready.servesSinceMs - unready.sinceMs >= LEAVES_MS
      const noticedMs = NOTICED_MS[unready.silent ? 'silent' : stated ? 'stated' : 'answered']
      if (nowMs - unready.servesSinceMs >= noticedMs + lagMs) this.#unready = undefined
    }
    const sinceMs = this.cleanlyUnreadySinceMs
    if (sinceMs !== undefined) this.#clean = { sinceMs, untilMs: nowMs }
    this.cleanlyUnreadySinceMs = undefined
  }

  #noteFailing(nowMs: number, state: MemberState, { wasJustListed, startedUnready, isImpaired }: Circumstances): void {
    const { answering, connected, running, ready, leavesWhenUnready, etcdFails, renewing, impaired } = state
    if (this.notServing?.untilMs !== Number.POSITIVE_INFINITY) {
      this.notServing = { sinceMs: nowMs, untilMs: Number.POSITIVE_INFINITY }
      this.#wasListed = running && wasJustListed
    }
    // Probes that hung before this moment count too.
    this.#unready ??= { sinceMs: nowMs - (isImpaired ? LEAVES_MS : 0), silent: false, servesSinceMs: undefined }
    this.#unready.servesSinceMs = undefined
    if (!answering) this.#unready.silent = true
    // If its lease is not in the etcd of its server, a master can renew, and publish its state, while that etcd fails.
    const hasLease = running && (connected || (etcdFails && renewing)) && !startedUnready
    // While a fault affects its requests, a master may not notice that its server is not ready.
    const clean = answering && (!ready || etcdFails) && impaired === 'no' && hasLease && leavesWhenUnready
    if (!clean) this.cleanlyUnreadySinceMs = undefined
    else if (wasJustListed) this.cleanlyUnreadySinceMs ??= nowMs
  }
}
