import type { KubeApi } from '../../kube/api.ts'
import type { AvailabilityReporter } from '../../kube/availability.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type Change, Informer } from '../../kube/informer.ts'
import { type Lease, leases } from '../../kube/resources.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { formatMicroTime } from '../../runtime/time-format.ts'
import type { Logger } from '../../telemetry/logger.ts'
import { decodeHolder, encodeHolder } from './holder-record.ts'
import { leaseName } from './lease-name.ts'
import { LeaseObserver, type ObservedLease } from './lease-observer.ts'
import { type Holder, LeaseNotFound, type MasterLease, type MasterLeases, yieldsTo } from './master-leases.ts'

export const NAMESPACE = 'kube-system'
/** Never kube-apiserver's identity label: it collects leases that bear it. */
const LEASE_LABEL = 'apiserver-bootstrap/lease'
export const LABEL_SELECTOR = `${LEASE_LABEL}=master`
export const HOLDER_ANNOTATION = 'apiserver-bootstrap/holder'

export interface KubernetesLeasesOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  /** Of this master's own lease; whole seconds, in milliseconds. Other masters' TTLs are read from their leases. */
  readonly ttlMs: number
  /** How often this master reads the leases when nothing happens, in milliseconds. */
  readonly intervalMs: number
}

/**
 * One coordination.k8s.io Lease per master in kube-system: for servers whose datastore is out of reach.
 *
 * Whether a lease is over is judged by each observer for itself (see {@link LeaseObserver}); who finds one over deletes it,
 * guarded by uid and resourceVersion, so that all masters, and those that start later, agree.
 */
export class KubernetesLeases implements MasterLeases {
  readonly #options: KubernetesLeasesOptions
  readonly #observer: LeaseObserver
  /** Our own Lease as we last wrote or read it: spares a read before each renewal. */
  #own: Lease | undefined
  /** Sets the timer for what the next lease's end asks for; does nothing while nobody watches. */
  #wakeAtNextRead: () => void = () => {}

  constructor(options: KubernetesLeasesOptions) {
    this.#options = options
    this.#observer = new LeaseObserver({ maxGapMs: options.intervalMs * 1.5 })
  }

  async list(signal: AbortSignal): Promise<readonly MasterLease[]> {
    const { api, clock } = this.#options
    const query = { namespace: NAMESPACE, labelSelector: LABEL_SELECTOR, signal }
    const { told } = this.#observer
    const list = await api.list(leases, query).catch((error: unknown) => {
      this.#observer.interrupted()
      throw error
    })
    const nowMs = clock.monotonicMs()
    this.#observer.readAll(
      list.items.map((lease) => this.#observed(lease)),
      nowMs,
      told,
    )
    this.#wakeAtNextRead()
    const live: MasterLease[] = []
    for (const lease of list.items) {
      const holder = holderOf(lease)
      const address = holder?.addresses[0]
      if (holder === undefined || address === undefined) continue
      if (this.#observer.isOver(nameOf(lease), nowMs) && (await this.#collect(lease, holder, signal))) continue
      live.push({ address, holder })
    }
    return live
  }

  async update(holder: Holder, signal: AbortSignal): Promise<void> {
    const { api } = this.#options
    const name = leaseName(holder)
    for (;;) {
      const current = this.#own
      try {
        this.#own =
          current === undefined
            ? await api.create(leases, this.#render(holder, undefined), { signal })
            : await api.update(leases, this.#render(holder, current), { signal })
        return
      } catch (error) {
        if (isKubeError(error, 'NotFound') && current !== undefined) {
          this.#own = undefined
        } else if (isKubeError(error, 'Conflict', 'AlreadyExists')) {
          const stored = await this.#read(name, signal)
          // Nothing to renew from unless the lease turns out to be ours.
          this.#own = undefined
          if (yieldsTo(holderOf(stored), holder)) return
          this.#own = stored
        } else {
          throw error
        }
      }
    }
  }

  async mark(holder: Holder, signal: AbortSignal): Promise<void> {
    const { api } = this.#options
    for (;;) {
      const current = await this.#read(leaseName(holder), signal)
      if (current === undefined) return
      if (yieldsTo(holderOf(current), holder)) return
      const { spec } = current
      try {
        this.#own = await api.update(leases, { ...this.#render(holder, current), spec } as Lease, { signal })
        return
      } catch (error) {
        if (isKubeError(error, 'NotFound')) return
        if (!isKubeError(error, 'Conflict')) throw error
      }
    }
  }

  async remove(holder: Holder, signal: AbortSignal): Promise<void> {
    const { api } = this.#options
    const name = leaseName(holder)
    for (;;) {
      const current = await this.#read(name, signal)
      if (current === undefined) throw new LeaseNotFound(holder.addresses[0] ?? '')
      const stored = holderOf(current)
      if (stored !== undefined && stored.instanceId !== holder.instanceId) return
      try {
        await api.delete(leases, { namespace: NAMESPACE, name }, { ...preconditions(current), signal })
        this.#own = undefined
        return
      } catch (error) {
        if (isKubeError(error, 'NotFound')) throw new LeaseNotFound(holder.addresses[0] ?? '')
        if (!isKubeError(error, 'Conflict')) throw error
      }
    }
  }

  async watch(look: () => void, signal: AbortSignal): Promise<void> {
    const { api, clock, random, logger, availability } = this.#options
    const informer = new Informer<Lease>({
      api,
      resource: leases,
      query: { namespace: NAMESPACE, labelSelector: LABEL_SELECTOR },
      clock,
      random,
      logger,
      availability,
      onBroken: () => {
        this.#observer.interrupted()
        // From the next read on, time counts again.
        look()
      },
    })
    let cancel = () => {}
    this.#wakeAtNextRead = () => {
      cancel()
      const nowMs = clock.monotonicMs()
      const readMs = this.#observer.nextReadMs(nowMs)
      if (readMs === undefined) return
      cancel = clock.schedule(readMs - nowMs, () => {
        this.#wakeAtNextRead()
        look()
      })
    }
    informer.subscribe((change) => {
      this.#take(change)
      this.#wakeAtNextRead()
      if (changesMembership(change)) look()
    })
    try {
      await informer.run(signal)
    } finally {
      this.#wakeAtNextRead = () => {}
      cancel()
    }
  }

  #take(change: Change<Lease>): void {
    if (change.type === 'deleted') this.#observer.forget(nameOf(change.old))
    else this.#observer.readOne(this.#observed(change.object), this.#options.clock.monotonicMs())
  }

  #observed(lease: Lease): ObservedLease {
    const { holderIdentity, renewTime, leaseDurationSeconds } = lease.spec ?? {}
    const ttlMs = leaseDurationSeconds === undefined ? this.#options.ttlMs : leaseDurationSeconds * 1000
    return { key: nameOf(lease), renewal: `${holderIdentity} ${renewTime}`, ttlMs }
  }

  /** Deletes a lease that is over. False when it turns out to have been renewed meanwhile. */
  async #collect(lease: Lease, holder: Holder, signal: AbortSignal): Promise<boolean> {
    const ref = { namespace: NAMESPACE, name: nameOf(lease) }
    try {
      await this.#options.api.delete(leases, ref, { ...preconditions(lease), signal })
    } catch (error) {
      if (isKubeError(error, 'Conflict')) return false
      if (!isKubeError(error, 'NotFound')) throw error
    }
    this.#options.logger.info({ address: holder.addresses[0], host: holder.host }, 'lease ended without renewal')
    return true
  }

  async #read(name: string, signal: AbortSignal): Promise<Lease | undefined> {
    try {
      return await this.#options.api.get(leases, { namespace: NAMESPACE, name }, { signal })
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return undefined
      throw error
    }
  }

  #render(holder: Holder, current: Lease | undefined): Lease {
    const now = formatMicroTime(this.#options.clock.wallMs())
    const identity = `${holder.host}_${holder.instanceId}`
    const taken = current !== undefined && current.spec?.holderIdentity !== identity
    return {
      ...current,
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        ...current?.metadata,
        name: leaseName(holder),
        namespace: NAMESPACE,
        labels: { ...current?.metadata?.labels, [LEASE_LABEL]: 'master' },
        annotations: { ...current?.metadata?.annotations, [HOLDER_ANNOTATION]: encodeHolder(holder) },
      },
      spec: {
        ...current?.spec,
        holderIdentity: identity,
        leaseDurationSeconds: Math.round(this.#options.ttlMs / 1000),
        acquireTime: taken ? now : (current?.spec?.acquireTime ?? now),
        renewTime: now,
        leaseTransitions: (current?.spec?.leaseTransitions ?? 0) + (taken ? 1 : 0),
      },
    } as Lease
  }
}

function holderOf(lease: Lease | undefined): Holder | undefined {
  return decodeHolder(lease?.metadata?.annotations?.[HOLDER_ANNOTATION])
}

function nameOf(lease: Lease): string {
  return lease.metadata?.name ?? ''
}

function preconditions(lease: Lease): { uid: string | undefined; resourceVersion: string | undefined } {
  return { uid: lease.metadata?.uid, resourceVersion: lease.metadata?.resourceVersion }
}

/** A renewal changes nothing that anybody must act on. */
function changesMembership(change: Change<Lease>): boolean {
  if (change.type !== 'updated') return true
  return (
    change.old.metadata?.annotations?.[HOLDER_ANNOTATION] !== change.object.metadata?.annotations?.[HOLDER_ANNOTATION]
  )
}
