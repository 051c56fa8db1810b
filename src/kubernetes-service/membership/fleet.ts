import type { Endpoints } from '../../kube/resources.ts'
import { addressesIn } from '../identity.ts'
import type { Holder, MasterLease } from '../leases/master-leases.ts'
import { isHeldBy, keepingPlaces, othersReady } from '../members.ts'
import type { AnnouncedDeparture, EndedLease, FleetFacts, Membership } from './state.ts'
import type { MembershipTimings } from './timings.ts'

/** Before anything was read. */
export const unknownFleet: FleetFacts = {
  leases: [],
  ended: [],
  departures: [],
  readAtMs: undefined,
  reading: undefined,
  isReadDue: false,
  retryAtMs: 0,
}

/**
 * Takes in a read of the leases. Pure.
 *
 * A lease that was there at the last read and is gone may have ended because nobody could renew: the store takes no writes, or all
 * servers hang. So it is kept as doubtful until this master has renewed its own lease after that, and a read a moment later does not
 * show the lease again. Masters that said that they leave went on purpose and are not kept. This master's own lease is kept as well:
 * whoever reads this lives, and is about to renew it.
 */
export function fleetAfterRead(
  { fleet, self, lease: { trust, renewedAtMs } }: Pick<Membership, 'fleet' | 'self' | 'lease'>,
  read: { readonly leases: readonly MasterLease[]; readonly sentAtMs: number },
  nowMs: number,
  timings: MembershipTimings,
): FleetFacts {
  const { leases: live, sentAtMs } = read
  const known = new Map(fleet.ended.map((ended) => [nameOf(ended.lease), ended]))
  const ended: EndedLease[] = []
  for (const lease of fleet.leases) {
    if (isHeldBy(lease, self) || isStillThere(lease, live) || hasLeft(lease)) continue
    const before = known.get(nameOf(lease))
    const isCertain =
      trust.type === 'steady' &&
      before?.provedAtMs !== undefined &&
      sentAtMs >= before.provedAtMs + timings.removalMarginMs
    if (!isCertain) ended.push(before ?? { lease, sinceAtMs: nowMs, provedAtMs: undefined })
  }
  const own: MasterLease = { address: self.addresses[0] ?? '', holder: self }
  const isOwnGone = renewedAtMs !== undefined && !hasLeft(own) && !live.some((lease) => isHeldBy(lease, self))
  const kept = [...ended.map(({ lease }) => lease), ...(isOwnGone ? [own] : [])]
  return {
    ...fleet,
    leases: [...live, ...kept.map((lease) => ({ ...lease, doubtful: true }))],
    ended,
    departures: announcedDepartures(fleet.departures, live, self, nowMs),
    readAtMs: sentAtMs,
  }
}

/**
 * The leases to make the list from, given what is listed. Pure.
 *
 * Who has joined after an outage may have found no lease although their masters live. It keeps whom it finds listed until they have had
 * the time to renew.
 */
export function leasesForList(
  { fleet, lease: { trust } }: Pick<Membership, 'fleet' | 'lease'>,
  current: Endpoints | undefined,
): readonly MasterLease[] {
  const placed = keepingPlaces(fleet.leases, current)
  if (trust.type !== 'recovering' || !trust.isNew) return placed
  const known = new Set(fleet.leases.map(({ address }) => address))
  const strangers = addressesIn(current).filter((address) => !known.has(address))
  return [...placed, ...strangers.map((address) => ({ address, doubtful: true }))]
}

/** The ended leases, after a renewal of this master's own lease that was sent at `sentAtMs` and succeeded. Pure. */
export function provedBy(ended: readonly EndedLease[], sentAtMs: number, nowMs: number): readonly EndedLease[] {
  return ended.map((one) =>
    one.provedAtMs === undefined && one.sinceAtMs <= sentAtMs ? { ...one, provedAtMs: nowMs } : one,
  )
}

/**
 * Whether another master has seen this departure and found its own server serving after that. A kube-apiserver confirms nothing: while
 * its lease is there it is taken to serve, but not where only etcd fails, which it is likely to share.
 */
export function isConfirmed(
  { fleet, self, server }: Pick<Membership, 'fleet' | 'self' | 'server'>,
  departure: string,
): boolean {
  return othersReady(fleet.leases, self).some(({ holder }) =>
    holder === undefined ? !server.failsByEtcd : holder.confirms?.includes(departure),
  )
}

function announcedDepartures(
  before: readonly AnnouncedDeparture[],
  live: readonly MasterLease[],
  self: Holder,
  nowMs: number,
): readonly AnnouncedDeparture[] {
  return live
    .filter((lease) => !isHeldBy(lease, self))
    .flatMap(({ holder }) => {
      const { departure: id, state } = holder ?? {}
      if (id === undefined) return []
      return before.find((departure) => departure.id === id) ?? { id, isStop: state === 'leaving', seenAtMs: nowMs }
    })
}

function isStillThere(lease: MasterLease, live: readonly MasterLease[]): boolean {
  return live.some((other) => nameOf(other) === nameOf(lease))
}

function hasLeft({ holder }: MasterLease): boolean {
  return holder?.state === 'leaving' || holder?.state === 'withdrawn'
}

function nameOf({ address, holder }: MasterLease): string {
  return `${address} ${holder?.host ?? ''}`
}
