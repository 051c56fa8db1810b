import type { Followed, Informers } from '../../kube/informer.ts'
import { type IpAddress, ipAddresses, type ServiceCidr, serviceCidrs } from '../../kube/resources.ts'
import { type Change, objectOf } from '../../kube/store.ts'
import type { Clock } from '../../runtime/clock.ts'
import { inSlices } from '../../runtime/steps.ts'
import { REQUEST_TIMEOUT_MS, type Repair, type RepairContext } from '../repair.ts'
import { trimIpAddress } from './ip-address.ts'
import { IpAddressRounds } from './rounds.ts'
import { IpAddressSchedule } from './schedule.ts'
import { addressesOf, holdersIn, ServiceIpRanges } from './service-ips.ts'

interface IpAddressRepairOptions extends RepairContext {
  /** Provides the informers of IPAddresses and ServiceCIDRs. Their owner runs them. */
  readonly informers: Informers
}

/** While this ServiceCIDR is missing, it is unknown which addresses Services may have. */
const defaultServiceCidr = 'kubernetes'

/**
 * Maintains for each ClusterIP one IPAddress that refers to the Service, and no IPAddress without a Service. A change
 * is normally checked within a second, and missing or wrong IPAddresses are repaired. Orphans that this process created
 * are deleted soon (`IpAddressWriter.verify`), all others only in a full pass. Upstream:
 * pkg/registry/core/service/ipallocator/controller/repairip.go.
 *
 * Why no new Service loses its address: kube-apiserver creates the IPAddress before it stores the Service, and aborts
 * the request after 60 s. A full pass deletes an orphan that refers to a Service only if this process has known the
 * IPAddress for longer than that, a later live read shows no Service with the address, and the IPAddress has not
 * changed since before that read.
 */
export class IpAddressRepair implements Repair {
  readonly #options: IpAddressRepairOptions
  readonly #ipAddresses: Followed<IpAddress>
  readonly #serviceCidrs: Followed<ServiceCidr>
  readonly #ages: IpAddressAges
  readonly #schedule: IpAddressSchedule
  readonly #rounds: IpAddressRounds
  #ranges = new ServiceIpRanges([])
  #stage: 'listing' | 'waiting' | 'repairing' = 'listing'

  constructor(options: IpAddressRepairOptions) {
    const { clock, informers, services } = options
    this.#options = options
    this.#ipAddresses = informers.get(ipAddresses, { transform: trimIpAddress, pauses: true })
    this.#serviceCidrs = informers.get(serviceCidrs)
    this.#ages = new IpAddressAges(clock)
    this.#schedule = new IpAddressSchedule(options)
    this.#rounds = new IpAddressRounds({
      ...options,
      ipAddresses: this.#ipAddresses,
      schedule: this.#schedule,
      view: {
        holdersOf: (name) => holdersIn(services.store, name),
        serviceOf: (ref) => services.store.get(ref),
        ipAddressOf: (name) => this.#ipAddresses.store.get({ name }),
        ageMs: (ipAddress) => this.#ages.ageMs(ipAddress),
        inRange: (name) => this.#ranges.contains(name),
      },
    })
  }

  /** Stays pending while the server does not serve IPAddresses, because it may serve them later. */
  get settled(): Promise<void> {
    return this.#rounds.settled
  }

  /**
   * Whether the server serves IPAddresses. `absent` may become `served`: the server may be starting, or may be
   * upgraded.
   */
  get served(): 'unknown' | 'served' | 'absent' {
    const { state } = this.#ipAddresses
    return state === 'starting' ? 'unknown' : state === 'synced' ? 'served' : 'absent'
  }

  fault(): string | undefined {
    if (this.served === 'absent') return undefined
    switch (this.#stage) {
      case 'listing':
        return 'waiting for the first lists of Services, IPAddresses and ServiceCIDRs'
      case 'waiting':
        return `waiting for the ServiceCIDR ${defaultServiceCidr} to be created`
      case 'repairing': {
        const { failure } = this.#rounds
        return failure === undefined ? undefined : `IPAddresses cannot be repaired: ${failure}`
      }
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      await this.#run(signal)
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { services, logger, reporter } = this.#options
    const { metrics } = reporter
    // Subscribed before the first lists arrive, because the informers then deliver the objects of these lists with
    // pauses. The objects that the informers already have are counted below, and checked in the first full pass.
    const onlyChanges = { onlyChanges: true }
    const subscriptions = [
      this.#ipAddresses.subscribe((change) => {
        this.#ages.apply(change)
        const { metadata } = objectOf(change)
        const { name = '' } = metadata ?? {}
        if (change.type !== 'updated') this.#ranges.count(name, change.type === 'added' ? 1 : -1)
        if (change.type === 'deleted') this.#schedule.markDeleted(name)
        // The first full pass checks everything.
        else if (this.#stage === 'repairing') this.#schedule.mark([name])
      }, onlyChanges),
      services.subscribe((change) => {
        if (this.#stage === 'repairing') this.#schedule.mark(addressesOf(change))
      }, onlyChanges),
      this.#serviceCidrs.subscribe(() => {
        const ranges = new ServiceIpRanges(this.#serviceCidrs.store.list())
        if (ranges.text !== this.#ranges.text) {
          for (const { range } of this.#ranges.usage()) metrics.unused(range)
          this.#ranges = ranges
          // Also during a pause of the first count, because the new ranges need a count of their own.
          if (this.#stage !== 'listing') void this.#countAll()
        }
        this.#schedule.markAll()
      }),
    ]
    try {
      if ((await this.#ipAddresses.whenSettled(signal)) === 'absent') {
        logger.info({}, 'the server does not serve IPAddresses yet; waiting to repair them')
        await this.#ipAddresses.whenSynced(signal)
      }
      this.#ages.listed()
      await this.#whenReady(signal)
      metrics.onCollect(() => this.#reportUsage())
      this.#schedule.passAfter(0)
      for (;;) {
        const work = await this.#schedule.next(signal)
        await this.#rounds.round(work, signal)
        if (work.full) this.#ages.tidy()
      }
    } finally {
      for (const end of subscriptions) end()
      this.#schedule.end()
      metrics.ended(this.#rounds)
    }
  }

  #countAll(): void | Promise<void> {
    return inSlices(this.#options.clock, this.#ranges.countAll(this.#ipAddresses.store.snapshot()))
  }

  #reportUsage(): void {
    const { metrics } = this.#options.reporter
    for (const { range, ...usage } of this.#ranges.usage()) metrics.usage(range, usage)
  }

  async #whenReady(signal: AbortSignal): Promise<void> {
    await this.#options.services.whenSynced(signal)
    await this.#serviceCidrs.whenSynced(signal)
    this.#stage = 'waiting'
    // Every change of a ServiceCIDR requests a check. The full pass that follows covers all other requests.
    while (this.#serviceCidrs.store.get({ name: defaultServiceCidr }) === undefined) await this.#schedule.next(signal)
    await this.#countAll()
    this.#stage = 'repairing'
  }
}

/**
 * The ages of IPAddresses, by this process's own clock: a server's wrong clock must not cost a new Service its address.
 * Only young IPAddresses that appeared after the first list are remembered one by one.
 */
export class IpAddressAges {
  readonly #clock: Clock
  /** When each IPAddress that appeared after the first list was first seen, by uid, in the order of these times. */
  readonly #young = new Map<string, number>()
  /** When the first list had been received; undefined before that. */
  #listedMs: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Call this once, after {@link apply} has received the first list. */
  listed(): void {
    this.#listedMs = this.#clock.monotonicMs()
  }

  /** Call this with every change of an IPAddress. */
  apply(change: Change<IpAddress>): void {
    if (this.#listedMs === undefined) return
    const before = change.type === 'added' ? undefined : change.old.metadata?.uid
    const after = change.type === 'deleted' ? undefined : change.object.metadata?.uid
    if (before === after) return
    if (before !== undefined) this.#young.delete(before)
    if (after !== undefined) this.#young.set(after, this.#clock.monotonicMs())
  }

  /**
   * How long this process has known an IPAddress that {@link apply} has received, in milliseconds. If that is longer
   * than {@link REQUEST_TIMEOUT_MS}, the result may be the time since the first list.
   */
  ageMs({ metadata }: IpAddress): number {
    const nowMs = this.#clock.monotonicMs()
    return nowMs - (this.#young.get(metadata?.uid ?? '') ?? this.#listedMs ?? nowMs)
  }

  /** Forgets IPAddresses known for longer than {@link REQUEST_TIMEOUT_MS}. */
  tidy(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const [uid, sinceMs] of this.#young) {
      if (nowMs - sinceMs < REQUEST_TIMEOUT_MS) return
      this.#young.delete(uid)
    }
  }
}
