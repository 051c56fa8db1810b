import type { CallOptions, KubeApi, ListQuery } from '../../kube/api.ts'
import type { AvailabilityReporter } from '../../kube/availability.ts'
import { ifFound, isKubeError } from '../../kube/errors.ts'
import { type Change, Informer } from '../../kube/informer.ts'
import { claimedSpec } from '../../kube/lease-lock.ts'
import { LeaseObserver, type ObservedLease } from '../../kube/lease-observer.ts'
import { limitedApi } from '../../kube/limited-api.ts'
import { listPages } from '../../kube/list-pages.ts'
import { isNewer } from '../../kube/resource-version.ts'
import { type Lease, leases } from '../../kube/resources.ts'
import type { Cancel } from '../../runtime/clock.ts'
import { hashText } from '../../runtime/random.ts'
import type { RequestLimit } from '../../runtime/request-limit.ts'
import { TokenBucket } from '../../runtime/token-bucket.ts'
import { masterKey } from '../members.ts'
import { deleteAsRead, EndedLeases, type EndedLeasesOptions, nameOf } from './ended-leases.ts'
import { decodeHolder, encodeHolder } from './holder-record.ts'
import {
  addressOf,
  type Holder,
  isOfAnotherLife,
  LeaseNotFound,
  type MasterLease,
  type MasterLeases,
  yieldsTo,
} from './master-leases.ts'

/** @default of `--lease-namespace` */
export const LEASE_NAMESPACE = 'kube-system'
/** Never kube-apiserver's identity label: it collects leases that bear it. */
const LEASE_LABEL = 'apiserver-bootstrap/lease'
export const LABEL_SELECTOR = `${LEASE_LABEL}=master`
export const HOLDER_ANNOTATION = 'apiserver-bootstrap/holder'
/** What the names of masters' Leases begin with. */
const NAME_PREFIX = 'apiserver-bootstrap-'
/**
 * What another's `leaseDurationSeconds` is believed within: these milliseconds, and so many times the observer's own TTL. A lease of a day
 * would list its dead for a day; placeholders (docs/lease-stores.md) last five minutes with a TTL of 15 s.
 */
const BELIEVED_TTL = { leastMs: 1_000, mostMs: 60_000, mostOwn: 20 }
/** So many masters are read at most, those whose Leases are oldest first: no EndpointSlice holds more addresses. */
const MAX_MASTERS = 1_000
/** Looks that others' Leases may ask for, by changes other than renewals and by their ends: so many at once, and so many a second. */
const LOOKS = { burst: 30, qps: 4 }

export interface KubernetesLeasesOptions extends EndedLeasesOptions {
  readonly availability: AvailabilityReporter
  /** Of this master's own lease; whole seconds, in milliseconds. Other masters' TTLs are read from their leases. */
  readonly ttlMs: number
  /** How often this master reads the leases when nothing happens, in milliseconds. */
  readonly intervalMs: number
  /** Where the Leases are. @default kube-system */
  readonly namespace?: string | undefined
  /** Gives up requests that take too long. @default none, but for the API's own time-outs */
  readonly limit?: RequestLimit | undefined
}

/**
 * One coordination.k8s.io Lease per master: for servers whose datastore is out of reach.
 *
 * Whether a lease is over is judged by each observer for itself (see {@link LeaseObserver}); who finds one over deletes it (see
 * {@link EndedLeases}). No request waits for anything but its answer: a lease goes on ending meanwhile.
 */
export class KubernetesLeases implements MasterLeases {
  readonly #options: KubernetesLeasesOptions
  /** For everything but the watch. */
  readonly #api: KubeApi
  readonly #observer: LeaseObserver
  readonly #ended: EndedLeases
  readonly #namespace: string
  /** Our own Lease as we last wrote or read it: spares a read before each renewal. */
  #own: Lease | undefined
  /** Sets the timer for what the next lease's end asks for; does nothing while nobody watches. */
  #wakeAtNextRead: () => void = () => {}

  constructor(options: KubernetesLeasesOptions) {
    this.#options = options
    this.#api = options.limit === undefined ? options.api : limitedApi(options.api, options.limit)
    this.#observer = new LeaseObserver({ maxGapMs: options.intervalMs * 1.5 })
    this.#ended = new EndedLeases(options)
    this.#namespace = options.namespace ?? LEASE_NAMESPACE
  }

  async list(signal: AbortSignal): Promise<readonly MasterLease[]> {
    const { clock } = this.#options
    const query = { namespace: this.#namespace, labelSelector: LABEL_SELECTOR, urgent: true, signal }
    const { told } = this.#observer
    const items = await this.#listOldest(query).catch((error: unknown) => {
      this.#observer.interrupted()
      throw error
    })
    const observed = items.map((lease) => this.#observed(lease))
    this.#observer.readAll(observed, clock.monotonicMs(), told)
    this.#wakeAtNextRead()
    const found = items.flatMap((lease) => {
      const holder = holderOf(lease)
      return holder === undefined ? [] : [{ lease, holder }]
    })
    const named = new Set(found.filter(isInItsPlace).map(({ lease }) => nameOf(lease)))
    // A Lease that is named as a master's speaks for that one alone, so that rights to it are rights to one address. Another one, a
    // placeholder, says nothing of a master that has its own.
    const all = found.filter(
      (held) =>
        isInItsPlace(held) || !(nameOf(held.lease).startsWith(NAME_PREFIX) || named.has(leaseName(held.holder))),
    )
    const over = all.filter(({ lease }) => this.#observer.isOver(nameOf(lease)))
    const written = await this.#ended.collect(over, signal)
    return all
      .filter((held) => !over.includes(held) || written.has(held))
      .map(({ lease, holder }) => ({
        address: addressOf(holder),
        holder,
        renewal: this.#observed(lease).renewal,
        ...(this.#observer.isFound(nameOf(lease)) && { found: true }),
      }))
  }

  async update(holder: Holder, signal: AbortSignal): Promise<void> {
    const name = leaseName(holder)
    for (;;) {
      const current = this.#own
      try {
        const rendered = this.#render(holder, current)
        this.#own = await this.#api[current === undefined ? 'create' : 'update'](leases, rendered, {
          urgent: true,
          signal,
        })
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
    await this.#change(holder, signal, async (current) => {
      const stored = holderOf(current)
      if (isOfAnotherLife(stored, holder) || yieldsTo(stored, holder)) return
      const marked = { ...this.#render(holder, current), spec: current.spec } as Lease
      this.#own = await this.#api.update(leases, marked, { urgent: true, signal })
    })
  }

  async remove(holder: Holder, signal: AbortSignal): Promise<void> {
    const isThere = await this.#change(holder, signal, async (current) => {
      if (isOfAnotherLife(holderOf(current), holder)) return
      await deleteAsRead(this.#api, current, { urgent: true, signal })
      this.#own = undefined
    })
    if (!isThere) throw new LeaseNotFound(addressOf(holder))
  }

  async watch(look: () => void, signal: AbortSignal): Promise<void> {
    const { api, clock, random, logger, availability } = this.#options
    const query = { namespace: this.#namespace, labelSelector: LABEL_SELECTOR }
    const looks = new TokenBucket({ clock, ...LOOKS })
    let cancelLook: Cancel | undefined
    const askForLook = (): void => {
      if (cancelLook !== undefined) return
      const lateMs = looks.reserve()
      if (lateMs === 0) look()
      else
        cancelLook = clock.schedule(lateMs, () => {
          cancelLook = undefined
          look()
        })
    }
    const informer = new Informer({ api, clock, random, logger, availability, resource: leases, query })
    let cancel = () => {}
    this.#wakeAtNextRead = () => {
      cancel()
      const nowMs = clock.monotonicMs()
      const readMs = this.#observer.nextReadMs(nowMs)
      if (readMs === undefined) return
      cancel = clock.schedule(readMs - nowMs, () => {
        this.#wakeAtNextRead()
        askForLook()
      })
    }
    informer.subscribe((change) => {
      this.#take(change)
      this.#wakeAtNextRead()
      if (changesMembership(change)) askForLook()
    })
    try {
      await informer.run(signal)
    } finally {
      this.#wakeAtNextRead = () => {}
      cancel()
      cancelLook?.()
    }
  }

  #take(change: Change<Lease>): void {
    if (change.type === 'deleted') this.#observer.forget(nameOf(change.old))
    // A server that lags behind told of what was there before: that is no renewal.
    else if (change.type === 'updated' && isNewer(change.old, change.object)) return
    else this.#observer.readOne(this.#observed(change.object), this.#options.clock.monotonicMs())
  }

  #observed(lease: Lease): ObservedLease {
    const { holderIdentity, renewTime, leaseDurationSeconds } = lease.spec ?? {}
    const ttlMs = leaseDurationSeconds === undefined ? this.#options.ttlMs : leaseDurationSeconds * 1000
    const mostMs = Math.max(BELIEVED_TTL.mostMs, BELIEVED_TTL.mostOwn * this.#options.ttlMs)
    const believedMs = Math.min(Math.max(ttlMs, BELIEVED_TTL.leastMs), mostMs)
    return { key: nameOf(lease), renewal: `${holderIdentity} ${renewTime}`, ttlMs: believedMs }
  }

  /** Changes this master's Lease, again until nobody has written it between the read and the write. Whether there was one. */
  async #change(holder: Holder, signal: AbortSignal, change: (current: Lease) => Promise<void>): Promise<boolean> {
    for (;;) {
      const current = await this.#read(leaseName(holder), signal)
      if (current === undefined) return false
      try {
        await change(current)
        return true
      } catch (error) {
        if (isKubeError(error, 'NotFound')) return false
        if (!isKubeError(error, 'Conflict')) throw error
      }
    }
  }

  #read(name: string, signal: AbortSignal): Promise<Lease | undefined> {
    return ifFound(this.#api.get(leases, { namespace: this.#namespace, name }, { urgent: true, signal }))
  }

  /** {@link MAX_MASTERS} at most; of a page of forged ones no more than these are kept. */
  async #listOldest(query: ListQuery & CallOptions): Promise<readonly Lease[]> {
    let oldest: readonly Lease[] = []
    for await (const page of listPages(this.#api, leases, query)) {
      oldest = oldest.concat(page)
      if (oldest.length > MAX_MASTERS) oldest = this.#oldest(oldest)
    }
    return oldest
  }

  /** By when the server made them, which nobody can say for it. This master's own counts in any case. */
  #oldest(items: readonly Lease[]): readonly Lease[] {
    const own = this.#own?.metadata?.name
    const age = ({ metadata }: Lease): string => (metadata?.name === own ? '' : (metadata?.creationTimestamp ?? ''))
    return items.toSorted((a, b) => (age(a) < age(b) ? -1 : 1)).slice(0, MAX_MASTERS)
  }

  #render(holder: Holder, current: Lease | undefined): Lease {
    const { clock, ttlMs } = this.#options
    const identity = `${holder.host}_${holder.instanceId}`
    return {
      ...current,
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        ...current?.metadata,
        name: leaseName(holder),
        namespace: this.#namespace,
        labels: { ...current?.metadata?.labels, [LEASE_LABEL]: 'master' },
        annotations: { ...current?.metadata?.annotations, [HOLDER_ANNOTATION]: encodeHolder(holder) },
      },
      spec: { ...current?.spec, ...claimedSpec(current, identity, Math.round(ttlMs / 1000), clock) },
    } as Lease
  }
}

export function holderOf(lease: Lease | undefined): Holder | undefined {
  return decodeHolder(recordOf(lease))
}

function recordOf(lease: Lease | undefined): string | undefined {
  return lease?.metadata?.annotations?.[HOLDER_ANNOTATION]
}

/** Whether a record is where its master writes it. */
function isInItsPlace({ lease, holder }: { readonly lease: Lease; readonly holder: Holder }): boolean {
  return leaseName(holder) === nameOf(lease)
}

/**
 * The name of a master's Lease object: readable, valid, and the same for each life of the same master (see {@link masterKey}).
 * `apiserver-bootstrap-192-0-2-1-5b1cd2f0`.
 */
function leaseName(holder: Holder): string {
  const address = addressOf(holder).replace(/[.:]+/g, '-').replace(/^-|-$/g, '')
  return `${NAME_PREFIX}${address}-${hashText(masterKey(holder)).toString(16).padStart(8, '0')}`
}

/** A renewal changes nothing that anybody must act on. */
function changesMembership(change: Change<Lease>): boolean {
  return change.type !== 'updated' || recordOf(change.old) !== recordOf(change.object)
}
