import type { MemberState } from './member-state.ts'

/**
 * Readiness that lasted so long was noticed by a probe, in milliseconds; longer when probes had to time out first, and by who may have
 * said that it is not ready: it says otherwise after two seconds.
 */
const NOTICED_MS = { answered: 1_500, said: 3_500, silent: 5_000 }
/** Before that nobody leaves because it is not ready, in milliseconds: three seconds, less what a clock may be off. */
const LEAVES_MS = 2_900

/** A time that was, or is: its end is far away then. */
export interface Period {
  readonly sinceMs: number
  readonly untilMs: number
}

/** What else is known of a member when its readiness is noted. */
export interface Circumstances {
  /** It was surely listed a moment ago. */
  readonly isPlaced: boolean
  /** Its present life was started while its server was not ready. */
  readonly startedUnready: boolean
  /** Its probes may have failed until a moment ago. */
  readonly isImpaired: boolean
  /** Another life than before. */
  readonly isAnother: boolean
  readonly lagMs: number
}

/** When the server of one member was ready, and what its master may have said of that. All times are true ones. */
export class ReadinessHistory {
  #unready: { readonly sinceMs: number; silent: boolean; servesSinceMs: number | undefined } | undefined
  #unserving: Period | undefined
  /** Of `#unserving`. */
  #wasPlaced = false
  #cleanSinceMs: number | undefined
  #clean: Period | undefined

  /** Whether its master may still say what was so while it did not serve. */
  get mayStillSeemUnready(): boolean {
    return this.#unready !== undefined
  }

  /** Since when it is not ready in one way, while its master can say so and has been listed. */
  get cleanlyUnreadySinceMs(): number | undefined {
    return this.#cleanSinceMs
  }

  /** When it was last not ready in this way. */
  get cleanlyUnready(): Period | undefined {
    const sinceMs = this.#cleanSinceMs
    return sinceMs === undefined ? this.#clean : { sinceMs, untilMs: Number.POSITIVE_INFINITY }
  }

  /** When it last did not serve. */
  get unserving(): Period | undefined {
    return this.#unserving
  }

  /** The same of a master that was listed when that began, and that nobody has stopped or started since. */
  get unservingInPlace(): Period | undefined {
    return this.#wasPlaced ? this.#unserving : undefined
  }

  /** Whether it was not ready for long enough for its master to leave. */
  mayLeave(nowMs: number): boolean {
    return this.#unready !== undefined && nowMs - this.#unready.sinceMs >= LEAVES_MS
  }

  /** Takes in how it fares from now on. */
  note(nowMs: number, state: MemberState, around: Circumstances): void {
    if (!state.running || around.isAnother) this.#wasPlaced = false
    if (state.serves) this.#noteServing(nowMs, state, around.lagMs)
    else this.#noteFailing(nowMs, state, around)
  }

  #noteServing(nowMs: number, { impaired }: MemberState, lagMs: number): void {
    const period = this.#unserving
    if (period?.untilMs === Number.POSITIVE_INFINITY) this.#unserving = { ...period, untilMs: nowMs }
    const unready = this.#unready
    // Whose probes fail may not hear that its server is ready again.
    if (unready !== undefined && impaired === 'no') {
      unready.servesSinceMs ??= nowMs
      const said = unready.servesSinceMs - unready.sinceMs >= LEAVES_MS
      const noticedMs = NOTICED_MS[unready.silent ? 'silent' : said ? 'said' : 'answered']
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
    // Who keeps its lease elsewhere can say that its server's own etcd is dead.
    const keepsLease = running && (connected || (etcdFails && renewing)) && !startedUnready
    // Whose requests fail may not hear that its server is not ready.
    const clean = answering && (!ready || etcdFails) && impaired === 'no' && keepsLease && leavesWhenUnready
    if (!clean) this.#cleanSinceMs = undefined
    else if (isPlaced) this.#cleanSinceMs ??= nowMs
  }
}
