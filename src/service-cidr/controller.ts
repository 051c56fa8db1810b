import type { KubeApi } from '../kube/api.ts'
import type { AvailabilityReporter } from '../kube/availability.ts'
import { ifFound, isKubeError } from '../kube/errors.ts'
import { type EventSink, eventReasons, referenceIn } from '../kube/event-object.ts'
import { Informer } from '../kube/informer.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import { type ServiceCidr, serviceCidrs } from '../kube/resources.ts'
import type { Cidr } from '../net/cidr.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { formatTime } from '../runtime/time-format.ts'
import type { Logger } from '../telemetry/logger.ts'
import {
  DEFAULT_SERVICE_CIDR,
  failureReport,
  planServiceCidr,
  readyStatus,
  SERVICE_CIDR_MANAGER,
  type ServiceCidrAction,
  type ServiceCidrReport,
} from './service-cidr-plan.ts'

/** The time between two reconciliations without a change, in milliseconds; as upstream. */
const INTERVAL_MS = 10_000

const ref = { name: DEFAULT_SERVICE_CIDR }

export interface DefaultServiceCidrOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  readonly events: EventSink
  /** One or two ranges; the first decides the cluster's primary family. */
  readonly ranges: readonly Cidr[]
}

/**
 * Creates the default ServiceCIDR, makes it Ready, and upgrades it from one family to two. Each difference that the
 * controller must not correct is reported once, as a Warning Event and a log line. A server without the ServiceCIDR API
 * is left alone. Upstream: pkg/controlplane/controller/defaultservicecidr.
 */
export class DefaultServiceCidrController {
  readonly #options: DefaultServiceCidrOptions
  readonly #cidrs: readonly string[]
  readonly #loop: ReconcileLoop<'changed'>
  readonly #informer: Informer<ServiceCidr>
  readonly #absent = Promise.withResolvers<void>()
  readonly #reports = new Set<string>()

  constructor(options: DefaultServiceCidrOptions) {
    this.#options = options
    this.#cidrs = options.ranges.map((range) => range.text)
    const query = { fieldSelector: `metadata.name=${DEFAULT_SERVICE_CIDR}` }
    this.#informer = new Informer({ ...options, resource: serviceCidrs, query })
    this.#loop = new ReconcileLoop({
      ...options,
      source: 'default-service-cidr',
      intervalMs: INTERVAL_MS,
      reconcile: (_reasons, signal) => this.reconcile(signal),
    })
    this.#informer.subscribe(() => this.#loop.trigger('changed'))
  }

  /** Resolves after the first reconciliation without an error, or when the server is found to lack the API. */
  get settled(): Promise<void> {
    return Promise.race([this.#loop.settled, this.#absent.promise])
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#informer.run(signal), this.#reconcileUntilAborted(signal)])
  }

  async #reconcileUntilAborted(signal: AbortSignal): Promise<void> {
    if ((await this.#informer.whenSettled(signal)) === 'absent') {
      this.#absent.resolve()
      await this.#informer.whenSynced(signal)
    }
    await this.#loop.run(signal)
  }

  /** Plans from the cache. If that plan has an action other than a creation, plans again from a live read. */
  async reconcile(signal: AbortSignal): Promise<void> {
    const { api } = this.#options
    const cached = this.#informer.store.get(ref)
    const planned = planServiceCidr(cached, this.#cidrs)
    if (planned.type === 'none') return
    if (planned.type === 'report' && this.#reports.has(textOf(planned.report))) return
    // A missing ServiceCIDR is created without a live read, because the server refuses a second one.
    const live = planned.type === 'create' ? undefined : await ifFound(api.get(serviceCidrs, ref, { signal }))
    await this.#execute(planServiceCidr(live, this.#cidrs), live, signal)
  }

  async #execute(action: ServiceCidrAction, live: ServiceCidr | undefined, signal: AbortSignal): Promise<void> {
    const { api, clock, logger } = this.#options
    switch (action.type) {
      case 'none':
        return
      case 'report':
        this.#report(action.report, live)
        return
      case 'create': {
        const created = await this.#attempt('create', action.serviceCidr, () =>
          api.create(serviceCidrs, action.serviceCidr, { signal }),
        )
        if (created === undefined) return
        logger.info({ cidrs: this.#cidrs }, 'created the default ServiceCIDR')
        await this.#execute(planServiceCidr(created, this.#cidrs), created, signal)
        return
      }
      case 'upgrade':
        await this.#attempt('upgrade', live, () => api.update(serviceCidrs, action.serviceCidr, { signal }))
        logger.info({ cidrs: this.#cidrs }, 'upgraded the default ServiceCIDR to two families')
        return
      case 'set-ready': {
        const body = readyStatus(formatTime(clock.wallMs()))
        await this.#attempt('set-ready', live, () =>
          api.patch(
            serviceCidrs,
            ref,
            { type: 'apply', body, force: true },
            { subresource: 'status', fieldManager: SERVICE_CIDR_MANAGER, signal },
          ),
        )
        logger.info({}, 'set the default ServiceCIDR to Ready')
        return
      }
    }
  }

  /** Reports a permanent refusal. Rethrows every error, except AlreadyExists from a creation. */
  async #attempt<T>(
    action: 'create' | 'upgrade' | 'set-ready',
    regarding: ServiceCidr | undefined,
    call: () => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await call()
    } catch (error) {
      if (action === 'create' && isKubeError(error, 'AlreadyExists')) {
        // Another client was faster, or the watch has missed the creation. In the second case each reconciliation would
        // try to create the ServiceCIDR until the informer restarts.
        this.#informer.restart()
        return undefined
      }
      if (isKubeError(error, 'Invalid', 'Forbidden', 'BadRequest')) {
        this.#report(failureReport(action, this.#cidrs, error.message), regarding)
      }
      throw error
    }
  }

  #report(report: ServiceCidrReport, regarding: ServiceCidr | undefined): void {
    const { reason, note } = report
    if (this.#reports.has(textOf(report))) return
    this.#reports.add(textOf(report))
    this.#options.logger.warn({ reason }, note)
    this.#options.events.record({
      regarding: referenceIn(serviceCidrs, { metadata: { ...ref, uid: regarding?.metadata?.uid } }),
      // Only the type and action are taken from this entry: the reason may be that of the condition Ready.
      ...eventReasons.KubernetesDefaultServiceCIDRError,
      reason,
      note,
    })
  }
}

function textOf({ reason, note }: ServiceCidrReport): string {
  return `${reason} ${note}`
}
