import type { KubeApi } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import { type Service, services } from '../kube/resources.ts'
import type { Logger } from '../telemetry/logger.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import type { ObjectWriter } from './object-writer.ts'
import { planService, type ServiceSettings } from './service-plan.ts'

export interface ServiceKeeperOptions {
  readonly api: KubeApi
  readonly logger: Logger
  readonly writer: ObjectWriter
  readonly settings: ServiceSettings
}

/** Makes and mends Service `default/kubernetes`. */
export class ServiceKeeper {
  readonly #options: ServiceKeeperOptions
  #foreignClusterIp: string | undefined

  constructor(options: ServiceKeeperOptions) {
    this.#options = options
  }

  /** Whether nothing is to be done, as far as a cache can tell. */
  isSatisfied(cached: Service | undefined, settled: boolean): boolean {
    return planService(cached, this.#options.settings, settled).type === 'none'
  }

  /**
   * Makes the Service right. One that the cache has is read again first; one that it has not is made without a look, since the
   * server refuses a second one. A Service that somebody else made in the meantime is looked at next time; a conflict rejects.
   */
  async reconcile(cached: Service | undefined, settled: boolean, signal: AbortSignal): Promise<void> {
    const { logger, writer, settings } = this.#options
    const current = cached === undefined ? undefined : await this.#read(signal)
    const action = planService(current, settings, settled)
    if (current !== undefined) this.#noticeClusterIp(current)
    switch (action.type) {
      case 'none':
        return
      case 'create':
        try {
          await writer.create(services, action.service, action.reasons, signal)
        } catch (error) {
          if (isKubeError(error, 'AlreadyExists')) return
          throw error
        }
        logger.info({ clusterIP: settings.clusterIp }, 'created the kubernetes service')
        return
      case 'update':
        await writer.update(services, action.service, action.reasons, signal)
        logger.info({ reasons: action.reasons }, 'resetting the kubernetes service')
        return
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
