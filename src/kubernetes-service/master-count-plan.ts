import type { Endpoints } from '../kube/resources.ts'
import { type EndpointsAction, planEndpoints } from './endpoints-plan.ts'
import { addressesIn, type EndpointPort } from './identity.ts'

/**
 * What a master may do about who is listed.
 * - `keep`: nothing; all other damage is mended.
 * - `mend`: add itself where there is room, and drop what is too many.
 * - `claim`: also take the place of another when it is missing from a full list.
 */
export type MembershipStep = 'keep' | 'mend' | 'claim'

/** What a plan by count rests on. */
export interface MasterCountObservation {
  readonly current: Endpoints | undefined
  /** This master's address, in canonical form. */
  readonly own: string
  /** How many masters there are; at least 1. */
  readonly count: number
  readonly step: MembershipStep
  readonly ports: readonly EndpointPort[]
  /** False: ports are kept as they are found unless the object must be remade. */
  readonly reconcilePorts: boolean
}

/**
 * Decides what must change so that Endpoints `default/kubernetes` list this master among at most `count` addresses.
 *
 * Pure. Nobody's life is known here: who is missing is added, and of too many those go whose addresses come after this master's own,
 * in the order of their texts, beginning anew at the end. Endpoints without exactly one subset are remade with this master alone; the
 * others add themselves. Results equal those of upstream's reconciler (pkg/controlplane/reconcilers/instancecount.go), but for damage
 * that it leaves in place: see {@link planEndpoints}.
 */
export function planMasterCount(observed: MasterCountObservation): EndpointsAction {
  const { current, own, count, ports, reconcilePorts } = observed
  const plan = planEndpoints({ addresses: addressesToList(observed), current, ports, reconcilePorts, stopping: false })
  // Others have the place of this master: that is answered later.
  return plan.type === 'none' && isDisplaced(current, own, count) ? { type: 'none', forNow: true } : plan
}

/**
 * Decides what must change so that Endpoints no longer list `own`. Pure. Ports are left to those who stay. Only with `stopping` may
 * the list become empty.
 */
export function planRemoval(options: {
  readonly current: Endpoints | undefined
  readonly own: string
  readonly ports: readonly EndpointPort[]
  readonly stopping: boolean
}): EndpointsAction {
  const { current, own, ports, stopping } = options
  if (!isMentioned(current, own)) return { type: 'none' }
  const addresses = otherAddresses(current, own).toSorted()
  return planEndpoints({ addresses, current, ports, reconcilePorts: false, stopping })
}

/** The other addresses that clients are sent to, without doubles. */
export function otherAddresses(current: Endpoints | undefined, own: string): readonly string[] {
  return readyAddresses(current).filter((address) => address !== own)
}

/** Whether Endpoints name this address, ready or not. */
export function isMentioned(current: Endpoints | undefined, own: string): boolean {
  return (current?.subsets ?? []).some((subset) =>
    [...(subset.addresses ?? []), ...(subset.notReadyAddresses ?? [])].some(({ ip }) => ip === own),
  )
}

/** Whether others have taken all places of the list. */
export function isDisplaced(current: Endpoints | undefined, own: string, count: number): boolean {
  if (current?.subsets?.length !== 1) return false
  const listed = readyAddresses(current)
  return !listed.includes(own) && listed.length >= count
}

function addressesToList({ current, own, count, step }: MasterCountObservation): readonly string[] {
  if (current?.subsets?.length !== 1) return [own]
  const listed = readyAddresses(current)
  if (listed.includes(own) && listed.length <= count) return listed
  if (listed.length > 0 && (step === 'keep' || (step === 'mend' && isDisplaced(current, own, count)))) return listed
  const all = [...new Set([...listed, own])].sort()
  const surplus = Math.max(0, all.length - count)
  const first = all.indexOf(own) + 1
  const dropped = new Set(Array.from({ length: surplus }, (_, index) => all[(first + index) % all.length]))
  return all.filter((address) => !dropped.has(address))
}

function readyAddresses(current: Endpoints | undefined): readonly string[] {
  return [...new Set(addressesIn(current))]
}
