import { type AuditEntry, type AuditTrail, audited } from '../kube/audit.ts'
import { isKubeError, KubeError } from '../kube/errors.ts'
import { referenceIn } from '../kube/event-object.ts'
import { endpoints } from '../kube/resources.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { type EndpointsAdapter, NoLiveMasters } from './endpoints-adapter.ts'
import { planEndpoints } from './endpoints-plan.ts'
import type { FleetView } from './fleet-view.ts'
import { conflictPause } from './guarded-writes/object-writer.ts'
import { addressesIn, addressesInSlice, endpointPorts, KUBERNETES_SERVICE } from './identity.ts'
import { addressOf, type Holder, LeaseWithdrawn, type MasterLease, type MasterLeases } from './leases/master-leases.ts'
import {
  addressesInSecondSlices,
  isHeldByAnotherLife,
  listableLeases,
  listedAddresses,
  othersPerhapsReady,
  othersReady,
  secondAddresses,
  unknownTo,
} from './members.ts'

/**
 * The result of a request to withdraw. `withdrawn`: the record is marked, and the address was not listed, was removed,
 * is removed by other masters, or stays for another holder. `last-one`: the address stays, because no other master is
 * ready. `nothing`: nothing was changed, because the request matches no single master or a kube-apiserver keeps the
 * address listed. `reason` is one line for a person.
 */
export interface Withdrawal {
  readonly type: 'withdrawn' | 'last-one' | 'nothing'
  readonly reason: string
}

interface WithdrawOptions {
  readonly audit: AuditTrail
  readonly leases: MasterLeases
  readonly adapter: EndpointsAdapter
  /** The master: host and address, or host alone if the host holds one lease. Its `instanceId` is ignored. */
  readonly self: Holder
  /** Whether to withdraw even the last master. */
  readonly always: boolean
  /** Where the leases are, as the end of a sentence. */
  readonly place: string
  readonly fleet: FleetView
  readonly clock: Clock
  /** How often each master renews its lease, in milliseconds. */
  readonly intervalMs: number
}

/**
 * Removes a master's address from outside its process. It marks the master's record as withdrawn, so that the process
 * does not announce the address again until it is restarted.
 *
 * The last master stays listed unless `always` is set. A master that is already withdrawn stays so. If a master is
 * restarted meanwhile, the mark concerns its earlier life, and its new life is withdrawn too. If the API server does
 * not answer while another master serves, the mark is enough: the other master removes the address from the list.
 *
 * This process has just started, and a Lease object does not show a new reader whether it has ended. So every lease in
 * the store of Lease objects is {@link MasterLease.found}. The master of a found lease counts as alive only if its
 * address is listed, because the running masters may have removed an unlisted address. If all other listed masters'
 * leases seem to have ended, this function waits up to 1.2 reconcile intervals for one of them to be renewed; without a
 * renewal this master is the last one. (After a power failure all other listed masters may be dead.)
 *
 * Rejects with the error of the lease store or the API server, or with {@link NoLiveMasters}.
 */
export async function withdraw(options: WithdrawOptions, signal: AbortSignal): Promise<Withdrawal> {
  const { leases, adapter, self, always, place, fleet } = options
  const before = await leases.list(signal)
  fleet.read(before)
  const masters = before.flatMap(({ holder }) => (holder === undefined ? [] : [holder]))
  const ofHost = masters.filter(({ host }) => host === self.host)
  const wanted = addressOf(self)
  const [own, another] = ofHost.filter((holder) => wanted === '' || addressOf(holder) === wanted)
  if (own === undefined) {
    const hosts = hostsAt(wanted, before)
    const held = hosts === '' ? '' : `; it is held by ${hosts} (--hostname-override selects the host)`
    const which = wanted === '' ? '' : ` for ${wanted}`
    return { type: 'nothing', reason: `no lease of host ${self.host}${which} ${place}${held}` }
  }
  if (another !== undefined) {
    const addresses = ofHost.map(addressOf).sort().join(', ')
    return {
      type: 'nothing',
      reason: `host ${self.host} has several addresses: ${addresses}; select one with --advertise-address`,
    }
  }
  const address = addressOf(own)
  if (own.coHolder) {
    const reason = `${address} stays listed, because a kube-apiserver with its own endpoint reconciler renews its lease`
    return { type: 'nothing', reason }
  }

  const marked = own.state === 'withdrawn' ? 'withdrawn' : await markAsWithdrawn(own, options, signal)
  if (marked === 'restarted') return withdraw(options, signal)
  if (marked === 'last-one') {
    const reason = `no other master is ready, so ${address} stays listed; use --on-shutdown=always to withdraw it anyway`
    return { type: 'last-one', reason }
  }
  const ports = endpointPorts(self.ports.securePort)
  const pause = conflictPause(options.clock)
  for (;;) {
    let others = ''
    let isListed = true
    try {
      await adapter.reconcile(async (stored) => {
        const live = await leases.list(signal)
        fleet.read(live)
        const placed = listableLeases(live, stored)
        // Found leases are added if the list is otherwise empty.
        const listed = listedAddresses(placed).length > 0 ? placed : live
        const alive = listedAddresses(listed)
        const { endpoints: current, slice } = stored
        isListed = [...addressesIn(current), ...addressesInSlice(slice)].includes(address)
        // While all leases have ended, only withdrawn masters are removed: the others may soon be back.
        const isOutage = always && alive.length === 0
        const stays = unknownTo(live, own)
        const addresses = isOutage ? addressesIn(current).filter(stays) : alive
        const staying = live.filter(({ holder }) => holder?.state !== 'withdrawn')
        others = addresses.includes(address) ? hostsAt(address, staying) : ''
        return {
          endpoints: planEndpoints({ addresses, current, ports, reconcilePorts: false, mayBecomeEmpty: always }),
          secondAddresses: isOutage
            ? [...new Set(addressesInSecondSlices(stored, own))].filter(stays).sort()
            : secondAddresses(listed, live),
        }
      }, signal)
      const removed =
        own.state === 'withdrawn' && !isListed
          ? 'was already withdrawn, and is not listed'
          : 'was removed from the list'
      const outcome = others === '' ? removed : `stays listed, because it is also held by ${others}`
      return { type: 'withdrawn', reason: `${address} ${outcome}` }
    } catch (error) {
      // The running masters remove the address at the same moment. After a conflict we read again.
      if (isKubeError(error, 'Conflict')) {
        await pause(signal)
        continue
      }
      if (error instanceof NoLiveMasters && !isListed) {
        const reason = `${address} is not listed; the list stays as it is, because no other master has a lease`
        return { type: 'withdrawn', reason }
      }
      const isAway = error instanceof KubeError && error.nature === 'away'
      if (!isAway || othersReady(await leases.list(signal), own).length === 0) throw error
      return {
        type: 'withdrawn',
        reason: `${address} is marked as withdrawn, and other masters remove it from the list, because the API server is not available here: ${error.message}`,
      }
    }
  }
}

/** The hosts of the leases of an address, `unknown` for a lease without a record; empty without a lease. */
function hostsAt(address: string, leases: readonly MasterLease[]): string {
  const held = leases.filter((lease) => lease.address === address)
  return held.map(({ holder }) => holder?.host ?? 'unknown').join(', ')
}

/** Marks the master as withdrawn if it may leave. The mark changes nothing if the master was restarted meanwhile. */
async function markAsWithdrawn(
  own: Holder,
  options: WithdrawOptions,
  signal: AbortSignal,
): Promise<'withdrawn' | 'last-one' | 'restarted'> {
  const { audit, leases, place } = options
  const mark = async (): Promise<boolean> => {
    // With a departure id the record would state that the master has left by itself.
    await leases.mark({ ...own, state: 'withdrawn', departure: undefined }, signal)
    return !(await leases.list(signal)).some((lease) => isHeldByAnotherLife(lease, own))
  }
  try {
    if (!(await mayLeave(own, options, signal))) {
      await leases.mark(own, signal)
      return 'last-one'
    }
    const isMarked = await audited(audit, withdrawalOf(own, place), mark, { signal, isDone: (done) => done })
    return isMarked ? 'withdrawn' : 'restarted'
  } catch (error) {
    // Another process has withdrawn the master meanwhile.
    if (error instanceof LeaseWithdrawn) return 'withdrawn'
    throw error
  }
}

/** Marks the master as one that does not serve. Resolves with whether it may leave. */
async function mayLeave(
  own: Holder,
  { leases, adapter, always, clock, intervalMs }: WithdrawOptions,
  signal: AbortSignal,
): Promise<boolean> {
  for (const untilMs = clock.monotonicMs() + 1.2 * intervalMs; ; ) {
    // A renewal of the running master may have overwritten the last mark, and without these marks two masters that are
    // withdrawn at the same time could both leave. As `leaving`, an unready master would be listed again.
    await leases.mark({ ...own, state: own.state === 'unready' ? 'unready' : 'leaving' }, signal)
    if (always) return true
    const live = await leases.list(signal)
    // The list is read only if a lease is `found`, because the API server may not answer.
    const present = live.some(({ found }) => found) ? listableLeases(live, await adapter.read(signal)) : live
    if (othersReady(present, own).length > 0) return true
    // The renewal of a live master shows within an interval that its lease has not lapsed.
    if (othersPerhapsReady(present, own).length === 0 || clock.monotonicMs() >= untilMs) return false
    await sleep(clock, intervalMs / 10, signal)
  }
}

function withdrawalOf(own: Holder, where: string): AuditEntry {
  const { host, instanceId, state } = own
  const name = addressOf(own)
  const regarding = referenceIn(endpoints, { metadata: KUBERNETES_SERVICE })
  return {
    message: 'withdrew a master',
    verb: 'withdraw',
    objectRef: { resource: 'masterleases', name },
    where,
    reasons: ['withdraw'],
    before: { host, instanceId, state },
    after: { host, instanceId, state: 'withdrawn' },
    event: { reason: 'MasterWithdrawn', regarding, note: `${name} (${host}) was withdrawn` },
  }
}
