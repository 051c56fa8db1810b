import type { KubeApi } from '../../kube/api.ts'
import { listPages } from '../../kube/api-wrappers.ts'
import { isAwayOrBusy, isKubeError } from '../../kube/errors.ts'
import { type EventSink, eventOf, referenceIn } from '../../kube/event-object.ts'
import type { Change, Followed, Informers } from '../../kube/informer.ts'
import { ipAddresses, isBeingDeleted, isNewer, type ServiceCidr, serviceCidrs } from '../../kube/resources.ts'
import { keyOfObject, objectOf } from '../../kube/store.ts'
import { identityOfIpAddress } from '../../repair/ip-address/ip-address.ts'
import type { Clock } from '../../runtime/clock.ts'
import { formatTime } from '../../runtime/time-format.ts'
import { WorkQueue, type WorkQueueObserver } from '../../runtime/work-queue.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { WorkloadController } from '../../workloads/service-queue.ts'
import { readyConditionBody } from '../ready-condition.ts'
import { BlockingAddresses, blockingTest } from './blocking-addresses.ts'
import { overlapping } from './coverage.ts'
import { type ProtectionAction, planProtection } from './protection-plan.ts'

/** The field manager of the condition, and the source of the Events: upstream's name, to own the same field. */
export const SERVICE_CIDR_CONTROLLER = 'service-cidr-controller'

/** How many ServiceCIDRs may be worked on at the same time; as in kube-controller-manager. */
const WORKERS = 5
/** The longest back-off of a failed ServiceCIDR, in milliseconds. It is short, because there are few ServiceCIDRs. */
const LONGEST_RETRY_MS = 60_000
/**
 * If a live read finds an IPAddress that the copies lack, the ServiceCIDR is checked again after this many
 * milliseconds.
 */
const STALE_COPY_MS = 10_000

export interface ServiceCidrProtectionOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  /** Provides the informers of ServiceCIDRs and IPAddresses. Their creator runs them. */
  readonly informers: Informers
  readonly observer: WorkQueueObserver
}

/**
 * Does the work of kube-controller-manager's service-cidr-controller (pkg/controller/servicecidrs): gives every
 * ServiceCIDR a finalizer, makes it Ready, and lets its deletion finish only when no IPAddress needs the ServiceCIDR.
 *
 * The controller plans from the copies of its informers. The resourceVersion guards each change of the finalizers: if
 * the ServiceCIDR has changed since the plan, the write fails. Before the controller removes a finalizer, it reads
 * ServiceCIDRs and IPAddresses live, because a copy that has missed an IPAddress would let a range in use be deleted.
 * The controller may run together with a kube-controller-manager: both write the same, and neither repeats a write of
 * the other.
 */
export class ServiceCidrProtectionController implements WorkloadController {
  readonly #options: ServiceCidrProtectionOptions
  readonly #serviceCidrs: Followed<ServiceCidr>
  readonly #queue: WorkQueue
  /** The ServiceCIDRs whose failure was logged as a warning, until a sync succeeds. */
  readonly #warned = new Set<string>()
  readonly #blocking: BlockingAddresses
  /**
   * The answers to the last write of each ServiceCIDR, by name. Without them, a write would be repeated until the copy
   * shows its result.
   */
  readonly #written = new Map<string, ServiceCidr>()
  readonly #subscriptions: readonly (() => void)[]

  constructor(options: ServiceCidrProtectionOptions) {
    const { informers } = options
    const addresses = informers.get(ipAddresses, { transform: identityOfIpAddress })
    this.#options = options
    this.#serviceCidrs = informers.get(serviceCidrs)
    this.#queue = new WorkQueue({ ...options, retry: { maxMs: LONGEST_RETRY_MS } })
    this.#blocking = new BlockingAddresses(addresses.store)
    this.#subscriptions = [
      this.#serviceCidrs.subscribe((change) => this.#serviceCidrChanged(change)),
      addresses.subscribe((change) => {
        for (const name of this.#blocking.apply(change)) this.#queue.add(name)
      }),
    ]
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      await this.#options.informers.whenSynced(signal)
      await this.#queue.run({
        workers: WORKERS,
        signal,
        reconcile: async (name, signal) => {
          await this.#sync(name, signal)
          this.#warned.delete(name)
        },
        failed: (name, error) => this.#logFailure(name, error),
      })
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      for (const unsubscribe of this.#subscriptions) unsubscribe()
    }
  }

  expedite(): void {
    this.#queue.expediteFailed()
  }

  /**
   * Queues the ServiceCIDR, and those under deletion that overlap it and so may depend on it. The new object of an
   * update suffices for that, because ranges are only ever added.
   */
  #serviceCidrChanged(change: Change<ServiceCidr>): void {
    const changed = objectOf(change)
    this.#queue.add(keyOfObject(changed))
    for (const other of overlapping(changed, this.#serviceCidrs.store.list())) {
      if (isBeingDeleted(other)) this.#queue.add(keyOfObject(other))
    }
  }

  async #sync(name: string, signal: AbortSignal): Promise<void> {
    const serviceCidr = this.#current(name)
    if (serviceCidr === undefined || !isBeingDeleted(serviceCidr)) this.#blocking.forget(name)
    if (serviceCidr === undefined) return
    const isBlocked =
      isBeingDeleted(serviceCidr) && this.#blocking.isBlocked(serviceCidr, this.#serviceCidrs.store.list())
    const nowMs = this.#options.clock.wallMs()
    for (const action of planProtection({ serviceCidr, isBlocked, nowMs })) {
      if (action.type === 'wait') this.#queue.addAfter(name, action.forMs)
      else if (action.type === 'remove-finalizer' && (await this.#isBlockedLive(serviceCidr, signal))) {
        this.#queue.addAfter(name, STALE_COPY_MS)
        return
      } else if (!(await this.#write(action, serviceCidr, signal))) return
    }
  }

  async #isBlockedLive(serviceCidr: ServiceCidr, signal: AbortSignal): Promise<boolean> {
    const { api, logger } = this.#options
    const all = (await api.list(serviceCidrs, { signal })).items
    const isBlocking = blockingTest(serviceCidr, all)
    for await (const page of listPages(api, ipAddresses, { signal, dropsManagedFields: true })) {
      const ipAddress = page.find(isBlocking)?.metadata?.name
      if (ipAddress === undefined) continue
      const fields = { serviceCidr: keyOfObject(serviceCidr), ipAddress }
      logger.warn(
        fields,
        'an IPAddress still needs the ServiceCIDR, though the cache shows none; not removing the finalizer',
      )
      return true
    }
    return false
  }

  /** The informer's copy, or the answer to the last write of this process if the copy is older. */
  #current(name: string): ServiceCidr | undefined {
    const copy = this.#serviceCidrs.store.get({ name })
    const written = this.#written.get(name)
    if (copy !== undefined && copy.metadata?.uid === written?.metadata?.uid && isNewer(written, copy)) return written
    this.#written.delete(name)
    return copy
  }

  /** Returns false if the ServiceCIDR is gone. @throws KubeError for every other failure. */
  async #write(
    action: Exclude<ProtectionAction, { readonly type: 'wait' }>,
    serviceCidr: ServiceCidr,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { api, clock } = this.#options
    const { name = '', resourceVersion } = serviceCidr.metadata ?? {}
    try {
      const written =
        action.type === 'set-condition'
          ? await api.patch(
              serviceCidrs,
              { name },
              {
                type: 'apply',
                body: readyConditionBody(name, action.condition, formatTime(clock.wallMs())),
                force: true,
              },
              { subresource: 'status', fieldManager: SERVICE_CIDR_CONTROLLER, signal },
            )
          : await api.patch(
              serviceCidrs,
              { name },
              { type: 'merge', body: { metadata: { resourceVersion, finalizers: action.finalizers } } },
              { signal },
            )
      this.#written.set(name, written)
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return false
      if (action.type === 'set-condition' && action.condition.status === 'True') this.#reportFailure(serviceCidr, error)
      throw error
    }
    this.#logWritten(action, name)
    return true
  }

  /** Records an Event in upstream's words, unless the failure is an outage. */
  #reportFailure(serviceCidr: ServiceCidr, error: unknown): void {
    if (!isKubeError(error) || isAwayOrBusy(error)) return
    const regarding = referenceIn(serviceCidrs, serviceCidr)
    const note = 'The ServiceCIDR Status can not be set to Ready=True'
    this.#options.events.record(eventOf('KubernetesServiceCIDRError', { regarding, note }))
  }

  #logWritten(action: Exclude<ProtectionAction, { readonly type: 'wait' }>, serviceCidr: string): void {
    const { logger } = this.#options
    switch (action.type) {
      case 'add-finalizer':
        logger.info({ serviceCidr }, 'set the finalizer of a ServiceCIDR')
        return
      case 'remove-finalizer':
        logger.info({ serviceCidr }, 'removed the finalizer of a ServiceCIDR: no IPAddress needs it any more')
        return
      case 'set-condition':
        if (action.condition.status === 'True') logger.info({ serviceCidr }, 'set a ServiceCIDR to Ready')
        else logger.info({ serviceCidr }, 'set a ServiceCIDR to not ready: it is being deleted, and has IPAddresses')
    }
  }

  #logFailure(serviceCidr: string, error: unknown): void {
    const retries = this.#queue.numRequeues(serviceCidr)
    const fields = { serviceCidr, retries, error }
    // These failures are logged at debug: a conflict is normal, `Availability` logs an outage once, and retries would
    // fill the log.
    if (isAwayOrBusy(error) || isKubeError(error, 'Conflict') || this.#warned.has(serviceCidr)) {
      this.#options.logger.debug(fields, 'a sync failed')
    } else {
      this.#warned.add(serviceCidr)
      this.#options.logger.warn(fields, 'a sync failed; trying again')
    }
  }
}
