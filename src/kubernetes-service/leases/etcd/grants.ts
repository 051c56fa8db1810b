import type { EtcdKv, LeaseGrant } from '../../../etcd/kv.ts'
import type { Clock } from '../../../runtime/clock.ts'
import type { Logger } from '../../../telemetry/logger.ts'

/** How much longer a record lasts than its lease, in seconds. */
const OUTLASTS_S = 1
/** The same on a slow store: after a conflict, and after grants that took too long for the shorter time. */
const OUTLASTS_SLOW_S = 3
/** The record outlives the lease by at least this many milliseconds. */
const RECORD_MARGIN_MS = 500
/**
 * Grants that are older than this, in milliseconds, are repeated after a conflict. The TTL runs from the grant: if the
 * lease were written late, it could end before the next renewal, which would then conflict and be late too, and so on
 * for ever.
 */
const GRANTS_OLD_MS = 500

/** The etcd leases to which one renewal attaches its keys; `lease` is 0n if the master must have no lease. */
export interface Grants {
  readonly lease: bigint
  readonly record: bigint
  readonly askedMs: number
  /**
   * When the renewal began. The content of the record is at least as old, so {@link LeaseGrants.repeat} does not
   * prolong the renewal for ever.
   */
  readonly beganMs: number
}

export interface LeaseGrantsOptions {
  readonly etcd: EtcdKv
  readonly clock: Clock
  readonly logger: Logger
  /** The TTL of this master's own lease, in milliseconds: whole seconds, at least two. */
  readonly ttlMs: number
}

/** Requests the etcd leases of one master: one for its lease, and one for its record, which lasts longer. */
export class LeaseGrants {
  readonly #options: LeaseGrantsOptions
  #outlastsS = OUTLASTS_S
  #isRaiseLogged = false

  constructor(options: LeaseGrantsOptions) {
    this.#options = options
  }

  /**
   * Requests the two grants at once, because the slower a renewal is, the less time the lease has until the next
   * renewal: a lease of 3 s expired when each request took 400 ms. The two TTLs begin apart by at most the time that
   * the requests took. If that is too much for the granted TTLs, which a minimum of the store may make equal, the
   * record's grant is requested again, for longer than the lease's grant. This additional request could cost a slow
   * store the lease, so the next renewal requests a record that lasts longer from the start.
   */
  async request(
    listed: boolean,
    beganMs: number,
    signal: AbortSignal,
    outlastsS: number = this.#outlastsS,
  ): Promise<Grants> {
    const { etcd, clock, ttlMs } = this.#options
    const seconds = Math.round(ttlMs / 1000)
    const times = { askedMs: clock.monotonicMs(), beganMs }
    const grant = (ttlS: number): Promise<LeaseGrant> => etcd.grantLease(ttlS, signal)
    if (!listed) return { lease: 0n, record: (await grant(seconds + outlastsS)).id, ...times }
    const [lease, record] = await Promise.all([grant(seconds), grant(seconds + outlastsS)])
    const grantedS = Number(lease.grantedSeconds)
    this.#logRaised(seconds, grantedS)
    const tookMs = clock.monotonicMs() - times.askedMs
    const isShort = (differenceS: number): boolean => tookMs > differenceS * 1000 - RECORD_MARGIN_MS
    this.#outlastsS = isShort(OUTLASTS_S) ? OUTLASTS_SLOW_S : OUTLASTS_S
    const last = isShort(Number(record.grantedSeconds) - grantedS) ? await grant(grantedS + outlastsS) : record
    return { lease: lease.id, record: last.id, ...times }
  }

  /**
   * Requests new grants after a conflict, if the old ones are older than {@link GRANTS_OLD_MS}. The old grants stay if
   * that fails, or if the renewal began a TTL or more ago. So the newest grants are made less than a TTL after the
   * renewal began. About two TTLs after it began they have expired, and etcd, unlike kine, refuses its late writes.
   */
  async repeat(before: Grants, signal: AbortSignal): Promise<Grants> {
    const { clock, ttlMs } = this.#options
    const { lease, askedMs, beganMs } = before
    const nowMs = clock.monotonicMs()
    if (nowMs - askedMs <= GRANTS_OLD_MS || nowMs - beganMs >= ttlMs) return before
    return this.request(lease !== 0n, beganMs, signal, OUTLASTS_SLOW_S).catch(() => before)
  }

  /** Logs once per process that etcd gives a lease a longer TTL than requested. kine grants what is requested. */
  #logRaised(wantedSeconds: number, grantedSeconds: number): void {
    if (this.#isRaiseLogged || grantedSeconds <= wantedSeconds) return
    this.#isRaiseLogged = true
    this.#options.logger.warn(
      { wantedSeconds, grantedSeconds },
      'etcd grants a longer TTL than --lease-ttl, because its minimum is one and a half election timeouts; after its death this master stays listed for that long',
    )
  }
}
