import type { Address } from '../../net/address.ts'
import type { Clock } from '../../runtime/clock.ts'
import { Mutex } from '../../runtime/mutex.ts'
import { formatMicroTime } from '../../runtime/time-format.ts'
import { type EndpointsAdapter, NoLiveMasters } from '../endpoints-adapter.ts'
import { planEndpoints } from '../endpoints-plan.ts'
import { addressesIn, type EndpointPort } from '../identity.ts'
import {
  type Holder,
  type HolderState,
  LeaseNotFound,
  LeaseWithdrawn,
  type MasterLease,
  type MasterLeases,
} from '../leases/master-leases.ts'
import {
  isDualStack,
  isHeldBy,
  isOfLaterLife,
  keepingPlaces,
  type LifeSpan,
  listedAddresses,
  othersRemain,
  portsAgreed,
  secondAddresses,
  startedAfter,
} from '../members.ts'
import type { Departure, EndpointReconciler, ObservedEndpoints, ReconcilePorts } from './endpoint-reconciler.ts'

export interface LeaseReconcilerOptions {
  readonly clock: Clock
  readonly adapter: EndpointsAdapter
  readonly leases: MasterLeases
  /** This master, as it wants to be known. */
  readonly holder: Holder
  /** What the record of a lease that has gone and is made anew says. @default 'ready' */
  readonly stateAnew?: (() => HolderState) | undefined
  /** Resolves when this master's server has lately answered: not before does it announce itself. @default at once */
  readonly whenAnswered?: ((signal: AbortSignal) => Promise<void>) | undefined
  /** Called when a read shows that this master's lease has gone although it should be there, or was withdrawn. */
  readonly onLost?: (() => void) | undefined
  /** Whether this master's lease has gone and is not made again yet, because somebody keeps taking it away. */
  readonly isHeldBack?: (() => boolean) | undefined
  /** Called with each read of the leases. */
  readonly onRead?: ((leases: readonly MasterLease[]) => void) | undefined
}

/**
 * Lists the masters whose leases live.
 *
 * A master announces itself with its first {@link reconcileEndpoints}; from then on {@link renew} keeps it announced.
 * Endpoints are only written after the leases have been read from the store, in the same call.
 * Upstream: `leaseEndpointReconciler` in pkg/controlplane/reconcilers/lease.go.
 */
export class LeaseEndpointReconciler implements EndpointReconciler {
  readonly #clock: Clock
  readonly #beganMs: number
  readonly #adapter: EndpointsAdapter
  readonly #leases: MasterLeases
  /** Of whoever changes the list, or what this master says of itself. */
  readonly #mutex = new Mutex()
  /** Of whoever writes this master's lease; taken after {@link #mutex}. A renewal takes it alone: no slow write to the list costs the lease. */
  readonly #leaseMutex = new Mutex()
  readonly #stateAnew: () => HolderState
  readonly #whenAnswered: (signal: AbortSignal) => Promise<void>
  readonly #onLost: () => void
  readonly #isHeldBack: () => boolean
  readonly #onRead: (leases: readonly MasterLease[]) => void
  #holder: Holder
  readonly #firstAnnounced = Promise.withResolvers<void>()
  #announced = false
  /** The lease has gone and the list has not followed yet: a call after a failure goes on from there. */
  #removing = false
  #stopped = false
  #lastRead: readonly MasterLease[] = []

  constructor(options: LeaseReconcilerOptions) {
    this.#clock = options.clock
    this.#beganMs = options.clock.monotonicMs()
    this.#adapter = options.adapter
    this.#leases = options.leases
    this.#holder = options.holder
    this.#stateAnew = options.stateAnew ?? (() => 'ready')
    this.#whenAnswered = options.whenAnswered ?? (async () => {})
    this.#onLost = options.onLost ?? (() => {})
    this.#isHeldBack = options.isHeldBack ?? (() => false)
    this.#onRead = options.onRead ?? (() => {})
  }

  /** Resolves when this master has made its lease for the first time. */
  get whenAnnounced(): Promise<void> {
    return this.#firstAnnounced.promise
  }

  reconcileEndpoints(
    ip: Address,
    ports: readonly EndpointPort[],
    reconcilePorts: ReconcilePorts,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#mutex.run(async () => {
      if (this.#stopped) return
      if (!this.#announced) {
        await this.#whenAnswered(signal)
        await this.renew(ip, signal)
      }
      await this.#reconcile(ports, reconcilePorts, signal)
    })
  }

  removeEndpoints(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<void> {
    return this.#mutex.run(async () => {
      if (!this.#removing) await this.#leaseMutex.run(() => this.#leases.remove(this.#holderOf(ip), signal))
      this.#removing = true
      this.#announced = false
      // Those who stay decide about their ports.
      await this.#reconcile(ports, false, signal, this.#stopped)
      this.#removing = false
    })
  }

  /** Makes this master's lease last for another TTL. */
  renew(ip: Address, signal: AbortSignal): Promise<void> {
    return this.#leaseMutex.run(() => this.#renew(ip, signal))
  }

  /**
   * Writes into the lease whether this master wants to be listed, without renewing it.
   *
   * @param decide - asked right before the write, which may have had to wait. It is given whether another master serves, to be read
   *   if it wants to know; undefined leaves the record as it is.
   * @returns whether the record changed.
   */
  announce(
    ip: Address,
    decide: (othersServe: () => Promise<boolean>) => Promise<HolderState | undefined>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const write = async (): Promise<boolean> => {
      const state = await decide(async () => othersRemain(await this.#read(signal), this.#holderOf(ip)))
      if (state === undefined || state === this.#holder.state) return false
      const next: Holder = { ...this.#holderOf(ip), state }
      if (!this.#stopped && this.#announced) await this.#leases.mark(next, signal)
      // Only now: what could not be said must not be said by the next renewal, when it may no longer be true.
      this.#holder = next
      return true
    }
    return this.#mutex.run(() => this.#leaseMutex.run(write))
  }

  /** What this master's record says of it. */
  get announcedState(): HolderState {
    return this.#holder.state
  }

  /**
   * Takes this master out unless it is the last: then it stays listed until its lease ends.
   * Masters that leave at the same moment see each other leaving, and none of them leaves an empty list.
   */
  leave(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<Departure> {
    return this.#leave(this.#holderOf(ip), ports, signal)
  }

  /** `before`: what its record says if it stays. */
  #leave(before: Holder, ports: readonly EndpointPort[], signal: AbortSignal): Promise<Departure> {
    const leave = async (): Promise<Departure> => {
      const leaving: Holder = { ...before, state: 'leaving' }
      if (!this.#removing) {
        if (!(await this.#markLeaving(leaving, signal))) return 'left'
        if (!othersRemain(await this.#read(signal), leaving)) {
          await this.#leases.mark(before, signal)
          return 'kept-the-last'
        }
        await this.#leases.remove(leaving, signal).catch(unlessNotFound)
        this.#removing = true
        this.#announced = false
      }
      return this.#finishLeaving(before, ports, signal)
    }
    return this.#mutex.run(() => this.#leaseMutex.run(leave))
  }

  /** The lease has gone. Puts it back if whoever was to remain has gone, too, or serves no more. */
  async #finishLeaving(before: Holder, ports: readonly EndpointPort[], signal: AbortSignal): Promise<Departure> {
    if (othersRemain(await this.#read(signal), before)) {
      try {
        await this.#reconcile(ports, false, signal)
        this.#removing = false
        return 'left'
      } catch (error) {
        if (!(error instanceof NoLiveMasters)) throw error
      }
    }
    await this.#leases.update(before, signal)
    this.#removing = false
    await this.#reconcile(ports, false, signal)
    return 'kept-the-last'
  }

  /**
   * Takes out what an earlier life of this master left, unless it is the last. Whether there was something to take out. What stays
   * does not say that its server is ready: others would leave the list to it.
   */
  async clearAway(ip: Address, ports: readonly EndpointPort[], signal: AbortSignal): Promise<boolean> {
    const leases = await this.#mutex.run(() => this.#read(signal))
    const own = leases.filter((lease) => isHeldBy(lease, this.#holderOf(ip)))
    const span = this.#span
    if (own.length === 0 || own.some((lease) => isOfLaterLife(lease, this.#holder, span))) return false
    this.#holder = startedAfter(leases, this.#holder, span)
    return (await this.#leave({ ...this.#holderOf(ip), state: 'unready' }, ports, signal)) === 'left'
  }

  stopReconciling(): void {
    this.#stopped = true
  }

  async destroy(): Promise<void> {}

  async readMembers(signal: AbortSignal): Promise<void> {
    await this.#read(signal)
  }

  async #read(signal: AbortSignal): Promise<readonly MasterLease[]> {
    this.#lastRead = await this.#leases.list(signal)
    this.#onRead(this.#lastRead)
    if (this.#announced && !this.#stopped) {
      const own = this.#lastRead.find((lease) => isHeldBy(lease, this.#holder))
      const withdrawn = own?.holder?.state === 'withdrawn' && own.holder.instanceId === this.#holder.instanceId
      if (withdrawn) this.#stopped = true
      if (own === undefined) this.#holder = { ...this.#holder, state: this.#stateAnew() }
      if (withdrawn || own === undefined) this.#onLost()
    }
    return this.#lastRead
  }

  isSatisfied(observed: ObservedEndpoints, ports: readonly EndpointPort[], reconcilePorts: boolean): boolean {
    if (this.#stopped) return true
    if (!this.#announced) return false
    const leases = keepingPlaces(this.#lastRead, observed.endpoints)
    const addresses = listedAddresses(leases)
    const plan = planEndpoints({ addresses, current: observed.endpoints, ports, reconcilePorts, stopping: false })
    return this.#adapter.isSettled(plan, observed, secondAddresses(leases, this.#lastRead))
  }

  /** Undefined while nobody lives, as before this master has announced itself as the first. */
  isDualStack(): boolean | undefined {
    return isDualStack(this.#lastRead)
  }

  /** Whether no live master wants other ports than this one. While nobody lives each would think so. */
  portsAgreed(): boolean {
    return this.#lastRead.length > 0 && portsAgreed(this.#lastRead, this.#holder.ports)
  }

  /** False when this master was withdrawn before: what is left of it then goes without further questions. */
  async #markLeaving(leaving: Holder, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#leases.mark(leaving, signal)
      return true
    } catch (error) {
      if (!(error instanceof LeaseWithdrawn)) throw error
      await this.#leases.remove(leaving, signal).catch(unlessNotFound)
      return false
    }
  }

  async #renew(ip: Address, signal: AbortSignal): Promise<void> {
    if (!this.#announced) this.#holder = startedAfter(await this.#read(signal), this.#holder, this.#span)
    await this.#leases.update(this.#holderOf(ip), signal)
    // A removal that failed half-way, and was not tried again, is over.
    this.#removing = false
    this.#announced = true
    this.#firstAnnounced.resolve()
  }

  async #reconcile(
    ports: readonly EndpointPort[],
    reconcilePorts: ReconcilePorts,
    signal: AbortSignal,
    stopping = false,
  ): Promise<void> {
    // In this order: a write that rests on older leases than somebody else's then finds that the objects have changed.
    const stored = await this.#adapter.read(signal)
    const current = stored.endpoints
    const live = await this.#read(signal)
    const leases = keepingPlaces(live, current)
    const listed = listedAddresses(leases)
    // Whoever goes while all leases have ended takes its own address along, not those of masters that may be back in a moment.
    const addresses =
      stopping && listed.length === 0
        ? addressesIn(current).filter((address) => !this.#holder.addresses.includes(address))
        : listed
    const mend = reconcilePorts === 'agreed' ? this.portsAgreed() : reconcilePorts
    const plan = planEndpoints({ addresses, current, ports, reconcilePorts: mend, stopping })
    // Nobody lives but this master, whose lease will be there again in a while: nothing to be done about, and no failure.
    if (plan.type === 'refuse' && this.#isHeldBack()) return
    await this.#adapter.execute(plan, stored, signal, secondAddresses(leases, live))
  }

  get #span(): LifeSpan {
    const nowMs = this.#clock.wallMs()
    const ageMs = this.#clock.monotonicMs() - this.#beganMs
    return { began: formatMicroTime(nowMs - ageMs), now: formatMicroTime(nowMs) }
  }

  #holderOf(ip: Address): Holder {
    return this.#holder.addresses[0] === ip.text ? this.#holder : { ...this.#holder, addresses: [ip.text] }
  }
}

/** Leaving is tried again after a failure half-way, so the lease may have gone already. */
function unlessNotFound(error: unknown): void {
  if (!(error instanceof LeaseNotFound)) throw error
}
