export interface TimingSettings {
  readonly leaseTtlMs: number
  /** The time between two renewals. */
  readonly reconcileIntervalMs: number
  readonly readinessProbePeriodMs: number
}

/**
 * All times of a membership, in milliseconds. The state machine, the invariants, the drills and the docs use this
 * record. {@link membershipTimings} has the formulas.
 */
export interface MembershipTimings {
  readonly ttlMs: number
  readonly intervalMs: number
  readonly probePeriodMs: number
  readonly probeTimeoutMs: number
  /** How long one request to the lease store, or one probe that a renewal waits for, may take. */
  readonly attemptMs: number
  /** How long one call of the lease store may take in all: several requests, each within {@link attemptMs}. */
  readonly callMs: number
  /** The pause between two attempts, for the first {@link PATIENT_ATTEMPTS} failures. */
  readonly retryMs: number
  /** The pause between two attempts after that. */
  readonly slowRetryMs: number
  /** How long an answer proves that the server lives. */
  readonly answerFreshMs: number
  /** If this long passes between two probes, or during one, the server may have failed unnoticed. */
  readonly unseenMs: number
  /** How long a master must have served, at least, before it confirms a departure because of unreadiness. */
  readonly confirmAfterMs: number
  /**
   * The master must have served for this share of its server's last failure, if longer than {@link confirmAfterMs}; see
   * {@link confirmationAfterMs}.
   */
  readonly confirmShare: number
  /** How long a stopped master waits for another to confirm that it serves. */
  readonly confirmationMs: number
  /** How long the address of an expired lease stays after this master has proved that the store accepts writes. */
  readonly removalMarginMs: number
  /**
   * How long a master recovers after its own renewals failed or came late. In this time, which begins with a successful
   * renewal, it removes another master only if it has seen that master renew since.
   */
  readonly recoveryMs: number
  /** How long a stopped master may take to leave, including a probe of a hanging server. */
  readonly leavingMs: number
  /** A stopped master gives up when neither its API server nor the lease store has answered for this long. */
  readonly unreachedMs: number
  /** The longest wait before a lease that another client keeps deleting is created again. */
  readonly contentionMs: number
}

/** After this many attempts in a row that failed or hung, the next attempt is still in time. */
export const PATIENT_ATTEMPTS = 2

/**
 * In etcd a renewal waits for three answers in turn. The first renewal of a restarted master waits for nine on a slow
 * etcd. Time for eight is enough, because most of these take less than an attempt.
 */
const REQUESTS_PER_CALL = 8

/** kube-apiserver's check of a hung etcd gives up after two seconds, so a probe must be allowed longer than that. */
const PROBE_TIMEOUT_MS = 3_000
/**
 * After outages of 20 s, kube-apiservers were ready 3.7 to 7.9 s after their etcd (for longer outages see
 * {@link SERVERS_APART}). For this time they must not count as failed.
 */
const SERVER_RECOVERY_MS = 10_000
/**
 * How far apart servers that failed together may recover: the first must not conclude that only the others fail. After
 * an outage of 20 s kube-apiservers recovered at most 4.2 s apart. After a longer one they are further apart: each wait
 * of a server's etcd client (gRPC) is 1.6 times the wait before, so it is about 0.6 of all earlier waits together. With
 * its jitter of 20 % the last server recovers up to 0.6 × 1.2 = 0.72 of the outage later; 0.8 leaves a margin. After 27
 * to 46 s without etcd they were ready 1.7 to 29.9 s after etcd.
 */
const SERVERS_APART = { confirmAfterMs: 7_000, confirmShare: 0.8 } as const
/**
 * A longer failure counts as this long: its share of 0.8, 144 s, is gRPC's longest back-off, two minutes plus a fifth.
 */
const FAILED_MOST_MS = 180_000

export function membershipTimings(settings: TimingSettings): MembershipTimings {
  const { leaseTtlMs: ttlMs, reconcileIntervalMs: intervalMs, readinessProbePeriodMs: probePeriodMs } = settings
  // The rest of a lease whose renewal is due: two failed attempts, their pauses and a third attempt must fit into it.
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
    // A renewal without a fresh answer probes, so two probes are at most an interval apart, or two probe periods if one
    // probe is lost. A probe may take its whole timeout.
    unseenMs: Math.max(intervalMs, 2 * probePeriodMs) + PROBE_TIMEOUT_MS,
    ...SERVERS_APART,
    // The other master answers at the latest when its probe has timed out: its record then states a failing server.
    confirmationMs: Math.min(PROBE_TIMEOUT_MS + 1_000, leavingMs - 1_500),
    removalMarginMs: 250,
    // After a common outage the other masters need a TTL to renew, and their servers need some time to be ready.
    recoveryMs: Math.max(ttlMs, SERVER_RECOVERY_MS),
    leavingMs,
    // Enough time for one probe of a hanging server, and for the store to elect a leader.
    unreachedMs: Math.min(PROBE_TIMEOUT_MS + 2_000, leavingMs),
    contentionMs: ttlMs / 3,
  }
}

/**
 * How long a master must serve before it confirms a departure because of unreadiness, after a failure of `failedMs`.
 * Pure.
 */
export function confirmationAfterMs(
  failedMs: number,
  { confirmAfterMs, confirmShare }: Pick<MembershipTimings, 'confirmAfterMs' | 'confirmShare'> = SERVERS_APART,
): number {
  return Math.max(confirmAfterMs, confirmShare * Math.min(failedMs, FAILED_MOST_MS))
}

/**
 * How much of a failure of `failedMs` still counts if the server fails again after it was ready for `readyMs`: the
 * difference of the two. Other servers may have failed throughout a short time in which this one was ready, so for them
 * both failures are one. But the time between two failures must not count as failed, or one failed probe now and then
 * would put off every confirmation without end. A negative `readyMs` counts as 0. All in milliseconds. Pure.
 */
export function stillCountedMs(failedMs: number, readyMs: number): number {
  return Math.max(0, Math.min(failedMs, FAILED_MOST_MS) - Math.max(0, readyMs))
}
