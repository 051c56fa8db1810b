import type { MemberHistory } from './member-history.ts'
import type { Bounds, Listing, ObservedObjects, ObservedRequest } from './observation.ts'

/** The observations up to one moment. */
export interface Moment {
  readonly nowMs: number
  readonly bounds: Bounds
  readonly histories: readonly MemberHistory[]
  /** The listings since the last moment. */
  readonly listings: readonly Successor[]
  /** The requests of the masters since the last moment. */
  readonly requests: readonly ObservedRequest[]
  /** How often each master wrote in the last ten seconds. */
  readonly writes: ReadonlyMap<string, number>
  /** The observations beside the lists since the last moment, each with the one before. */
  readonly objects: readonly { readonly found: ObservedObjects; readonly before: ObservedObjects | undefined }[]
  /** The present lists; undefined before the first. */
  readonly latest: Readonly<Record<Listing['object'], Listing | undefined>>
  /** Since when the slice has listed each of its addresses. */
  readonly listedSinceMs: ReadonlyMap<string, number>
  /** Since when the two have listed different addresses; undefined while they agree. */
  readonly differSinceMs: number | undefined
  /** Which system namespaces are missing now, and since when. */
  readonly missing: { readonly namespaces: readonly string[]; readonly sinceMs: number }
  /** The last content with which each of the two lists was overwritten; undefined without an overwrite. */
  readonly spoiled: Readonly<Record<Listing['object'], Listing | undefined>>
  /** When an object was last overwritten. */
  readonly damagedAtMs: number
  /** When an object beside the lists was last overwritten; long ago without an overwrite. */
  readonly objectsDamagedAtMs: number
  /** The last time in which no master renewed a lease; long ago without one. */
  readonly unrenewed: { readonly sinceMs: number; readonly untilMs: number }
  /** Since when leases can expire: the last time that their TTLs started again. */
  readonly leasesSinceMs: number
  /** When the fleet or its state last changed. */
  readonly changedAtMs: number
}

/** A version of an object. A deliberate overwrite is not a predecessor. */
export interface Successor {
  readonly listing: Listing
  readonly before: Listing | undefined
  /** Since when each previously listed address has been listed without a break. */
  readonly since: ReadonlyMap<string, number>
}

/** A breach of an invariant. */
export interface Breach {
  /** The master or object: while the breach continues it counts once. */
  readonly of: string
  /** In words, with durations only. */
  readonly detail: string
}

/**
 * A kube-apiserver's TTL, which a master whose store was away gives the others to renew their leases, in milliseconds.
 */
const SUSPICION_MS = 15_000

/** A request just before the end of an outage must time out first, in milliseconds. */
const LAST_ATTEMPT_MS = 2_000

/** How long a lease with this TTL may still count after an outage. */
export function suspicionMs(ttlMs: number): number {
  return Math.max(ttlMs, SUSPICION_MS) + LAST_ATTEMPT_MS
}

/** The time after the last fault until everything is in sync: masters with long leases give the others as long. */
export function recoveryMs({ bounds, histories }: Pick<Moment, 'bounds' | 'histories'>): number {
  const longestMs = Math.max(0, ...histories.map(({ ttlMs }) => ttlMs))
  return bounds.recoveryMs + Math.max(0, longestMs - SUSPICION_MS)
}

/** The addresses in the slice now, which clients use. */
export function listedNow({ latest }: Moment): readonly string[] {
  return latest.slice?.addresses ?? []
}

/**
 * The masters that manage the list at an address other than those: ours, which see at once what others see at their
 * next tick; where there are none, kube-apiservers.
 */
export function observers(all: readonly MemberHistory[], addresses: readonly string[] = []): readonly MemberHistory[] {
  const others = all.filter(({ address }) => !addresses.includes(address))
  const ours = others.filter(({ kind }) => kind === 'apiserver-bootstrap')
  return all.some(({ kind }) => kind === 'apiserver-bootstrap') ? ours : others
}

/**
 * Whether a co-holder of the address has, or had, shorter leases, or is so slow that its own expire early. The one
 * lease has the TTL of its last renewal: it may expire before this master's next renewal.
 */
export function sharesShorterLease({ address, ttlMs }: MemberHistory, all: readonly MemberHistory[]): boolean {
  return all.some((other) => other.address === address && (other.state.leaseTtlMs < ttlMs || other.isTooSlow))
}

/**
 * Whether it may have missed a renewal: if a kube-apiserver's tick creates the Service at the same moment as another
 * client, it is refused, because the ClusterIP is allocated, and renews nothing until its next tick.
 */
export function mayHaveMissedTick({ kind, state, ttlMs, lagMs }: MemberHistory, moment: Moment): boolean {
  const sinceMs = moment.nowMs - moment.objectsDamagedAtMs
  return kind === 'kube-apiserver' && sinceMs <= ttlMs + state.reconcileIntervalMs + lagMs
}

/** Whether a kube-apiserver wrote it: its writes to a slice have no guard, so they may be based on a state this old. */
export function isUnguarded({ object, by }: Listing, all: readonly MemberHistory[]): boolean {
  if (object !== 'slice') return false
  return all.some(({ kind, name }) => kind === 'kube-apiserver' && (by === undefined || name === by))
}

/** How old the state behind a version of an object may be: the delay of its writer's messages. */
export function ageOf({ by }: Listing, all: readonly MemberHistory[]): number {
  return Math.max(0, ...all.filter(({ name }) => by === undefined || name === by).map(({ lagMs }) => lagMs))
}

/**
 * Whether the leases of all these have expired for a master that manages the list, which has had the time to act: after
 * an outage, or its own start, it gives them the time to be renewed.
 */
export function areOverFor(
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
    return nowMs > dueMs + bounds.removalMarginMs + latenessOf(observer)
  })
}

/** How late it detects and corrects something: at its next tick, and with the delay of its messages. */
export function latenessOf({ kind, state, lagMs }: MemberHistory): number {
  return lagMs + (kind === 'kube-apiserver' ? state.reconcileIntervalMs : 0)
}

/** The addresses that a version of an object no longer lists. */
export function goneFrom({ listing, before }: Successor): readonly string[] {
  if (listing.byDamage) return []
  const { addresses = [] } = listing
  return (before?.addresses ?? []).filter((address) => !addresses.includes(address))
}

/** The addresses that a version of an object newly lists. */
export function comeTo({ listing, before }: Successor): readonly string[] {
  if (listing.byDamage) return []
  return (listing.addresses ?? []).filter((address) => before?.addresses?.includes(address) !== true)
}

/** A duration for people. */
export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

export function names(listed: readonly string[] | undefined): string {
  return listed === undefined || listed.length === 0 ? 'nobody' : listed.join(', ')
}
