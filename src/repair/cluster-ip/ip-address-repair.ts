import type { Followed, Informers } from '../../kube/informer.ts'
import { type IpAddress, ipAddresses, type ServiceCidr, serviceCidrs } from '../../kube/resources.ts'
import type { Repair, RepairContext } from '../repair.ts'
import { IpAddressAges } from './ip-address-ages.ts'
import { ServiceIpRanges } from './ip-address-ranges.ts'
import { IpAddressRounds } from './ip-address-rounds.ts'
import { IpAddressSchedule } from './ip-address-schedule.ts'
import { ServiceIpIndex } from './service-ip-index.ts'

export interface IpAddressRepairOptions extends RepairContext {
  /** Gives the informers of IPAddresses and ServiceCIDRs. Somebody else runs them. */
  readonly informers: Informers
}

/** As long as it is not there it is not known which addresses Services may have. */
const defaultServiceCidr = 'kubernetes'

/**
 * Keeps one IPAddress for each ClusterIP, with the Service as its parent, and none without a Service.
 *
 * Every change of a Service, an IPAddress or a ServiceCIDR is looked at within milliseconds, and what is missing or wrong is put right; only a
 * full pass deletes what is nobody's. Upstream: pkg/registry/core/service/ipallocator/controller/repairip.go.
 *
 * Why no Service in the making loses its address: kube-apiserver makes the IPAddress before it stores the Service, and gives up after its
 * request timeout of 60 s. An IPAddress without its Service is deleted only when it has been seen here for longer than that, when the Service,
 * read from the store after that time, is not there either, and when the IPAddress has not changed since before that read.
 */
export class IpAddressRepair implements Repair {
  readonly #options: IpAddressRepairOptions
  readonly #ipAddresses: Followed<IpAddress>
  readonly #serviceCidrs: Followed<ServiceCidr>
  readonly #index = new ServiceIpIndex()
  readonly #ages: IpAddressAges
  readonly #schedule: IpAddressSchedule
  readonly #rounds: IpAddressRounds
  #ranges = new ServiceIpRanges([])
  #stage: 'listing' | 'waiting' | 'repairing' = 'listing'

  constructor(options: IpAddressRepairOptions) {
    const { clock, informers, services } = options
    this.#options = options
    this.#ipAddresses = informers.get(ipAddresses)
    this.#serviceCidrs = informers.get(serviceCidrs)
    this.#ages = new IpAddressAges(clock)
    this.#schedule = new IpAddressSchedule(options)
    this.#rounds = new IpAddressRounds({
      ...options,
      ipAddresses: this.#ipAddresses,
      schedule: this.#schedule,
      tidy: () => {
        this.#ages.tidy()
        this.#ranges.tidy(this.#index.size)
      },
      view: {
        holdersOf: (name) => this.#index.holdersOf(name),
        serviceOf: (ref) => services.store.get(ref),
        ipAddressOf: (name) => this.#ipAddresses.store.get({ name }),
        ageMs: (ipAddress) => this.#ages.ageMs(ipAddress),
        inRange: (name) => this.#ranges.contains(name),
      },
    })
  }

  /** Stays open while the server serves no IPAddresses: it may do so later. */
  get settled(): Promise<void> {
    return this.#rounds.settled
  }

  /** Whether the server serves IPAddresses. `absent` may become `served`: the server was starting, or is upgraded. */
  get served(): 'unknown' | 'served' | 'absent' {
    const { state } = this.#ipAddresses
    return state === 'starting' ? 'unknown' : state === 'synced' ? 'served' : 'absent'
  }

  fault(): string | undefined {
    if (this.served === 'absent') return undefined
    switch (this.#stage) {
      case 'listing':
        return 'the first lists of Services, IPAddresses and ServiceCIDRs are not there yet'
      case 'waiting':
        return `there is no ServiceCIDR ${defaultServiceCidr} yet, so it is not known which addresses Services may have`
      case 'repairing': {
        const { failure } = this.#rounds
        return failure === undefined ? undefined : `IPAddresses cannot be put right: ${failure}`
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
    const { services, logger } = this.#options
    if ((await this.#ipAddresses.whenSettled(signal)) === 'absent') {
      logger.info({}, 'the server has no IPAddress API; there are no IPAddresses to repair until it has')
      await this.#ipAddresses.whenSynced(signal)
    }
    const subscriptions = [
      this.#ipAddresses.subscribe((change) => {
        this.#ages.apply(change)
        if (change.type === 'deleted') this.#schedule.markReleased(change.old.metadata?.name ?? '')
        else this.#schedule.mark([change.object.metadata?.name ?? ''])
      }),
      services.subscribe((change) => this.#schedule.mark(this.#index.apply(change))),
      this.#serviceCidrs.subscribe(() => {
        this.#ranges = new ServiceIpRanges(this.#serviceCidrs.store.list())
        this.#schedule.markAll()
      }),
    ]
    try {
      await this.#whenReady(signal)
      this.#options.reporter.metrics.onCollect(() => this.#tellUsage())
      this.#schedule.passWithin(0)
      for (;;) await this.#rounds.round(await this.#schedule.next(signal), signal)
    } finally {
      for (const end of subscriptions) end()
      this.#schedule.end()
    }
  }

  #tellUsage(): void {
    const { metrics } = this.#options.reporter
    const names = this.#ipAddresses.store.list().map(({ metadata }) => metadata?.name ?? '')
    for (const { range, ...usage } of this.#ranges.usage(names)) metrics.usage(range, usage)
  }

  async #whenReady(signal: AbortSignal): Promise<void> {
    await this.#options.services.whenSynced(signal)
    await this.#serviceCidrs.whenSynced(signal)
    this.#stage = 'waiting'
    // Every change of a ServiceCIDR asks for a look. What else asks is part of the full pass that follows.
    while (this.#serviceCidrs.store.get({ name: defaultServiceCidr }) === undefined) await this.#schedule.next(signal)
    this.#stage = 'repairing'
  }
}
