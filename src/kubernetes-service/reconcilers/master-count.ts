import type { Endpoints } from '../../kube/resources.ts'
import type { Address } from '../../net/address.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { EndpointsAdapter, StoredEndpoints } from '../endpoints-adapter.ts'
import { type EndpointsAction, type EndpointsObservation, planEndpoints } from '../endpoints-plan.ts'
import { addressesIn, type EndpointPort } from '../identity.ts'
import type { EndpointReconciler, ObservedEndpoints, ReconcilePorts, WatchedList } from './endpoint-reconciler.ts'

const CORRECTIONS_PER_INTERVAL = 3

export interface MasterCountReconcilerOptions {
  readonly adapter: EndpointsAdapter
  readonly logger: Logger
  readonly address: Address
  /** The number of API servers; at least 1, and the same for all of them. */
  readonly count: number
}

/**
 * Lists up to the configured number of masters, without leases: each adds itself, and a dead one stays until another
 * takes its place.
 *
 * As upstream, a listed master stays listed when its API server becomes unready, because no master knows whether
 * another one serves. But at its start, while its API server is not ready, a master removes the address of its earlier
 * life, unless no other address is listed (see {@link clearAway}).
 *
 * Damage is corrected as soon as it is detected. A place that others have taken is claimed only at the next interval:
 * otherwise, if there are more masters than places, masters would displace each other without end. Masters with
 * different counts never agree, so each corrects the listed addresses at most three times in an interval. Upstream:
 * `masterCountEndpointReconciler` in pkg/controlplane/reconcilers/instancecount.go.
 */
export class MasterCountEndpointReconciler implements EndpointReconciler {
  readonly #options: MasterCountReconcilerOptions
  #lastRead: Endpoints | undefined
  /** Whether the last read at an interval found all places taken by others, and no write has corrected that yet. */
  #displaced = false
  #correctionsLeft = CORRECTIONS_PER_INTERVAL
  #warned = false
  /**
   * Whether a removal was begun. After a failure the slice may still list the address, so the next call continues the
   * removal.
   */
  #removing = false
  #stopped = false

  constructor(options: MasterCountReconcilerOptions) {
    this.#options = options
  }

  async reconcileEndpoints(
    _ip: Address,
    ports: readonly EndpointPort[],
    reconcilePorts: ReconcilePorts,
    signal: AbortSignal,
    watched?: WatchedList,
  ): Promise<void> {
    if (this.#stopped) return
    const stored = await this.#read(signal, watched)
    const correctPorts = reconcilePorts === 'agreed' ? this.portsAgreed() : reconcilePorts
    const plan = this.#plan(stored.endpoints, ports, correctPorts)
    await this.#execute(plan, stored, signal)
    if (!this.#displaced && plan.type === 'update' && plan.reasons.includes('addresses')) this.#correctionsLeft -= 1
    this.#displaced = false
  }

  /**
   * Does nothing if this master is not listed. Rejects with NoLiveMasters when the list would become empty, unless
   * {@link stopReconciling} was called before.
   */
  async removeEndpoints(_ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<void> {
    await this.#remove(await this.#read(signal), ports, this.#stopped, signal)
  }

  /** Removes this master unless its address is the last on the list. Whether the others serve is unknown. */
  async leave(_ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<'left' | 'last-one'> {
    const stored = await this.#read(signal)
    const own = this.#options.address.text
    if (isMentioned(stored.endpoints, own) && otherAddresses(stored.endpoints, own).length === 0) return 'last-one'
    await this.#remove(stored, ports, false, signal)
    return 'left'
  }

  async clearAway(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<boolean> {
    if (!isMentioned((await this.#read(signal)).endpoints, ip.text)) return false
    return (await this.leave(ip, ports, signal)) === 'left'
  }

  stopReconciling(): void {
    this.#stopped = true
  }

  isSatisfied(observed: ObservedEndpoints, ports: readonly EndpointPort[], reconcilePorts: boolean): boolean {
    if (this.#stopped) return true
    const endpoints = this.#plan(observed.endpoints, ports, reconcilePorts)
    return this.#options.adapter.isSettled({ endpoints, secondAddresses: [] }, observed)
  }

  /**
   * Reads the list and begins a new interval, in which a taken place may be claimed, and corrections count from zero.
   */
  async refreshMembers(signal: AbortSignal): Promise<void> {
    const { adapter, address, count, logger } = this.#options
    this.#lastRead = await adapter.getEndpoints(signal)
    this.#displaced = isDisplaced(this.#lastRead, address.text, count)
    if (this.#correctionsLeft > 0) {
      this.#warned = false
    } else if (!this.#warned) {
      this.#warned = true
      logger.warn(
        { address: address.text, count },
        'other masters keep changing the list of API servers; check that all masters have the same --apiserver-count',
      )
    }
    this.#correctionsLeft = CORRECTIONS_PER_INTERVAL
  }

  /** True only if no other master is listed, because listed masters do not state which ports they want. */
  portsAgreed(): boolean {
    return otherAddresses(this.#lastRead, this.#options.address.text).length === 0
  }

  /** A read of the members would begin a new interval. */
  readonly familiesFollowMembers = false

  /** Always false, because listed masters do not state whether they have a second address. */
  isDualStack(): boolean {
    return false
  }

  #plan(current: Endpoints | undefined, ports: readonly EndpointPort[], reconcilePorts: boolean): EndpointsAction {
    const { address, count } = this.#options
    const allowed = this.#displaced ? 'claim' : this.#correctionsLeft > 0 ? 'correct' : 'keep'
    return planMasterCount({ current, own: address.text, count, allowed, ports, reconcilePorts })
  }

  async #remove(
    stored: StoredEndpoints,
    ports: readonly EndpointPort[],
    mayBecomeEmpty: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const plan = planRemoval({ current: stored.endpoints, own: this.#options.address.text, ports, mayBecomeEmpty })
    if (plan.type === 'none' && !this.#removing) return
    this.#removing = true
    await this.#execute(plan, stored, signal)
    this.#removing = false
  }

  #execute(endpoints: EndpointsAction, stored: StoredEndpoints, signal: AbortSignal): Promise<void> {
    return this.#options.adapter.execute({ endpoints, secondAddresses: [], withoutLeases: true }, stored, signal)
  }

  async #read(signal: AbortSignal, watched?: WatchedList): Promise<StoredEndpoints> {
    const stored = await this.#options.adapter.read(signal, watched)
    this.#lastRead = stored.endpoints
    return stored
  }
}

/**
 * What a master may do about the listed addresses.
 * - `keep`: change no address, unless none is listed or there is not exactly one subset. Ports and other fields are
 *   corrected all the same.
 * - `correct`: add itself if there is a free place, and remove superfluous addresses.
 * - `claim`: also take the place of another master if this one is missing from a full list.
 */
type Allowance = 'keep' | 'correct' | 'claim'

export interface MasterCountObservation extends Pick<EndpointsObservation, 'current' | 'ports' | 'reconcilePorts'> {
  /** This master's address, in canonical form. */
  readonly own: string
  readonly count: number
  readonly allowed: Allowance
}

/**
 * Decides what must change so that Endpoints list this master among at most `count` addresses. Pure.
 *
 * The plan does not know which masters live. As far as it is allowed, it adds this master if it is missing. If there
 * are then too many addresses, it removes those that follow this master's own in the sorted order of their texts, which
 * wraps around. Without exactly one subset, Endpoints get one that lists this master alone; the others add themselves.
 * With `claim` the results equal those of upstream's reconciler (pkg/controlplane/reconcilers/instancecount.go), except
 * that notReadyAddresses, which upstream leaves in place, are removed.
 */
export function planMasterCount(observed: MasterCountObservation): EndpointsAction {
  const { current, own, count, ports, reconcilePorts } = observed
  const plan = planEndpoints({
    addresses: addressesToList(observed),
    current,
    ports,
    reconcilePorts,
    mayBecomeEmpty: false,
  })
  // Other masters have taken this master's place. The next interval corrects that.
  return plan.type === 'none' && isDisplaced(current, own, count) ? { type: 'none', forNow: true } : plan
}

/**
 * Decides what must change so that Endpoints no longer list `own`. The remaining masters decide about the ports.
 * Pure.
 */
export function planRemoval({
  own,
  ...observed
}: Pick<EndpointsObservation, 'current' | 'ports' | 'mayBecomeEmpty'> & { readonly own: string }): EndpointsAction {
  const { current } = observed
  if (!isMentioned(current, own)) return { type: 'none' }
  const addresses = otherAddresses(current, own).toSorted()
  return planEndpoints({ ...observed, addresses, reconcilePorts: false })
}

function otherAddresses(current: Endpoints | undefined, own: string): readonly string[] {
  return readyAddresses(current).filter((address) => address !== own)
}

/** Whether Endpoints name this address, ready or not. */
function isMentioned(current: Endpoints | undefined, own: string): boolean {
  return (current?.subsets ?? []).some((subset) =>
    [...(subset.addresses ?? []), ...(subset.notReadyAddresses ?? [])].some(({ ip }) => ip === own),
  )
}

export function isDisplaced(current: Endpoints | undefined, own: string, count: number): boolean {
  if (current?.subsets?.length !== 1) return false
  const listed = readyAddresses(current)
  return !listed.includes(own) && listed.length >= count
}

function addressesToList({ current, own, count, allowed }: MasterCountObservation): readonly string[] {
  if (current?.subsets?.length !== 1) return [own]
  const listed = readyAddresses(current)
  if (listed.includes(own) && listed.length <= count) return listed
  if (listed.length > 0 && (allowed === 'keep' || (allowed === 'correct' && isDisplaced(current, own, count))))
    return listed
  const all = [...new Set([...listed, own])].sort()
  const surplus = Math.max(0, all.length - count)
  const first = all.indexOf(own) + 1
  const dropped = new Set(Array.from({ length: surplus }, (_, index) => all[(first + index) % all.length]))
  return all.filter((address) => !dropped.has(address))
}

function readyAddresses(current: Endpoints | undefined): readonly string[] {
  return [...new Set(addressesIn(current))]
}
