import { isNewer } from '../kube/resources.ts'
import { familyOf } from '../net/address.ts'
import { formatMicroTime, parseTime } from '../runtime/time-format.ts'
import { addressesIn, addressesInSlice } from './identity.ts'
import {
  addressOf,
  type Holder,
  type HolderPorts,
  isOfAnotherLife,
  isStart,
  type MasterLease,
} from './leases/master-leases.ts'
import type { ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'

/**
 * Whether the master of a lease is known to be ready. A lease without a holder record is a kube-apiserver's, which
 * counts as ready.
 */
export function isReady(lease: MasterLease): boolean {
  return lease.expirySuspected !== true && (lease.holder === undefined || lease.holder.state === 'ready')
}

/**
 * The leases to list, given the current list. The address of a lease with a suspected expiry, or of a
 * {@link MasterLease.found} lease, stays in the list but is not added.
 */
export function listableLeases(
  leases: readonly MasterLease[],
  current: Pick<ObservedEndpoints, 'endpoints' | 'slice'>,
): readonly MasterLease[] {
  const { endpoints, slice } = current
  if (endpoints === undefined && slice === undefined) return leases
  if (!leases.some(({ expirySuspected, found }) => expirySuspected || found)) return leases
  // If the Endpoints list none of these addresses, the Endpoints are missing or damaged. All found leases are then
  // listed, and a lease with a suspected expiry is listed if the slice still lists its address.
  const inEndpoints = endpoints === undefined ? [] : addressesIn(endpoints)
  const inSlice = addressesInSlice(slice)
  const isSpoiled = !leases.some(({ address }) => inEndpoints.includes(address))
  const isSliceNewer = !isNewer(endpoints, slice)
  const listed = isSpoiled ? inSlice : inEndpoints
  return leases.filter(({ expirySuspected, found, address }) => {
    if (listed.includes(address)) return true
    // While a policy forbids writing Endpoints, only the slice, which is then newer, lists the masters that have joined
    // since. An older slice does not count: another master may have written the Endpoints and not yet the slice.
    return expirySuspected !== true && (found !== true || isSpoiled || (isSliceNewer && inSlice.includes(address)))
  })
}

/**
 * The addresses for clients, sorted and without duplicates. While a master is ready: those of all masters except
 * unready and withdrawn ones. Otherwise: those of all masters except withdrawn ones, because for clients a list of
 * unready servers is better than an empty list. From the same leases every master computes the same list, so masters
 * that become unready at the same moment cannot empty the list.
 */
export function listedAddresses(leases: readonly MasterLease[]): readonly string[] {
  return [...new Set(listedLeases(leases).map((lease) => lease.address))].sort()
}

function listedLeases(leases: readonly MasterLease[]): readonly MasterLease[] {
  return leases.some(isReady) ? leases.filter(isListedBesideReady) : leases.filter(isNotWithdrawn)
}

/**
 * Whether every live master has an address of each family, in the same order; undefined without a live master.
 *
 * A lease without a holder record is a kube-apiserver's, which has one address. A withdrawn master does not count: it
 * is not listed, and returns as another instance, perhaps with other addresses. Readiness and suspected expiry do not
 * matter: the families of the Service must not change each time a server fails, nor in an outage.
 */
export function isDualStack(leases: readonly MasterLease[]): boolean | undefined {
  const live = leases.filter(isNotWithdrawn)
  if (live.length === 0) return undefined
  if (live.some(({ holder }) => holder?.addresses[1] === undefined)) return false
  const families = live.map(({ holder }) => (holder?.addresses ?? []).map(familyOf))
  const primary = families[0]?.[0]
  return families.every(([first, second]) => first === primary && second !== primary)
}

/**
 * The second addresses of the listed masters, sorted and without duplicates; none unless {@link isDualStack} holds for
 * `all`. `leases`: those to list. `all`: those of the whole fleet.
 */
export function secondAddresses(
  leases: readonly MasterLease[],
  all: readonly MasterLease[] = leases,
): readonly string[] {
  if (isDualStack(all) !== true) return []
  return [...new Set(listedLeases(leases).flatMap(({ holder }) => holder?.addresses[1] ?? []))].sort()
}

/** The addresses in the second slices that are not of the family of `self`'s first address, including duplicates. */
export function addressesInSecondSlices({ secondSlices }: ObservedEndpoints, self: Holder): readonly string[] {
  const listed = secondSlices.flatMap(addressesInSlice)
  return listed.filter((address) => familyOf(address) !== familyOf(addressOf(self)))
}

/** Returns a test whether an address belongs to none of these leases, nor to `self`, whose lease may be missing. */
export function unknownTo(leases: readonly MasterLease[], self: Holder): (address: string) => boolean {
  const ofLeases = leases.flatMap(({ address, holder }) => [address, ...(holder?.addresses ?? [])])
  const known = new Set([...ofLeases, ...self.addresses])
  return (address) => !known.has(address)
}

/**
 * Whether to list a lease while a master is ready. If the expiry of the lease is suspected, the state of its record
 * does not count, because that state may be older than the outage in which the lease ended.
 */
function isListedBesideReady({ holder, expirySuspected }: MasterLease): boolean {
  return expirySuspected === true || (holder?.state !== 'unready' && holder?.state !== 'withdrawn')
}

function isNotWithdrawn(lease: MasterLease): boolean {
  return lease.holder?.state !== 'withdrawn'
}

/**
 * The leases of other masters that are ready, so that `self` may leave. A lease of another holder of the same address
 * counts. A lease that never ends does not, nor a {@link MasterLease.lapsed} one: after a power failure of all masters,
 * the first one that is back would leave only dead addresses.
 */
export function othersReady(leases: readonly MasterLease[], self: Holder): readonly MasterLease[] {
  return othersPerhapsReady(leases, self).filter(({ lapsed }) => lapsed !== true)
}

/** {@link othersReady}, and the lapsed leases, whose masters may be alive if the clocks of two hosts differ. */
export function othersPerhapsReady(leases: readonly MasterLease[], self: Holder): readonly MasterLease[] {
  return leases.filter((lease) => isReady(lease) && lease.neverEnds !== true && !isHeldBy(lease, self))
}

/** Whether a lease is of the same master as `self`: of this life or another one. */
export function isHeldBy(lease: MasterLease, self: Holder): boolean {
  return lease.holder !== undefined && masterKey(lease.holder) === masterKey(self)
}

/** Whether a lease is of another life of the same master, an earlier or a later one. */
export function isHeldByAnotherLife(lease: MasterLease, self: Holder): boolean {
  return isHeldBy(lease, self) && isOfAnotherLife(lease.holder, self)
}

/**
 * The identity of a master across restarts of its sidecar, even if its port changes. The host distinguishes masters
 * that share a virtual address, and the earlier from the later owner of an address.
 */
export function masterKey(holder: Holder): string {
  return `${holder.host} ${addressOf(holder)}`
}

/**
 * Whether every live master wants these ports; false without leases. A lease without a holder record states no ports,
 * so it prevents agreement. The ports change only when the last master wants the new ones, so masters do not fight.
 */
export function portsAgreed(leases: readonly MasterLease[], { securePort, nodePort }: HolderPorts): boolean {
  const agrees = ({ holder, expirySuspected }: MasterLease): boolean => {
    // If the expiry is suspected, the ports may be old: the master may have been restarted with other ports since.
    if (holder === undefined || expirySuspected === true) return false
    return holder.ports.securePort === securePort && holder.ports.nodePort === nodePort
  }
  return leases.length > 0 && leases.every(agrees)
}

/** The start of a life and the present time, both by the present wall clock of its host, in milliseconds. */
export interface LifeSpan {
  readonly beganMs: number
  readonly nowMs: number
}

/**
 * `self`, with a start that is later than that of every earlier life of this master that has a lease, even if the
 * host's clock was set back.
 *
 * A record whose start is after that of `self`, but not in the future, is of a later life and does not count. (If two
 * lives overlap while the store is away, the earlier life may read the lease of the later one.) A record whose start is
 * in the future is of an earlier life, from before the host's clock was set back.
 */
export function startedAfter(leases: readonly MasterLease[], self: Holder, { beganMs, nowMs }: LifeSpan): Holder {
  const isLater = (startedAt: string): boolean =>
    startedAt > formatMicroTime(beganMs) && startedAt <= formatMicroTime(nowMs)
  const latest = leases
    .filter((lease) => isHeldByAnotherLife(lease, self))
    .flatMap(({ holder }) => holder?.startedAt ?? [])
    .filter((startedAt) => !isLater(startedAt))
    .sort()
    .at(-1)
  if (latest === undefined || latest < self.startedAt) return self
  const startedAt = formatMicroTime(parseTime(latest) + 1)
  // If the record cannot hold a later start, this life waits until the lease of the earlier life is gone.
  return isStart(startedAt) ? { ...self, startedAt } : self
}
