import type { Bounds } from './bounds.ts'
import type { Listing } from './listing.ts'
import type { MemberHistory } from './member-history.ts'
import type { ObservedObjects, ObservedRequest } from './observation.ts'

/** What there is to judge by at one moment. */
export interface Moment {
  readonly nowMs: number
  readonly bounds: Bounds
  readonly histories: readonly MemberHistory[]
  /** What was listed since the last moment. */
  readonly listings: readonly Successor[]
  /** What the masters asked for since the last moment. */
  readonly requests: readonly ObservedRequest[]
  /** How often each master wrote in the last ten seconds. */
  readonly writes: ReadonlyMap<string, number>
  /** What was found beside the lists since the last moment, each with what was found before. */
  readonly objects: readonly { readonly found: ObservedObjects; readonly before: ObservedObjects | undefined }[]
  /** What is listed now; undefined until anything was. */
  readonly latest: Readonly<Record<Listing['object'], Listing | undefined>>
  /** Since when the slice has listed each of its addresses. */
  readonly listedSinceMs: ReadonlyMap<string, number>
  /** Since when the two have listed different addresses; undefined while they agree. */
  readonly differSinceMs: number | undefined
  /** Which system namespaces are missing now, and since when. */
  readonly missing: { readonly namespaces: readonly string[]; readonly sinceMs: number }
  /** What somebody last spoiled each of the two lists to; undefined if nobody did. */
  readonly spoiled: Readonly<Record<Listing['object'], Listing | undefined>>
  /** When somebody last spoiled an object. */
  readonly damagedAtMs: number
  /** When somebody last spoiled what is beside the lists; long ago if nobody did. */
  readonly objectsDamagedAtMs: number
  /** The last time in which nobody renewed a lease; long ago if somebody always did. */
  readonly unrenewed: { readonly sinceMs: number; readonly untilMs: number }
  /** Since when leases can end: the last time that they began anew. */
  readonly leasesSinceMs: number
  /** When anything was last done to the fleet, or became of it. */
  readonly changedAtMs: number
}

/** A version of an object. What somebody spoiled on purpose is nobody's predecessor. */
export interface Successor {
  readonly listing: Listing
  readonly before: Listing | undefined
  /** Since when each address that was listed before has been listed without a break. */
  readonly since: ReadonlyMap<string, number>
}

/** Something that is not as it must be. */
export interface Breach {
  /** Of whom or what: while it goes on it is one breach. */
  readonly of: string
  /** In words, with durations only. */
  readonly detail: string
}

/** A kube-apiserver's TTL, which a master whose store was away gives the others to renew their leases, in milliseconds. */
const DOUBT_MS = 15_000

/** What was asked just before an outage ended must time out first, in milliseconds. */
const LAST_ATTEMPT_MS = 2_000

/** How long a lease of so much may still count after an outage. */
export function doubtMs(ttlMs: number): number {
  return Math.max(ttlMs, DOUBT_MS) + LAST_ATTEMPT_MS
}

/** After the last fault, until everything is right: those with long leases give the others as long. */
export function recoveryMs({ bounds, histories }: Pick<Moment, 'bounds' | 'histories'>): number {
  const longestMs = Math.max(0, ...histories.map(({ ttlMs }) => ttlMs))
  return bounds.recoveryMs + Math.max(0, longestMs - DOUBT_MS)
}

/** What the slice lists now: what clients use. */
export function listedNow({ latest }: Moment): readonly string[] {
  return latest.slice?.addresses ?? []
}

/**
 * Who looks after the list at another address than those: ours, which see at once what others see at their next tick; where there are
 * none, kube-apiservers.
 */
export function observers(all: readonly MemberHistory[], addresses: readonly string[] = []): readonly MemberHistory[] {
  const others = all.filter(({ address }) => !addresses.includes(address))
  const ours = others.filter(({ kind }) => kind === 'apiserver-bootstrap')
  return all.some(({ kind }) => kind === 'apiserver-bootstrap') ? ours : others
}

/**
 * Whether another behind the same address has, or had, shorter leases, or is so slow that its own are over before their time. There is one
 * lease for both, which is as long as whoever renewed it last has it: it may end before this one's next renewal.
 */
export function sharesShorterLease({ address, ttlMs }: MemberHistory, all: readonly MemberHistory[]): boolean {
  return all.some((other) => other.address === address && (other.state.leaseTtlMs < ttlMs || other.isTooSlow))
}

/**
 * Whether it may have missed a renewal: a kube-apiserver whose tick comes to make the Service at the same moment as somebody else does is
 * refused, because the ClusterIP is taken, and renews nothing until its next one.
 */
export function mayHaveMissedTick({ kind, state, ttlMs, lagMs }: MemberHistory, moment: Moment): boolean {
  const sinceMs = moment.nowMs - moment.objectsDamagedAtMs
  return kind === 'kube-apiserver' && sinceMs <= ttlMs + state.reconcileIntervalMs + lagMs
}

/** Whether a kube-apiserver wrote it: it guards its writes to a slice by nothing, so they may rest on what was so long ago. */
export function isUnguarded({ object, by }: Listing, all: readonly MemberHistory[]): boolean {
  if (object !== 'slice') return false
  return all.some(({ kind, name }) => kind === 'kube-apiserver' && (by === undefined || name === by))
}

/** How old what a version of an object rests on may be: as slowly as its writer's messages go. */
export function ageOf({ by }: Listing, all: readonly MemberHistory[]): number {
  return Math.max(0, ...all.filter(({ name }) => by === undefined || name === by).map(({ lagMs }) => lagMs))
}

/**
 * Whether the leases of all these have ended for whoever looks after the list, and it has had the time to say so: after an outage, or its
 * own start, it gives them the time to be renewed.
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
    const dueMs = Math.max(deadSinceMs + ttlMs, outageEndMs + doubtMs(Math.max(ttlMs, observer.ttlMs)))
    return nowMs > dueMs + bounds.removalMarginMs + latenessOf(observer)
  })
}

/** How much later than at once it sees and does what is to be done: at its next tick, and as slowly as its messages go. */
export function latenessOf({ kind, state, lagMs }: MemberHistory): number {
  return lagMs + (kind === 'kube-apiserver' ? state.reconcileIntervalMs : 0)
}

/** Which addresses a version of an object no longer lists. */
export function goneFrom({ listing, before }: Successor): readonly string[] {
  if (listing.byDamage) return []
  const { addresses = [] } = listing
  return (before?.addresses ?? []).filter((address) => !addresses.includes(address))
}

/** Which addresses a version of an object lists anew. */
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
