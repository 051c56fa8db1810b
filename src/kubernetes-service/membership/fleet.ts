import { addressesIn, addressesInSlice } from '../identity.ts'
import { type Holder, MAX_DEPARTURES, type MasterLease } from '../leases/master-leases.ts'
import {
  addressesInSecondSlices,
  isDualStack,
  isHeldBy,
  listableLeases,
  listedAddresses,
  othersPerhapsReady,
  secondAddresses,
  unknownTo,
} from '../members.ts'
import type { ObservedEndpoints } from '../reconcilers/endpoint-reconciler.ts'
import type { AnnouncedDeparture, FleetFacts, Membership, MissingLease, Trust } from './state.ts'
import type { MembershipTimings } from './timings.ts'

/**
 * The facts after a read of the leases. Pure.
 *
 * A lease that was in the last read and is missing now may have expired because nobody could renew: the store accepts
 * no writes, or all servers hang. So the facts retain that lease with a suspected expiry until this master has renewed
 * its own lease, and a later read does not show the missing lease either. A master that was stopped or withdrawn left
 * on purpose, so its lease is not retained. This master's own missing lease is retained too, because this process is
 * alive.
 */
export function fleetAfterRead(
  before: Membership,
  read: { readonly leases: readonly MasterLease[]; readonly sentAtMs: number },
  nowMs: number,
  timings: MembershipTimings,
): FleetFacts {
  const { self, lease } = before
  const { leases: live, sentAtMs } = read
  const fleet = { ...before.fleet, renewed: renewedWhileRecovering(before, live, timings) }
  const names = new Set(live.map(nameOf))
  const missing: MissingLease[] = []
  for (const other of fleet.leases) {
    if (other.holder?.instanceId === self.instanceId || hasLeft(other)) continue
    if (names.has(nameOf(other))) continue
    const known = fleet.missing.find(({ lease }) => nameOf(lease) === nameOf(other))
    const one = known ?? { lease: other, sinceAtMs: nowMs, provedAtMs: undefined }
    const isCertain = isProved(one, sentAtMs, timings) && isDecided({ fleet, lease }, other)
    if (!isCertain) missing.push(one)
  }
  const own: MasterLease = { address: self.addresses[0] ?? '', holder: self }
  const isOwnGone = lease.renewedAtMs !== undefined && !hasLeft(own) && !live.some((lease) => isHeldBy(lease, self))
  const retained = [...missing.map(({ lease }) => lease), ...(isOwnGone ? [own] : [])]
  return {
    ...fleet,
    leases: [...live, ...retained.map((lease) => ({ ...lease, expirySuspected: true }))],
    missing,
    departures: announcedDepartures(fleet.departures, live, self, nowMs),
    readAtMs: sentAtMs,
  }
}

/** The list as this master knows it. */
export interface KnownList extends ObservedEndpoints {
  /**
   * The addresses in both Endpoints and slice when this master first read them (see {@link listedInBoth}). Addresses
   * that were added later belong to masters that could renew.
   */
  readonly listedBefore: readonly string[]
}

/**
 * The leases for the list, given the current list. Pure.
 *
 * A master that joins after an outage may find no leases of masters that live. It leaves their addresses on the list
 * until those masters have had the time to renew.
 */
export function leasesForList(state: Membership, current: KnownList): readonly MasterLease[] {
  const { fleet, self } = state
  // If a read shows a lease with this process's instance id, this process has created or renewed that lease, however
  // old the read is.
  const isOwn = ({ holder }: MasterLease): boolean => holder?.instanceId === self.instanceId
  const leases = fleet.leases.map((lease) => (isOwn(lease) ? { ...lease, found: false } : lease))
  return [...listableLeases(leases, current), ...listedWithoutLease(state, current)]
}

/**
 * The addresses for Endpoints, sorted and without duplicates. `mayBecomeEmpty`: this master leaves, even as the last.
 */
export function addressesForList(state: Membership, current: KnownList, mayBecomeEmpty: boolean): readonly string[] {
  const listed = listedAddresses(leasesForList(state, current))
  if (listed.length > 0 || !mayBecomeEmpty) return listed
  // While all leases have expired, only this master and withdrawn ones are removed: the other masters may soon be back.
  return addressesIn(current.endpoints).filter(unknownTo(state.fleet.leases, state.self))
}

/**
 * Whether every live master has an address of each family. Pure.
 *
 * Undefined without a live master, and while this master cannot know because the answer depends on a listed address
 * whose lease it has not read, or on a lease with a suspected expiry whose address another master has removed.
 */
export function isFleetDualStack(state: Membership, current: KnownList): boolean | undefined {
  const known = isDualStack(certainLeases(state, current))
  const all = isDualStack([...state.fleet.leases, ...listedWithoutLease(state, current)])
  return known === all ? known : undefined
}

/**
 * The addresses for the second slice, given the current list. Pure.
 *
 * While {@link isFleetDualStack} returns undefined, the second slice is neither created nor removed, and the addresses
 * in it that belong to no known master stay.
 */
export function secondAddressesForList(state: Membership, current: KnownList): readonly string[] {
  const known = secondAddresses(leasesForList(state, current), certainLeases(state, current))
  if (isFleetDualStack(state, current) !== undefined) return known
  const found = addressesInSecondSlices(current, state.self)
  if (found.length === 0) return []
  return [...new Set([...known, ...found.filter(unknownTo(state.fleet.leases, state.self))])].sort()
}

/** The leases except those with a suspected expiry whose addresses are not listed. */
function certainLeases({ fleet: { leases } }: Membership, current: ObservedEndpoints): readonly MasterLease[] {
  const placed = listableLeases(leases, current)
  return leases.filter((lease) => lease.expirySuspected !== true || placed.includes(lease))
}

/**
 * For a newcomer: a lease with a suspected expiry for each listed address of `listedBefore` whose lease it has not
 * read. For any other master: none.
 */
function listedWithoutLease(state: Membership, { endpoints, listedBefore }: KnownList): readonly MasterLease[] {
  if (!isNewcomer(state.lease.trust)) return []
  return addressesIn(endpoints)
    .filter((address) => listedBefore.includes(address))
    .filter(unknownTo(state.fleet.leases, state.self))
    .map((address) => ({ address, expirySuspected: true }))
}

/** Whether this master joined after a failure, and cannot know yet which masters existed before. Pure. */
export function isNewcomer(trust: Trust): boolean {
  return trust.type !== 'steady' && trust.isNew
}

/** The missing leases after a renewal that this master sent at `sentAtMs` has succeeded at `nowMs`. Pure. */
export function provedBy(
  state: Pick<Membership, 'fleet' | 'lease'>,
  sentAtMs: number,
  nowMs: number,
): readonly MissingLease[] {
  return state.fleet.missing.map((one) =>
    one.provedAtMs === undefined && one.sinceAtMs <= sentAtMs && isDecided(state, one.lease)
      ? { ...one, provedAtMs: nowMs }
      : one,
  )
}

/** Whether a read that was sent at `atMs` and lacks the lease proves its expiry, if {@link isDecided} holds too. */
export function isProved({ provedAtMs }: MissingLease, atMs: number, timings: MembershipTimings): boolean {
  return provedAtMs !== undefined && atMs >= provedAtMs + timings.removalMarginMs
}

/**
 * Whether the absence of this lease proves that its master is gone: this master's own renewals succeed and, if they
 * failed recently, that other master has renewed since. Otherwise a missing lease may have expired because nobody could
 * renew, and a stored lease may remain only because no lease expires.
 */
export function isDecided(
  { fleet, lease: { trust } }: Pick<Membership, 'fleet' | 'lease'>,
  lease: MasterLease,
): boolean {
  return trust.type === 'steady' || (trust.type === 'recovering' && fleet.renewed.includes(nameOf(lease)))
}

/**
 * The names of leases that were renewed during this recovery. Two reads, both sent during the recovery, must show
 * different renewals, because an earlier read may date from the failure. A master in the state `failing` does not
 * count: after an outage of etcd its server may hang once more, and its lease would then end.
 */
function renewedWhileRecovering(
  { fleet, lease: { trust } }: Pick<Membership, 'fleet' | 'lease'>,
  live: readonly MasterLease[],
  { recoveryMs }: MembershipTimings,
): readonly string[] {
  if (trust.type !== 'recovering') return []
  if (fleet.readAtMs === undefined || fleet.readAtMs < trust.untilAtMs - recoveryMs) return fleet.renewed
  const before = new Map(fleet.leases.map((lease) => [nameOf(lease), lease.renewal]))
  const renewed = live.filter((lease) => {
    const earlier = before.get(nameOf(lease))
    return earlier !== undefined && lease.renewal !== undefined && lease.renewal !== earlier
  })
  const failing = live.filter(({ holder }) => holder?.state === 'failing').map(nameOf)
  return [...new Set([...fleet.renewed, ...renewed.map(nameOf)])].filter((name) => !failing.includes(name))
}

/**
 * Whether another master that is ready confirms this departure of this master. A kube-apiserver confirms nothing, so
 * its live lease counts as a confirmation if {@link isDecided} trusts that lease, unless this master's server fails
 * only because of an etcd that the two servers probably share.
 */
export function isConfirmed(state: Membership, departure: string): boolean {
  return othersPerhapsReady(state.fleet.leases, state.self).some((lease) =>
    lease.holder === undefined
      ? !state.server.failsByEtcd && isDecided(state, lease)
      : lease.holder.confirms?.includes(departure),
  )
}

function announcedDepartures(
  before: readonly AnnouncedDeparture[],
  live: readonly MasterLease[],
  self: Holder,
  nowMs: number,
): readonly AnnouncedDeparture[] {
  const announced = live
    .filter((lease) => !isHeldBy(lease, self))
    .flatMap(({ holder }) => {
      const { departure: id, state } = holder ?? {}
      if (id === undefined || state === 'ready' || state === 'withdrawn') return []
      return before.find((departure) => departure.id === id) ?? { id, isStop: state !== 'failing', seenAtMs: nowMs }
    })
  // A record can confirm at most {@link MAX_DEPARTURES} departures. Masters with later announcements stay until there
  // is room.
  return announced.sort((a, b) => a.seenAtMs - b.seenAtMs).slice(0, MAX_DEPARTURES)
}

function hasLeft({ holder }: MasterLease): boolean {
  const { state, departure } = holder ?? {}
  return state === 'leaving' || state === 'withdrawn' || (state === 'unready' && departure !== undefined)
}

function nameOf({ address, holder }: MasterLease): string {
  return `${address} ${holder?.host ?? ''}`
}

/**
 * The addresses in both Endpoints and slice, or in Endpoints if there is no slice. A master writes both, so an address
 * in Endpoints alone is not a master's.
 */
export function listedInBoth({ endpoints, slice }: ObservedEndpoints): readonly string[] {
  return addressesIn(endpoints).filter((address) => !slice || addressesInSlice(slice).includes(address))
}
