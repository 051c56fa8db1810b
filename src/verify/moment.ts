import type { MemberHistory } from './member-history.ts'
import type { Bounds, Listing, ObservedObjects, ObservedRequest } from './observation.ts'

/** The observations up to one moment. */
export interface Moment {
  readonly nowMs: number
  readonly bounds: Bounds
  readonly histories: readonly MemberHistory[]
  readonly listings: readonly Successor[]
  readonly requests: readonly ObservedRequest[]
  /** How many writes each master, by name, sent in the last ten seconds. Events do not count. */
  readonly writes: ReadonlyMap<string, number>
  /** The observations of objects other than the lists since the last moment, each with the one before it. */
  readonly objects: readonly { readonly found: ObservedObjects; readonly before: ObservedObjects | undefined }[]
  /** The latest version of each list, damage included; undefined before the first. */
  readonly latest: Readonly<Record<Listing['object'], Listing | undefined>>
  /** Since when the slice has listed each of its addresses. Versions that are damage do not count. */
  readonly listedSinceMs: ReadonlyMap<string, number>
  /** Since when Endpoints and slice have listed different addresses; undefined while they agree. */
  readonly differSinceMs: number | undefined
  /** Which system namespaces are missing now, and since when. */
  readonly missing: { readonly namespaces: readonly string[]; readonly sinceMs: number }
  /** The last damage of each of the two lists; undefined if there was none. */
  readonly damaged: Readonly<Record<Listing['object'], Listing | undefined>>
  /** When any object, a list or another, was last damaged; 0 if none was. */
  readonly damagedAtMs: number
  /** When an object other than the lists was last damaged; negative infinity if none was. */
  readonly objectsDamagedAtMs: number
  /** The last period in which no master could renew a lease; both ends are negative infinity if there was none. */
  readonly unrenewed: { readonly sinceMs: number; readonly untilMs: number }
  /**
   * The last moment at which no lease could expire; each lease lasts for a whole TTL from then. 0 if there was none.
   */
  readonly leasesSinceMs: number
  /** When the state of a member last changed, an object was last damaged, or the checks began: the latest of these. */
  readonly changedAtMs: number
}

/** A version of a list, and the last version before it that was not damage. */
export interface Successor {
  readonly listing: Listing
  readonly before: Listing | undefined
  /** Since when each address of `before` has been listed without a break. */
  readonly since: ReadonlyMap<string, number>
}

export interface Breach {
  /** The master, address or object, or two of these, that break the invariant. A breach that continues counts once. */
  readonly of: string
  /** The breach in words. Times in it are durations, never moments. */
  readonly detail: string
}

/**
 * After an outage a master waits at most this long for renewals, or for its own TTL if that is longer, in milliseconds.
 * This is the TTL of a kube-apiserver.
 */
const SUSPICION_MS = 15_000

/** How long a request that was sent just before the end of an outage takes to time out, in milliseconds. */
const LAST_ATTEMPT_MS = 2_000

/** How long a master may wait for renewals after an outage, in milliseconds, if the longest TTL is `ttlMs`. */
export function suspicionMs(ttlMs: number): number {
  return Math.max(ttlMs, SUSPICION_MS) + LAST_ATTEMPT_MS
}

/**
 * How long the fleet may be out of sync after the last fault, in milliseconds. A TTL of more than 15 s adds to this
 * time, because a master waits for the renewals of other masters as long as its own TTL.
 */
export function recoveryMs({ bounds, histories }: Pick<Moment, 'bounds' | 'histories'>): number {
  const longestMs = Math.max(0, ...histories.map(({ ttlMs }) => ttlMs))
  return bounds.recoveryMs + Math.max(0, longestMs - SUSPICION_MS)
}

/** The addresses that clients use: those in the latest slice. */
export function listedNow({ latest }: Moment): readonly string[] {
  return latest.slice?.addresses ?? []
}

/**
 * The masters that must correct the list, without those at `addresses`. If the fleet has masters of this program, only
 * these must: they see a change at once. Otherwise the kube-apiservers must, at their next ticks.
 */
export function observers(all: readonly MemberHistory[], addresses: readonly string[] = []): readonly MemberHistory[] {
  const others = all.filter(({ address }) => !addresses.includes(address))
  const ours = others.filter(({ kind }) => kind === 'apiserver-bootstrap')
  return all.some(({ kind }) => kind === 'apiserver-bootstrap') ? ours : others
}

/**
 * Whether a holder of the address, perhaps a later life of this master, has a shorter TTL or is too slow to renew in
 * time. In etcd all holders of an address share one lease, with the TTL of the holder that renewed it last.
 */
export function sharesShorterLease({ address, ttlMs }: MemberHistory, all: readonly MemberHistory[]): boolean {
  return all.some((other) => other.address === address && (other.state.leaseTtlMs < ttlMs || other.isTooSlow))
}

/**
 * Whether this is a kube-apiserver that may have omitted a renewal since the last damage. If its tick creates the
 * Service at the same moment as another client, the create is refused, because the ClusterIP is allocated. This tick
 * then renews no lease.
 */
export function mayHaveOmittedRenewal({ kind, state, ttlMs, lagMs }: MemberHistory, moment: Moment): boolean {
  const sinceMs = moment.nowMs - moment.objectsDamagedAtMs
  return kind === 'kube-apiserver' && sinceMs <= ttlMs + state.reconcileIntervalMs + lagMs
}

/** Whether a kube-apiserver may have written this slice: without a guard, so perhaps from an old state. */
export function isUnguarded({ object, by }: Listing, all: readonly MemberHistory[]): boolean {
  if (object !== 'slice') return false
  return all.some(({ kind, name }) => kind === 'kube-apiserver' && (by === undefined || name === by))
}

/**
 * The greatest age of the state on which a write is based, in milliseconds: the lag of the writer, or the largest lag
 * if the writer is unknown.
 */
export function ageOf({ by }: Listing, all: readonly MemberHistory[]): number {
  return Math.max(0, ...all.filter(({ name }) => by === undefined || name === by).map(({ lagMs }) => lagMs))
}

/**
 * Whether `observer` must have removed all of `dead` from the list by now, because their leases have expired and
 * `observer` has had time to act. After an outage or its own start, `observer` first waits for renewals.
 */
export function mustHaveRemoved(
  observer: MemberHistory,
  dead: readonly MemberHistory[],
  { nowMs, leasesSinceMs, bounds }: Moment,
): boolean {
  const { watchingSinceMs } = observer
  if (watchingSinceMs === undefined) return false
  const outageEndMs = Math.max(watchingSinceMs, leasesSinceMs)
  return dead.every(({ deadSinceMs, ttlMs }) => {
    if (deadSinceMs === undefined) return false
    const dueMs = Math.max(deadSinceMs + ttlMs, outageEndMs + suspicionMs(Math.max(ttlMs, observer.ttlMs)))
    // The lease may end while the observer renews its own lease. Then only the observer's next renewal proves the end.
    return nowMs > dueMs + bounds.removalMarginMs + latenessOf(observer) + observer.lagMs
  })
}

/** How late a master may correct a change, in milliseconds. A kube-apiserver waits for its next tick. */
export function latenessOf({ kind, state, lagMs }: MemberHistory): number {
  return lagMs + (kind === 'kube-apiserver' ? state.reconcileIntervalMs : 0)
}

/**
 * How much later a master may leave, in milliseconds, because of its own slow messages and those of the fastest
 * confirmer. A kube-apiserver may leave another interval later.
 */
export function departureLagMs(leaving: MemberHistory, { histories }: Moment): number {
  const others = histories.filter((other) => other !== leaving && other.goneSinceMs === undefined)
  const confirmationMs = others.length === 0 ? 0 : Math.min(...others.map(({ lagMs }) => lagMs))
  return latenessOf(leaving) + leaving.lagMs + confirmationMs
}

/** The addresses in `before` that `listing` lacks; none for damage. */
export function removedAddresses({ listing, before }: Successor): readonly string[] {
  if (listing.byDamage) return []
  const { addresses = [] } = listing
  return (before?.addresses ?? []).filter((address) => !addresses.includes(address))
}

/** The addresses in `listing` that `before` lacks; none for damage. */
export function addedAddresses({ listing, before }: Successor): readonly string[] {
  if (listing.byDamage) return []
  return (listing.addresses ?? []).filter((address) => before?.addresses?.includes(address) !== true)
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

export function names(listed: readonly string[] | undefined): string {
  return listed === undefined || listed.length === 0 ? 'nobody' : listed.join(', ')
}
