import type { KubeApi } from '../kube/api.ts'
import { ifFound, isKubeError } from '../kube/errors.ts'
import { type Service, services } from '../kube/resources.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { ObjectAction, ObjectWriter } from './guarded-writes/object-writer.ts'
import { KUBERNETES_SERVICE } from './identity.ts'
import { planService, type SecondClusterIp, type ServiceDemand, type ServiceSettings } from './service-plan.ts'

/**
 * After this many refusals of the second address in a row, the writer requests less. If a deleted Service had that
 * address, the server has released it by then, so the refusal has another reason.
 */
const PATIENCE = 10

export interface ServiceWriterOptions {
  readonly api: KubeApi
  readonly logger: Logger
  readonly writer: ObjectWriter
  readonly settings: ServiceSettings
}

/**
 * Writes the Service, and decides which second address to request for the Service (see {@link SecondClusterIp}). After
 * refusals the writer requests less, until the server accepts. A server may refuse an address because another Service
 * has it, or because it leaked: an API server with only one family does not release addresses of the other family. A
 * server that has only one family refuses the second family.
 */
export class ServiceWriter {
  readonly #options: ServiceWriterOptions
  #second: SecondClusterIp = 'configured'
  #refusals = 0
  #foreignClusterIp: string | undefined
  #refusalReported = false
  #creationRefused = false
  #isAway = false

  constructor(options: ServiceWriterOptions) {
    this.#options = options
  }

  /** Whether the cached Service needs no write now: it is in sync, or its correction must wait. */
  isSatisfied(cached: Service | undefined, demand: ServiceDemand): boolean {
    return this.#options.writer.isSettled(services, this.#plan(cached, demand), cached)
  }

  /**
   * Called at each interval. Lets the next write request a refused second address once more, because the address may
   * have been released; while the server is away, allows all {@link PATIENCE} attempts again. If the Service has a
   * second address, forgets the refusals.
   */
  renewDemand(cached: Service | undefined): void {
    if (cached?.spec?.clusterIPs?.length === 2) this.#noticeGranted()
    else if (this.#isAway) this.#beginAgain()
    else if (this.#second !== 'configured') {
      // One refusal then suffices to request less again.
      this.#second = 'configured'
      this.#refusals = PATIENCE - 1
    }
  }

  /**
   * Called when the API server was lost, or is back. The server may have been restarted with other ranges, and refuses
   * every address until it has read its ranges. So all {@link PATIENCE} attempts are allowed again.
   */
  noticeAvailability(available: boolean): void {
    this.#isAway = !available
    this.#beginAgain()
  }

  /**
   * Reconciles the Service. If the cache has the Service, it is first read live. Otherwise it is created without a
   * read, because the server refuses to create it twice. After a failed creation the Service is also read live: it may
   * exist although the watch did not report it, and the server may refuse the creation only because the ClusterIP is
   * taken. A second address that was refused `PATIENCE` times is not requested again until {@link renewDemand} or
   * {@link noticeAvailability} allows it. Rejects after a conflict and other failures, except if another client has
   * created the Service meanwhile.
   */
  async reconcile(cached: Service | undefined, demand: ServiceDemand, signal: AbortSignal): Promise<void> {
    const isRead = cached !== undefined || this.#creationRefused
    const current = isRead ? await ifFound(this.#options.api.get(services, KUBERNETES_SERVICE, { signal })) : undefined
    if (current !== undefined) this.#noticeClusterIp(current)
    this.#creationRefused = false
    for (;;) {
      const action = this.#plan(current, demand)
      const second = asksForSecondAddress(action, current)
      try {
        const { type } = await this.#options.writer.execute(services, action, current, signal)
        if (type === 'written' && second !== undefined) this.#noticeGranted()
        return
      } catch (error) {
        this.#creationRefused = current === undefined
        if (second === undefined || !isKubeError(error, 'Invalid')) throw error
        this.#refusals += 1
        if (this.#refusals < PATIENCE) throw error
        // The loop ends, because a write with `if-possible` requests no second address.
        this.#second = this.#second === 'configured' ? 'any' : 'if-possible'
        this.#noticeRefused(second, error.message)
      }
    }
  }

  #plan(current: Service | undefined, { portsAgreed, stack }: ServiceDemand): ObjectAction<Service> {
    return planService(current, this.#options.settings, portsAgreed, stack, this.#second)
  }

  #beginAgain(): void {
    this.#second = 'configured'
    this.#refusals = 0
  }

  /** Forgets the earlier refusals. The next one is logged again. */
  #noticeGranted(): void {
    this.#beginAgain()
    this.#refusalReported = false
  }

  #noticeRefused(asked: string, reason: string): void {
    if (this.#refusalReported) return
    this.#refusalReported = true
    this.#options.logger.warn(
      { asked, reason },
      'the API server rejects the second ClusterIP of the kubernetes service',
    )
  }

  #noticeClusterIp(service: Service): void {
    const { logger, settings } = this.#options
    const clusterIP = service.spec?.clusterIP ?? ''
    if (clusterIP === '' || clusterIP === settings.clusterIp || clusterIP === this.#foreignClusterIp) return
    this.#foreignClusterIp = clusterIP
    logger.warn(
      { clusterIP, expected: settings.clusterIp },
      'the ClusterIP of the kubernetes service does not match --service-cluster-ip-range; it is not changed, because a ClusterIP is immutable',
    )
  }
}

/** The second address, or else the second family, that a write requests; undefined if it requests none. */
function asksForSecondAddress(action: ObjectAction<Service>, current: Service | undefined): string | undefined {
  if (action.type === 'none' || current?.spec?.clusterIPs?.length === 2) return undefined
  const { clusterIPs, ipFamilies } = action.object.spec ?? {}
  return clusterIPs?.[1] ?? ipFamilies?.[1]
}
