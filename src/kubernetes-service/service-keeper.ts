import type { KubeApi } from '../kube/api.ts'
import { ifFound, isKubeError } from '../kube/errors.ts'
import type { ObjectAction, ObjectWriter } from '../kube/object-writer.ts'
import { type Service, services } from '../kube/resources.ts'
import type { Logger } from '../telemetry/logger.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import { planService, type SecondClusterIp, type ServiceSettings, type ServiceWishes } from './service-plan.ts'

/** So many refusals in a row are more than the moment that the address of a deleted Service needs to be free. */
const PATIENCE = 10

export interface ServiceKeeperOptions {
  readonly api: KubeApi
  readonly logger: Logger
  readonly writer: ObjectWriter
  readonly settings: ServiceSettings
}

/** Makes and mends Service `default/kubernetes`. */
export class ServiceKeeper {
  readonly #options: ServiceKeeperOptions
  readonly #second = new SecondClusterIpDemand()
  #foreignClusterIp: string | undefined
  #saidRefused = false
  #isAway = false

  constructor(options: ServiceKeeperOptions) {
    this.#options = options
  }

  /** Whether nothing is to be done now, as far as a cache can tell; what somebody else keeps undoing may have to wait. */
  isSatisfied(cached: Service | undefined, wishes: ServiceWishes): boolean {
    return this.#options.writer.isSettled(services, this.#plan(cached, wishes), cached)
  }

  /** Asks again for a second address that was refused before, unless the Service has got one. */
  renewDemand(cached: Service | undefined): void {
    if (cached?.spec?.clusterIPs?.length === 2) this.#noticeGranted()
    else if (this.#isAway) this.#second.reset()
    else this.#second.renew()
  }

  /**
   * The API server is lost, or back. It may have been started anew with other ranges, and refuses every address in them until it has read them: what
   * it refused before does not count, nor what it refuses in its first second.
   */
  noticeAvailability(available: boolean): void {
    this.#isAway = !available
    this.#second.reset()
  }

  /**
   * Makes the Service right. One that the cache has is read again first; one that it has not is made without a look, since the
   * server refuses a second one. A Service that somebody else made in the meantime is looked at next time; a conflict rejects.
   * A server that keeps refusing a second address is not asked for it until {@link renewDemand}.
   */
  async reconcile(cached: Service | undefined, wishes: ServiceWishes, signal: AbortSignal): Promise<void> {
    const current =
      cached === undefined ? undefined : await ifFound(this.#options.api.get(services, KUBERNETES_SERVICE, { signal }))
    if (current !== undefined) this.#noticeClusterIp(current)
    for (;;) {
      const action = this.#plan(current, wishes)
      const second = asksForSecondAddress(action, current)
      try {
        const { type } = await this.#options.writer.execute(services, action, current, signal)
        if (type === 'written' && second !== undefined) this.#noticeGranted()
        return
      } catch (error) {
        if (second === undefined || !isKubeError(error, 'Invalid') || !this.#second.refused()) throw error
        this.#noticeRefused(second, error.message)
      }
    }
  }

  #plan(current: Service | undefined, { settled, stack }: ServiceWishes): ObjectAction<Service> {
    return planService(current, this.#options.settings, settled, stack, this.#second.present)
  }

  #noticeGranted(): void {
    this.#second.reset()
    this.#saidRefused = false
  }

  #noticeRefused(asked: string, reason: string): void {
    if (this.#saidRefused) return
    this.#saidRefused = true
    this.#options.logger.warn({ asked, reason }, 'the API server refuses the kubernetes service its second address')
  }

  #noticeClusterIp(service: Service): void {
    const { logger, settings } = this.#options
    const clusterIP = service.spec?.clusterIP
    if (clusterIP === undefined || clusterIP === settings.clusterIp || clusterIP === this.#foreignClusterIp) return
    this.#foreignClusterIp = clusterIP
    logger.warn(
      { clusterIP, expected: settings.clusterIp },
      'the kubernetes service has another address than --service-cluster-ip-range gives; a Service keeps its address',
    )
  }
}

/**
 * Remembers how much of a second address a server can be asked for: less after each refusal, until it takes the Service.
 *
 * An address may be refused because it belongs to somebody else, or to nobody any more: an API server that has one family itself does
 * not give back those of the other. The family may be refused because the server has only one.
 */
class SecondClusterIpDemand {
  #present: SecondClusterIp = 'configured'
  #refusals = 0

  get present(): SecondClusterIp {
    return this.#present
  }

  /** To be called when a write that asked for a second address was refused. Whether less is asked for from now on. */
  refused(): boolean {
    this.#refusals += 1
    if (this.#present === 'configured' && this.#refusals < PATIENCE) return false
    if (this.#present === 'if-possible') return false
    this.#present = this.#present === 'configured' ? 'any' : 'if-possible'
    return true
  }

  /** Asks for everything, with all patience: the Service has got its second address, or the server may be another one now. */
  reset(): void {
    this.#present = 'configured'
    this.#refusals = 0
  }

  /** Asks for everything once more: somebody may have given the address back. */
  renew(): void {
    if (this.#present !== 'configured') this.#refusals = PATIENCE - 1
    this.#present = 'configured'
  }
}

/** What a write asks for in addition to the address that the Service has: an address, or a family; undefined if nothing. */
function asksForSecondAddress(action: ObjectAction<Service>, current: Service | undefined): string | undefined {
  if (action.type === 'none' || current?.spec?.clusterIPs?.length === 2) return undefined
  const { clusterIPs, ipFamilies } = action.object.spec ?? {}
  return clusterIPs?.[1] ?? ipFamilies?.[1]
}
