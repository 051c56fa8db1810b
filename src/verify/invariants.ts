import type { ApiRequest } from '../kube/transport.ts'
import type { Listing } from './listing.ts'
import type { MemberHistory } from './member-history.ts'

/** How much later than its lease's end a dead master may still be listed, in milliseconds. */
const MARGIN_MS = 2_000
/** A kube-apiserver's interval, and a little, in milliseconds. */
const TICK_MS = 11_000
/** How long a master whose store was away gives the others to renew their leases, in milliseconds: a kube-apiserver's TTL. */
const DOUBT_MS = 15_000
/** Until a master that was told to stop is off the list. */
const LEAVING_MS = 3_000
/** Until a master that is not ready is: three seconds, a second to look around, the probes' period, and the writes. */
const UNREADY_MS = 7_000

/** What one master may write in ten seconds, its leases included: mending everything several times over takes less. */
const MAX_WRITES = 40
/** What is said of somebody who keeps undoing what a master writes. Nobody does here. */
const BACK_OFFS = ['ForeignOverwrite', 'LeaseContested', 'OtherReconcilerActive']

/** What a member asked its API server for. */
export interface ObservedRequest {
  readonly atMs: number
  readonly by: string
  readonly request: Pick<ApiRequest, 'method' | 'path' | 'body'>
}

/** What there is to judge by at one moment. */
export interface Moment {
  readonly nowMs: number
  readonly histories: readonly MemberHistory[]
  /** What was listed since the last moment. */
  readonly listings: readonly Successor[]
  /** What the masters asked for since the last moment. */
  readonly requests: readonly ObservedRequest[]
  /** How often each master wrote in the last ten seconds. */
  readonly writes: ReadonlyMap<string, number>
  /** What is listed now. */
  readonly listed: readonly string[]
  /** When somebody last spoiled an object. */
  readonly damagedAtMs: number
  /** Since when leases can end: the last time that they began anew. */
  readonly leasesSinceMs: number
}

/** A version of an object. What somebody spoiled on purpose is nobody's predecessor. */
export interface Successor {
  readonly listing: Listing
  readonly before: Listing | undefined
  /** Since when each address that was listed before has been listed without a break. */
  readonly since: ReadonlyMap<string, number>
}

interface EventBody {
  readonly reason?: string
  readonly note?: string
}

/** What must hold all the time: a sentence, and where it does not. */
export const invariants: Readonly<Record<string, (moment: Moment) => readonly string[]>> = {
  'the list is never empty while anybody lives': ({ listings, histories }) =>
    listings
      .filter(({ listing: { addresses = [], atMs, byDamage, by } }) => {
        const writer = histories.find(({ member }) => member.name === by)?.member
        // A kube-apiserver that stops leaves an empty list; one of ours does when no server answers any more.
        const upstream = writer?.kind === 'kube-apiserver'
        const dead = writer?.answering === false && !histories.some((history) => seemsToLive(history, atMs))
        return addresses.length === 0 && !byDamage && !upstream && !dead
      })
      .map(({ listing }) => `${listing.object} at ${at(listing.atMs)}`),

  'no address goes while one of its masters has no cause to': ({ listings, histories }) =>
    listings.flatMap(({ listing, before }) =>
      goneFrom(listing, before).flatMap((address) =>
        histories
          .filter((history) => history.address === address && history.causeToGo(listing.atMs) === undefined)
          .map(({ member }) => `${address} of ${member.name} from ${listing.object} at ${at(listing.atMs)}`),
      ),
    ),

  'an address that comes stays while its master is well': ({ listings, histories }) =>
    listings.flatMap(({ listing, before, since }) =>
      goneFrom(listing, before).flatMap((address) => {
        // A kube-apiserver guards its write to a slice by nothing.
        if (listing.object === 'slice' && histories.some(({ member }) => member.kind === 'kube-apiserver')) return []
        const wellBefore = (history: MemberHistory): boolean =>
          history.address === address &&
          !(history.member.kind === 'kube-apiserver') &&
          (history.wellSinceMs ?? listing.atMs) < (since.get(address) ?? 0)
        return histories
          .filter((history) => wellBefore(history) && !history.isRecovering(listing.atMs))
          .map(({ member }) => `${address} of ${member.name} from ${listing.object} at ${at(listing.atMs)}`)
      }),
    ),

  'a dead master is listed until its lease ends, and no longer': ({ nowMs, histories, listed, leasesSinceMs }) =>
    listed.flatMap((address) => {
      const own = histories.filter((history) => history.address === address)
      const goneMs = Math.max(...own.map(({ goneSinceMs = Number.POSITIVE_INFINITY }) => goneSinceMs))
      const ttlMs = Math.max(...own.map((history) => history.ttlMs))
      const seen = observers(histories, own).some(({ watchingSinceMs = nowMs }) => {
        const outageEndMs = Math.max(watchingSinceMs, leasesSinceMs)
        return nowMs > Math.max(goneMs + ttlMs, outageEndMs + Math.max(ttlMs, DOUBT_MS)) + MARGIN_MS
      })
      return seen ? [`${address}, gone since ${at(goneMs)}, at ${at(nowMs)}`] : []
    }),

  'a master that is well is listed': ({ nowMs, histories, listed, damagedAtMs }) =>
    histories
      .filter((history) => history.isSettled(nowMs) && !listed.includes(history.address))
      // Those that act at their ticks alone mend nothing before.
      .filter(() => nowMs - damagedAtMs > TICK_MS || observers(histories, []).some((one) => one.isSettled(nowMs)))
      .map(({ member, wellSinceMs }) => `${member.name}, well since ${at(wellSinceMs)}, is not at ${at(nowMs)}`),

  'a master that is told to stop leaves at once while another serves': ({ nowMs, histories, listed }) =>
    lateToLeave(nowMs, histories, listed, LEAVING_MS, (history) => history.leavingSinceMs),

  'a master that is not ready leaves while another serves': ({ nowMs, histories, listed }) =>
    lateToLeave(nowMs, histories, listed, UNREADY_MS, (history) => history.cleanlyUnreadySinceMs),

  'nobody leaves because it is not ready for others who are not either': ({ listings, histories }) =>
    listings.flatMap(({ listing, before }) => {
      const gone = histories.filter(({ address }) => goneFrom(listing, before).includes(address))
      const stay = histories.filter(({ address }) => listing.addresses?.includes(address))
      const sinceMs = Math.max(...stay.map((history) => history.cleanlyUnreadySinceMs ?? Number.POSITIVE_INFINITY))
      return gone
        .filter(({ cleanlyUnreadySinceMs }) => cleanlyUnreadySinceMs !== undefined && cleanlyUnreadySinceMs >= sinceMs)
        .map(({ member }) => `${member.name} from ${listing.object} at ${at(listing.atMs)}`)
    }),

  'nobody is taken for a foreign writer': ({ requests }) =>
    requests.flatMap(({ atMs, by, request }) => {
      const { reason, note } = (request.path.endsWith('/events') ? request.body : {}) as EventBody
      return BACK_OFFS.includes(reason ?? '') ? [`${by} at ${at(atMs)}: ${note}`] : []
    }),

  'writes are few': ({ nowMs, writes }) =>
    [...writes].flatMap(([by, count]) => (count > MAX_WRITES ? [`${count} of ${by} until ${at(nowMs)}`] : [])),
}

/** Runs beside a server that answers, and has had the time to say so. */
function seemsToLive({ member: { running, answering }, wellSinceMs = 0 }: MemberHistory, atMs: number): boolean {
  return running && answering && wellSinceMs < atMs - 1_000
}

export function isWrite({ request }: ObservedRequest): boolean {
  return request.method !== 'GET' && !request.path.endsWith('/events')
}

function lateToLeave(
  nowMs: number,
  histories: readonly MemberHistory[],
  listed: readonly string[],
  withinMs: number,
  sinceOf: (history: MemberHistory) => number | undefined,
): readonly string[] {
  return histories.flatMap((history) => {
    const sinceMs = sinceOf(history)
    if (sinceMs === undefined || nowMs - sinceMs <= withinMs || !listed.includes(history.address)) return []
    const beside = histories.filter(({ address, member }) => address === history.address && member !== history.member)
    if (beside.some(({ goneSinceMs }) => goneSinceMs === undefined || nowMs - goneSinceMs < 20_000)) return []
    const seen = observers(histories, [history]).some((other) => other.isSettled(sinceMs) && other.isSettled(nowMs))
    return seen ? [`${history.member.name}, since ${at(sinceMs)}, is still listed at ${at(nowMs)}`] : []
  })
}

/** Ours, which see at once what others see at their next tick. */
function observers(all: readonly MemberHistory[], except: readonly MemberHistory[]): readonly MemberHistory[] {
  return all.filter(
    (history) =>
      !except.includes(history) &&
      !(history.member.kind === 'kube-apiserver') &&
      except.every(({ address }) => address !== history.address),
  )
}

function goneFrom(listing: Listing | undefined, before: Listing | undefined): readonly string[] {
  if (listing === undefined || listing.byDamage) return []
  return (before?.addresses ?? []).filter((address) => listing.addresses?.includes(address) !== true)
}

export function at(ms: number | undefined): string {
  return ms === undefined ? 'never' : `${Math.round(ms)}`
}
