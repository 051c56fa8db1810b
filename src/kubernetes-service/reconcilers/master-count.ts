import type { Endpoints } from '../../kube/resources.ts'
import type { Address } from '../../net/address.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { EndpointsAdapter, StoredEndpoints } from '../endpoints-adapter.ts'
import { type EndpointsAction, planEndpoints } from '../endpoints-plan.ts'
import { addressesIn, type EndpointPort } from '../identity.ts'
import type { Departure, EndpointReconciler, ObservedEndpoints, ReconcilePorts } from './endpoint-reconciler.ts'

/** How often who is listed is put right between two intervals. */
const MENDS_PER_INTERVAL = 3

export interface MasterCountReconcilerOptions {
  readonly adapter: EndpointsAdapter
  readonly logger: Logger
  /** This master's address. */
  readonly address: Address
  /** How many API servers there are; at least 1, and the same for all of them. */
  readonly count: number
}

/**
 * Lists as many masters as there are said to be, without leases: each adds itself, and a dead one stays until another takes its place.
 *
 * As upstream, a master stays listed while its API server is not ready: nobody could tell whether another one serves.
 *
 * Damage is mended as soon as it is seen, a place that others have taken is taken back at the interval only: more masters than places
 * would otherwise displace each other without end. For the same reason who is listed is put right only a few times between two
 * intervals: masters that were told different counts never agree.
 * Upstream: `masterCountEndpointReconciler` in pkg/controlplane/reconcilers/instancecount.go.
 */
export class MasterCountEndpointReconciler implements EndpointReconciler {
  readonly #options: MasterCountReconcilerOptions
  #lastRead: Endpoints | undefined
  /** The last read at an interval found that others have taken all places, and that was not answered yet. */
  #displaced = false
  #mendsLeft = MENDS_PER_INTERVAL
  #warned = false
  /** A removal was begun and the slice has perhaps not followed yet: a call after a failure goes on from there. */
  #removing = false
  #stopped = false

  constructor(options: MasterCountReconcilerOptions) {
    this.#options = options
  }

  async reconcileEndpoints(
    ip: Address,
    ports: readonly EndpointPort[],
    reconcilePorts: ReconcilePorts,
    signal: AbortSignal,
  ): Promise<void> {
    if (this.#stopped) return
    const stored = await this.#read(signal)
    const mend = reconcilePorts === 'agreed' ? this.portsAgreed() : reconcilePorts
    const plan = this.#plan(ip, stored.endpoints, ports, mend)
    await this.#options.adapter.execute({ endpoints: plan }, stored, signal)
    if (!this.#displaced && plan.type === 'update' && plan.reasons.includes('addresses')) this.#mendsLeft -= 1
    this.#displaced = false
  }

  /**
   * Takes this master out; does nothing when it is not in. Rejects with NoLiveMasters when the list would become empty, unless
   * {@link stopReconciling} was called before.
   */
  async removeEndpoints(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<void> {
    await this.#remove(ip, await this.#read(signal), ports, this.#stopped, signal)
  }

  /** Takes this master out unless its address is the last that is listed. Whether those that stay serve is not known. */
  async leave(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<Departure> {
    const stored = await this.#read(signal)
    const { endpoints } = stored
    if (isMentioned(endpoints, ip.text) && otherAddresses(endpoints, ip.text).length === 0) return 'kept-the-last'
    await this.#remove(ip, stored, ports, false, signal)
    return 'left'
  }

  async clearAway(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<boolean> {
    if (!isMentioned((await this.#read(signal)).endpoints, ip.text)) return false
    return (await this.leave(ip, ports, signal)) === 'left'
  }

  stopReconciling(): void {
    this.#stopped = true
  }

  async destroy(): Promise<void> {}

  isSatisfied(observed: ObservedEndpoints, ports: readonly EndpointPort[], reconcilePorts: boolean): boolean {
    if (this.#stopped) return true
    const { adapter, address } = this.#options
    return adapter.isSettled({ endpoints: this.#plan(address, observed.endpoints, ports, reconcilePorts) }, observed)
  }

  /** Begins a new interval: what others did to the list may be answered now. */
  async readMembers(signal: AbortSignal): Promise<void> {
    const { address, count, logger } = this.#options
    this.#lastRead = await this.#options.adapter.getEndpoints(signal)
    this.#displaced = isDisplaced(this.#lastRead, address.text, count)
    if (this.#mendsLeft > 0) {
      this.#warned = false
    } else if (!this.#warned) {
      this.#warned = true
      logger.warn(
        { address: address.text, count },
        'others keep changing which API servers are listed; do all masters have the same --apiserver-count?',
      )
    }
    this.#mendsLeft = MENDS_PER_INTERVAL
  }

  /** Whether no other master is listed: those that are do not say which ports they want. */
  portsAgreed(): boolean {
    return otherAddresses(this.#lastRead, this.#options.address.text).length === 0
  }

  /** Those that are listed do not say whether they have a second address. */
  isDualStack(): boolean {
    return false
  }

  #plan(
    ip: Address,
    current: Endpoints | undefined,
    ports: readonly EndpointPort[],
    reconcilePorts: boolean,
  ): EndpointsAction {
    const { count } = this.#options
    return planMasterCount({ current, own: ip.text, count, step: this.#step(), ports, reconcilePorts })
  }

  #step(): MembershipStep {
    if (this.#displaced) return 'claim'
    return this.#mendsLeft > 0 ? 'mend' : 'keep'
  }

  async #remove(
    ip: Address,
    stored: StoredEndpoints,
    ports: readonly EndpointPort[],
    stopping: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const plan = planRemoval({ current: stored.endpoints, own: ip.text, ports, stopping })
    if (plan.type === 'none' && !this.#removing) return
    this.#removing = true
    await this.#options.adapter.execute({ endpoints: plan }, stored, signal)
    this.#removing = false
  }

  async #read(signal: AbortSignal): Promise<StoredEndpoints> {
    const stored = await this.#options.adapter.read(signal)
    this.#lastRead = stored.endpoints
    return stored
  }
}

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
function otherAddresses(current: Endpoints | undefined, own: string): readonly string[] {
  return readyAddresses(current).filter((address) => address !== own)
}

/** Whether Endpoints name this address, ready or not. */
function isMentioned(current: Endpoints | undefined, own: string): boolean {
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
