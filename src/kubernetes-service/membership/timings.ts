export interface TimingSettings {
  readonly leaseTtlMs: number
  /** The time between two renewals. */
  readonly reconcileIntervalMs: number
  readonly readinessProbePeriodMs: number
}

/** The times of a membership, in milliseconds, and one share of a time. {@link membershipTimings} has the formulas. */
export interface MembershipTimings {
  readonly ttlMs: number
  readonly intervalMs: number
  readonly probePeriodMs: number
  readonly probeTimeoutMs: number
  /** The normal time limit of one request to the lease store, and the limit of one probe that a renewal waits for. */
  readonly attemptMs: number
  /** The time limit of one call of the lease store, which may send several requests in turn. */
  readonly callMs: number
  /** The pause after each of the first {@link PATIENT_ATTEMPTS} failed attempts in a row. */
  readonly retryMs: number
  /** The pause after each further failed attempt. */
  readonly slowRetryMs: number
  /** How long an answer proves that the server lives. */
  readonly answerFreshMs: number
  /** If this long passes between two probes, or during one, the server may have failed unnoticed. */
  readonly unseenMs: number
  /**
   * How long at least a master's own server must have been ready before the master confirms that a failing one may
   * leave.
   */
  readonly leastReadyMs: number
  /**
   * The ready time that is required before a confirmation is this share of the length of the own server's last failure,
   * but at least {@link leastReadyMs}. See {@link readyToConfirmMs}.
   */
  readonly confirmShare: number
  /** How long a stopped master waits until another master confirms its departure. */
  readonly awaitConfirmationMs: number
  /**
   * How long this master waits, after one of its renewals has proved that the store accepts writes, before it reads
   * whether a missing lease is still missing.
   */
  readonly removalMarginMs: number
  /**
   * How long a master recovers after its own renewals failed or came late. In this time, which begins with a successful
   * renewal, it removes another master only if it has seen that master renew since then.
   */
  readonly recoveryMs: number
  /** How long a stopped master may take to leave, including a probe of a hanging server. */
  readonly leavingMs: number
  /** A stopped master gives up when neither its API server nor the lease store has answered for this long. */
  readonly unreachedMs: number
  /** If another client deletes the lease again and again: the longest wait before the master creates it again. */
  readonly contentionMs: number
}

/** If this many attempts in a row fail or hang, the next attempt can still renew the lease in time. */
export const PATIENT_ATTEMPTS = 2

/**
 * In etcd a renewal waits for three answers in turn. The first renewal of a restarted master, or after its lease has
 * ended, waits for nine or more, and on a slow etcd each of them may take longer than `attemptMs` (see `RequestLimit`).
 * With time for eight, a master whose etcd took 1.7 s for each write had no lease for 59 s.
 */
const REQUESTS_PER_CALL = 16

/**
 * Longer than the two seconds after which one of kube-apiserver's two checks of etcd gives up. If both hang, `/readyz`
 * takes longer, and the probe fails.
 */
const PROBE_TIMEOUT_MS = 3_000
/**
 * How long a server may need to be ready again after its etcd is back. After outages of 20 s, kube-apiservers needed
 * 3.7 to 7.9 s. (For longer outages see {@link SERVERS_APART}.)
 */
const SERVER_RECOVERY_MS = 10_000
/**
 * How far apart servers that failed together may recover. The first server that is ready must not conclude that only
 * the other servers fail. After an outage of 20 s, kube-apiservers recovered at most 4.2 s apart. After a longer outage
 * they are further apart: each wait of a server's etcd client (gRPC) is 1.6 times the wait before, so the last wait is
 * about 0.6 of all earlier waits together. With its jitter of 20 % that wait is up to 0.6 × 1.2 = 0.72 of the outage,
 * and a server may recover that much later than etcd; 0.8 leaves a margin. (After 27 to 46 s without etcd,
 * kube-apiservers were ready 1.7 to 29.9 s after etcd.)
 */
const SERVERS_APART = { leastReadyMs: 7_000, confirmShare: 0.8 } as const
/**
 * A longer failure counts as one of this length. The share of 0.8 of it, 144 s, is gRPC's longest back-off: two minutes
 * plus a jitter of 20 %.
 */
const FAILED_MOST_MS = 180_000

export function membershipTimings(settings: TimingSettings): MembershipTimings {
  const { leaseTtlMs: ttlMs, reconcileIntervalMs: intervalMs, readinessProbePeriodMs: probePeriodMs } = settings
  // How long a lease lasts after its renewal is due. Two failed attempts, the pauses after them and a third attempt
  // must fit into this time.
  const budgetMs = ttlMs - intervalMs
  const retryMs = Math.min(250, Math.floor(budgetMs / 20))
  const leavingMs = Math.max(2 * intervalMs, 6_000)
  const attemptMs = Math.floor((budgetMs - PATIENT_ATTEMPTS * retryMs) / (PATIENT_ATTEMPTS + 1))
  return {
    ttlMs,
    intervalMs,
    probePeriodMs,
    probeTimeoutMs: PROBE_TIMEOUT_MS,
    attemptMs,
    callMs: REQUESTS_PER_CALL * attemptMs,
    retryMs,
    slowRetryMs: 1_000,
    // A renewal without a fresh answer probes the server first, so no lease expires because of a long probe period.
    answerFreshMs: Math.min(probePeriodMs + 1_500, 2_500),
    // A renewal without a fresh answer probes the server first. So two probes are at most an interval apart, or two
    // probe periods if one probe is lost. A probe may take its whole timeout.
    unseenMs: Math.max(intervalMs, 2 * probePeriodMs) + PROBE_TIMEOUT_MS,
    ...SERVERS_APART,
    // The other master writes its record at the latest when the probe of its own server has timed out: the record then
    // has the state `failing`.
    awaitConfirmationMs: Math.min(PROBE_TIMEOUT_MS + 1_000, leavingMs - 1_500),
    removalMarginMs: 250,
    // After an outage of the whole fleet, the other masters may need a TTL to renew, and their servers some time to be
    // ready.
    recoveryMs: Math.max(ttlMs, SERVER_RECOVERY_MS),
    leavingMs,
    // Enough time for one probe of a hanging server, and for the store to elect a leader.
    unreachedMs: Math.min(PROBE_TIMEOUT_MS + 2_000, leavingMs),
    contentionMs: ttlMs / 3,
  }
}

/**
 * How long a master's own server must be ready, after a failure of `failedMs`, before the master confirms that a
 * failing one may leave. In milliseconds. Pure.
 */
export function readyToConfirmMs(
  failedMs: number,
  { leastReadyMs, confirmShare }: Pick<MembershipTimings, 'leastReadyMs' | 'confirmShare'> = SERVERS_APART,
): number {
  return Math.max(leastReadyMs, confirmShare * Math.min(failedMs, FAILED_MOST_MS))
}

/**
 * How much of a failure of `failedMs` still counts if the server fails again after it was ready for `readyMs`. The
 * result is `failedMs`, of which at most {@link FAILED_MOST_MS} count, minus `readyMs`, and at least 0. While this
 * server was ready for a short time, other servers may have continued to fail, so for them the two failures may be one.
 * The ready time is subtracted because otherwise one failed probe now and then would put off every confirmation without
 * end. A negative `readyMs` counts as 0. All in milliseconds. Pure.
 */
export function stillCountedMs(failedMs: number, readyMs: number): number {
  return Math.max(0, Math.min(failedMs, FAILED_MOST_MS) - Math.max(0, readyMs))
}
