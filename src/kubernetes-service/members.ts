import { formatMicroTime, parseTime } from '../runtime/time-format.ts'
import { addressesIn, addressesInSlice } from './identity.ts'
import { addressOf, type Holder, type HolderPorts, type MasterLease } from './leases/master-leases.ts'
import type { ObservedEndpoints } from './reconcilers/endpoint-reconciler.ts'

/** A lease whose master serves. One without a holder record is a kube-apiserver's: it does as long as it renews its lease. */
export function isReady(lease: MasterLease): boolean {
  return lease.doubtful !== true && (lease.holder === undefined || lease.holder.state === 'ready')
}

/** The leases to make the list from, given what is listed: a doubtful one keeps its place and gets none, as does one that this reader found. */
export function keepingPlaces(leases: readonly MasterLease[], current: ObservedEndpoints): readonly MasterLease[] {
  const { endpoints, slice } = current
  if (endpoints === undefined) return leases
  // Whoever finds a list that somebody has spoiled puts back all whom it finds, and of the doubtful those that the slice still lists.
  const inEndpoints = addressesIn(endpoints)
  const isSpoiled = !leases.some(({ address }) => inEndpoints.includes(address))
  const listed = isSpoiled ? addressesInSlice(slice) : inEndpoints
  return leases.filter(
    ({ doubtful, found, address }) => listed.includes(address) || !(doubtful || (found && !isSpoiled)),
  )
}

/**
 * The addresses that clients should see, sorted and without doubles.
 *
 * While any master is ready: those that are, and those that wait until they may leave. Otherwise all that live, because
 * a list of unready servers serves clients better than an empty one. Each observer comes to the same list from the same leases,
 * so masters that turn unready at the same moment cannot empty it.
 */
export function listedAddresses(leases: readonly MasterLease[]): readonly string[] {
  return [...new Set(listedLeases(leases).map((lease) => lease.address))].sort()
}

function listedLeases(leases: readonly MasterLease[]): readonly MasterLease[] {
  return leases.some(isReady) ? leases.filter(isListedBesideReady) : leases.filter(isNotWithdrawn)
}

/**
 * Whether every live master has an address of each family, in the same order; undefined while nobody lives.
 *
 * A lease without a holder record is a kube-apiserver's, which has one address. A master that was withdrawn does not count: it is not
 * listed, and comes back as another instance, perhaps with other addresses. Readiness and doubt do not matter: the families of the
 * Service must not change each time a server fails, nor in an outage.
 */
export function isDualStack(leases: readonly MasterLease[]): boolean | undefined {
  const live = leases.filter(isNotWithdrawn)
  if (live.length === 0) return undefined
  if (live.some(({ holder }) => holder === undefined || holder.addresses.length < 2)) return false
  const families = live.map(({ holder }) => (holder?.addresses ?? []).map(isIpv6))
  const primary = families[0]?.[0]
  return families.every(([first, second]) => first === primary && second === !primary)
}

/**
 * The other addresses of the masters that are listed, sorted and without doubles; none unless the fleet {@link isDualStack}.
 *
 * @param leases - those that the list is made from.
 * @param all - those that the fleet consists of.
 */
export function secondAddresses(
  leases: readonly MasterLease[],
  all: readonly MasterLease[] = leases,
): readonly string[] {
  if (isDualStack(all) !== true) return []
  return [...new Set(listedLeases(leases).flatMap(({ holder }) => holder?.addresses[1] ?? []))].sort()
}

/** What a doubtful lease said last may be older than the outage in which it ended. */
function isListedBesideReady({ holder, doubtful }: MasterLease): boolean {
  return doubtful === true || (holder?.state !== 'unready' && holder?.state !== 'withdrawn')
}

function isNotWithdrawn(lease: MasterLease): boolean {
  return lease.holder?.state !== 'withdrawn'
}

function isIpv6(address: string): boolean {
  return address.includes(':')
}

/** The other masters that serve, by their records, so that `self` may go. Another holder of the same address counts. One without a record is a kube-apiserver, which does while it renews. */
export function othersReady(leases: readonly MasterLease[], self: Holder): readonly MasterLease[] {
  return leases.filter((lease) => isReady(lease) && !isHeldBy(lease, self))
}

/** Whether this lease is of the same master: the same instance, or an earlier life of it. */
export function isHeldBy(lease: MasterLease, self: Holder): boolean {
  return lease.holder !== undefined && masterKey(lease.holder) === masterKey(self)
}

/**
 * What stays the same when a master's sidecar is restarted, perhaps with another port: host and address. Two masters behind one
 * virtual address differ in their hosts, a reused address differs in its host.
 */
export function masterKey(holder: Holder): string {
  return `${holder.host} ${addressOf(holder)}`
}

/**
 * Whether every live master wants these ports. A lease without a holder record does not say, so nobody's ports are imposed on
 * it: a change of port rolls through a fleet without a fight and is made when the last master has changed.
 */
export function portsAgreed(leases: readonly MasterLease[], ports: HolderPorts): boolean {
  return leases.every(
    ({ holder }) =>
      holder !== undefined && holder.ports.securePort === ports.securePort && holder.ports.nodePort === ports.nodePort,
  )
}

/** When a life began and what time it is, both by what its host's clock shows now, as RFC 3339 with microseconds. */
export interface LifeSpan {
  readonly began: string
  readonly now: string
}

/**
 * Whether a lease is of a life of this master that began after `self`, and by now: so its host's clock was not set back between them.
 * Both came to write their leases late, as when the store was away while they overlapped.
 */
export function isOfLaterLife({ holder }: MasterLease, self: Holder, { began, now }: LifeSpan): boolean {
  if (holder === undefined || holder.instanceId === self.instanceId || masterKey(holder) !== masterKey(self))
    return false
  return holder.startedAt > began && holder.startedAt <= now
}

/** `self`, begun after every earlier life of this master that still has a lease: the host's clock may have been set back since. */
export function startedAfter(leases: readonly MasterLease[], self: Holder, span: LifeSpan): Holder {
  const others = leases.filter((lease) => isHeldBy(lease, self) && lease.holder?.instanceId !== self.instanceId)
  const latest = others
    .filter((lease) => !isOfLaterLife(lease, self, span))
    .flatMap(({ holder }) => holder?.startedAt ?? [])
    .sort()
    .at(-1)
  if (latest === undefined || latest < self.startedAt) return self
  return { ...self, startedAt: formatMicroTime(parseTime(latest) + 1) }
}
