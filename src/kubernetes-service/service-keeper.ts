import type { KubeApi } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import { type Service, services } from '../kube/resources.ts'
import type { Logger } from '../telemetry/logger.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import type { ObjectWriter } from './object-writer.ts'
import { SecondClusterIpDemand } from './second-cluster-ip.ts'
import type { ServiceStack } from './service-families-plan.ts'
import { planService, type ServiceAction, type ServiceSettings } from './service-plan.ts'

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
  isSatisfied(cached: Service | undefined, settled: boolean, stack: ServiceStack = 'as-found'): boolean {
    const { writer, settings } = this.#options
    const action = planService(cached, settings, settled, stack, this.#second.present)
    if (action.type !== 'none') return writer.isWaiting(services, action.service, cached)
    writer.right(services, cached)
    return true
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
  async reconcile(
    cached: Service | undefined,
    settled: boolean,
    signal: AbortSignal,
    stack: ServiceStack = 'as-found',
  ): Promise<void> {
    const current = cached === undefined ? undefined : await this.#read(signal)
    if (current !== undefined) this.#noticeClusterIp(current)
    for (;;) {
      const action = planService(current, this.#options.settings, settled, stack, this.#second.present)
      const second = asksForSecondAddress(action, current)
      try {
        const written = await this.#execute(action, current, signal)
        if (written && second !== undefined) this.#noticeGranted()
        return
      } catch (error) {
        if (second === undefined || !isKubeError(error, 'Invalid') || !this.#second.refused()) throw error
        this.#noticeRefused(second, error.message)
      }
    }
  }

  /** Whether anything was written. */
  async #execute(action: ServiceAction, current: Service | undefined, signal: AbortSignal): Promise<boolean> {
    const { logger, writer } = this.#options
    if (action.type === 'none') {
      writer.right(services, current)
      return false
    }
    if (writer.mustWait(services, action.service, current)) return false
    switch (action.type) {
      case 'create':
        try {
          await writer.create(services, action.service, action.reasons, signal)
        } catch (error) {
          if (isKubeError(error, 'AlreadyExists')) return false
          throw error
        }
        logger.info({ clusterIP: action.service.spec?.clusterIP }, 'created the kubernetes service')
        return true
      case 'update': {
        await writer.update(services, action.service, action.reasons, signal)
        const level = writer.isFight(services, action.service) ? 'debug' : 'info'
        logger[level]({ reasons: action.reasons }, 'resetting the kubernetes service')
        return true
      }
    }
  }

  async #read(signal: AbortSignal): Promise<Service | undefined> {
    try {
      return await this.#options.api.get(services, KUBERNETES_SERVICE, { signal })
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return undefined
      throw error
    }
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

/** What a write asks for in addition to the address that the Service has: an address, or a family; undefined if nothing. */
function asksForSecondAddress(action: ServiceAction, current: Service | undefined): string | undefined {
  if (action.type === 'none' || current?.spec?.clusterIPs?.length === 2) return undefined
  const { clusterIPs, ipFamilies } = action.service.spec ?? {}
  return clusterIPs?.[1] ?? ipFamilies?.[1]
}
