import type { CallOptions, KubeApi, ListQuery } from '../../kube/api.ts'
import { limitedApi, listPages } from '../../kube/api-wrappers.ts'
import type { AvailabilityReporter } from '../../kube/availability.ts'
import { ifFound, isKubeError, KubeError } from '../../kube/errors.ts'
import { type Change, Informer } from '../../kube/informer.ts'
import { claimedSpec } from '../../kube/lease-lock.ts'
import { LeaseObserver, type ObservedLease } from '../../kube/lease-observer.ts'
import { isNewer, type Lease, leases } from '../../kube/resources.ts'
import type { Cancel } from '../../runtime/clock.ts'
import { RemoteError } from '../../runtime/errors.ts'
import { hashText } from '../../runtime/random.ts'
import { type RequestLimit, within } from '../../runtime/request-limit.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { TokenBucket } from '../../runtime/token-bucket.ts'
import { masterKey } from '../members.ts'
import { deleteAsRead, EndedLeases, type EndedLeasesOptions, nameOf, renewalOf } from './ended-leases.ts'
import {
  addressOf,
  decodeHolder,
  encodeHolder,
  type Holder,
  isOfAnotherLife,
  type MasterLease,
  type MasterLeases,
  yieldsTo,
} from './master-leases.ts'
import { HOLDER_ANNOTATION, LEASE_LABEL, trimLease } from './trimmed-lease.ts'

/** The default of `--lease-namespace`. */
export const LEASE_NAMESPACE = 'kube-system'
export const LABEL_SELECTOR = `${LEASE_LABEL}=master`
const NAME_PREFIX = 'apiserver-bootstrap-'
/**
 * A call gives up after this many conflicts, because a server may answer every write with a conflict. The caller
 * retries.
 */
const MOST_TRIES = 5
/**
 * The bounds for another master's TTL: at least `leastMs`, at most `mostMs` or `mostOwn` times this master's own TTL,
 * whichever is more. Without bounds, a Lease of a day would list a dead master for a day. With an own TTL of 15 s, a
 * placeholder Lease may last five minutes (docs/lease-stores.md).
 */
const BELIEVED_TTL = { leastMs: 1_000, mostMs: 60_000, mostOwn: 20 }
/** Only this many Leases count, the oldest ones: an EndpointSlice holds no more addresses. */
const MAX_MASTERS = 1_000
/**
 * The limit of reads after changes other than renewals, and after the end of a Lease: `burst` at once, `qps` a second.
 */
const CHANGES = { burst: 30, qps: 4 }
/**
 * Bounds, in milliseconds, for a list that may show any state since this master created its Lease. The list begins at
 * most `withinMs` after the creation was requested, and takes at most `limitMs`.
 */
const SINCE_OWN_LEASE = { withinMs: 500, limitMs: 250 }

interface KubernetesLeasesOptions extends EndedLeasesOptions {
  readonly availability: AvailabilityReporter
  /** The TTL of this master's own lease, in milliseconds: whole seconds. Other masters' TTLs are in their leases. */
  readonly ttlMs: number
  /** How often this master reads the leases without a change, in milliseconds. */
  readonly intervalMs: number
  /** The namespace of the Leases. @default kube-system */
  readonly namespace?: string | undefined
  /** Aborts requests that take too long. @default only the API's own time-outs */
  readonly limit?: RequestLimit | undefined
}

/**
 * One coordination.k8s.io Lease per master, for API servers whose datastore is not accessible.
 *
 * Each master decides for itself whether a lease is over (see {@link LeaseObserver}), and then deletes the lease (see
 * {@link EndedLeases}). Apart from the watch, no request waits for a server's Retry-After, because a lease may end
 * meanwhile.
 */
export class KubernetesLeases implements MasterLeases {
  readonly #options: KubernetesLeasesOptions
  /** The API for all requests but the watch. */
  readonly #api: KubeApi
  readonly #observer: LeaseObserver
  readonly #ended: EndedLeases
  readonly #namespace: string
  /** Our own Lease as last written or read, so that a renewal needs no read. */
  #own: Lease | undefined
  /** The version of our own Lease right after its creation, and when the creation was requested. */
  #created: { readonly resourceVersion: string | undefined; readonly atMs: number } | undefined
  /** The names of Leases without a valid record, as last logged. */
  #unusable: ReadonlySet<string> = new Set()
  /** Sets the timer for the next read that may find a lease over; does nothing without a watch. */
  #wakeAtNextRead: () => void = () => {}

  constructor(options: KubernetesLeasesOptions) {
    this.#options = options
    this.#api = options.limit === undefined ? options.api : limitedApi(options.api, options.limit)
    this.#observer = new LeaseObserver({ maxGapMs: options.intervalMs * 1.5 })
    this.#ended = new EndedLeases(options)
    this.#namespace = options.namespace ?? LEASE_NAMESPACE
  }

  async list(signal: AbortSignal, sinceOwnLease = false): Promise<readonly MasterLease[]> {
    const query = { namespace: this.#namespace, labelSelector: LABEL_SELECTOR, urgent: true, signal }
    const older = sinceOwnLease ? await this.#listSinceCreation(query) : undefined
    const items = older ?? (await this.#listPresent(query))
    this.#wakeAtNextRead()
    const found = items.flatMap((lease) => {
      const holder = holderOf(lease)
      return holder === undefined ? [] : [{ lease, holder }]
    })
    if (found.length < items.length || this.#unusable.size > 0) this.#logUnusable(items)
    const named = new Set(found.filter(isInItsPlace).map(({ lease }) => nameOf(lease)))
    // A Lease with a master's name counts for that master alone, so that rights to the Lease are rights to one address.
    // A Lease with another name (a placeholder) is ignored if its master has a Lease of its own.
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
        ...(this.#observer.isFound(nameOf(lease)) && { found: true, ...(this.#isLapsed(lease) && { lapsed: true }) }),
      }))
  }

  async update(holder: Holder, signal: AbortSignal): Promise<void> {
    for (let tries = 1; ; tries++) {
      const current = this.#own
      const verb = current === undefined ? 'create' : 'update'
      const atMs = this.#options.clock.monotonicMs()
      try {
        this.#own = await this.#api[verb](leases, this.#render(holder, current), { urgent: true, signal })
        requireRecord(this.#own, holder)
        if (current === undefined) this.#created = { resourceVersion: this.#own.metadata?.resourceVersion, atMs }
        return
      } catch (error) {
        if (isKubeError(error, 'NotFound') && current !== undefined) {
          this.#own = undefined
          continue
        }
        if (!isKubeError(error, 'Conflict', 'AlreadyExists') || tries === MOST_TRIES) throw error
        const stored = await this.#read(leaseName(holder), signal)
        // The stored Lease is not ours to renew if a later life holds it.
        this.#own = undefined
        if (yieldsTo(holderOf(stored), holder)) return
        this.#own = stored
      }
    }
  }

  async mark(holder: Holder, signal: AbortSignal): Promise<void> {
    await this.#change(holder, signal, async (current) => {
      const stored = holderOf(current)
      if (isOfAnotherLife(stored, holder) || yieldsTo(stored, holder)) return
      const marked = { ...this.#render(holder, current), spec: current.spec } as Lease
      this.#own = await this.#api.update(leases, marked, { urgent: true, signal })
      requireRecord(this.#own, holder)
    })
  }

  async remove(holder: Holder, signal: AbortSignal): Promise<void> {
    await this.#change(holder, signal, async (current) => {
      if (isOfAnotherLife(holderOf(current), holder)) return
      await deleteAsRead(this.#api, current, { urgent: true, signal })
      this.#own = undefined
    })
  }

  async watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { api, clock, random, logger, availability } = this.#options
    const query = { namespace: this.#namespace, labelSelector: LABEL_SELECTOR }
    const limit = new TokenBucket({ clock, ...CHANGES })
    let cancelChange: Cancel | undefined
    const requestRead = (): void => {
      if (cancelChange !== undefined) return
      const lateMs = limit.reserve()
      if (lateMs === 0) onChange()
      else
        cancelChange = clock.schedule(lateMs, () => {
          cancelChange = undefined
          onChange()
        })
    }
    const resource = { resource: leases, query, transform: trimLease }
    const informer = new Informer({ api, clock, random, logger, availability, ...resource })
    let cancel = () => {}
    this.#wakeAtNextRead = () => {
      cancel()
      const nowMs = clock.monotonicMs()
      const readMs = this.#observer.nextReadMs(nowMs)
      if (readMs === undefined) return
      cancel = clock.schedule(readMs - nowMs, () => {
        this.#wakeAtNextRead()
        requestRead()
      })
    }
    informer.subscribe((change) => {
      this.#take(change)
      this.#wakeAtNextRead()
      if (changesMembership(change)) requestRead()
    })
    try {
      await informer.run(signal)
    } finally {
      this.#wakeAtNextRead = () => {}
      cancel()
      cancelChange?.()
    }
  }

  #take(change: Change<Lease>): void {
    if (change.type === 'deleted') this.#observer.forget(nameOf(change.old))
    // An older state, which an outdated server delivered, is not a renewal.
    else if (change.type === 'updated' && isNewer(change.old, change.object)) return
    else this.#observer.readOne(this.#observed(change.object), this.#options.clock.monotonicMs())
  }

  #observed(lease: Lease): ObservedLease {
    const { leaseDurationSeconds } = lease.spec ?? {}
    const ttlMs = leaseDurationSeconds === undefined ? this.#options.ttlMs : leaseDurationSeconds * 1000
    const mostMs = Math.max(BELIEVED_TTL.mostMs, BELIEVED_TTL.mostOwn * this.#options.ttlMs)
    const believedMs = Math.min(Math.max(ttlMs, BELIEVED_TTL.leastMs), mostMs)
    return { key: nameOf(lease), renewal: renewalOf(lease), ttlMs: believedMs }
  }

  /** Whether the last renewal is at least a TTL away from now, by its writer's wall clock and this host's. */
  #isLapsed(lease: Lease): boolean {
    const renewedMs = tryParseTime(lease.spec?.renewTime ?? '') ?? Number.NEGATIVE_INFINITY
    return Math.abs(this.#options.clock.wallMs() - renewedMs) >= this.#observed(lease).ttlMs
  }

  /** Changes this master's Lease, if there is one, and retries after a conflict. */
  async #change(holder: Holder, signal: AbortSignal, change: (current: Lease) => Promise<void>): Promise<void> {
    for (let tries = 1; ; tries++) {
      const current = await this.#read(leaseName(holder), signal)
      if (current === undefined) return
      try {
        await change(current)
        return
      } catch (error) {
        if (isKubeError(error, 'NotFound')) return
        if (!isKubeError(error, 'Conflict') || tries === MOST_TRIES) throw error
      }
    }
  }

  /** Logs each Lease without a valid record once, for as long as it exists. */
  #logUnusable(items: readonly Lease[]): void {
    const unusable = items.filter((lease) => holderOf(lease) === undefined).map(nameOf)
    for (const name of unusable.filter((one) => !this.#unusable.has(one))) {
      this.#options.logger.warn({ namespace: this.#namespace, name }, 'ignoring a Lease without a valid holder record')
    }
    this.#unusable = new Set(unusable)
  }

  #read(name: string, signal: AbortSignal): Promise<Lease | undefined> {
    return ifFound(this.#api.get(leases, { namespace: this.#namespace, name }, { urgent: true, signal }))
  }

  /** The Leases as they are now. Only such a list, never one of an older state, decides whether a lease is over. */
  async #listPresent(query: ListQuery & CallOptions): Promise<readonly Lease[]> {
    const { eventCount } = this.#observer
    try {
      const items = await this.#listOldest(query)
      const observed = items.map((lease) => this.#observed(lease))
      // The watch may have shown newer states meanwhile.
      this.#observer.readAll(observed, this.#options.clock.monotonicMs(), eventCount)
      return items
    } catch (error) {
      this.#observer.interrupted()
      throw error
    }
  }

  /**
   * The Leases as they were at some moment since this master created its own. Undefined if the creation is not recent,
   * or if the list fails, for example because the server lags behind or does not know `resourceVersionMatch`.
   * kube-apiserver answers such a list from its cache, but delays a list of the present state for up to 100 ms if
   * another client has just written.
   */
  async #listSinceCreation(query: ListQuery & CallOptions): Promise<readonly Lease[] | undefined> {
    const { api, clock } = this.#options
    const { resourceVersion, atMs = Number.NEGATIVE_INFINITY } = this.#created ?? {}
    if (resourceVersion === undefined || clock.monotonicMs() - atMs > SINCE_OWN_LEASE.withinMs) return undefined
    // Not through `#api`: its limit would count a timeout of this request, although such a timeout does not show that
    // the store is slow.
    const list = (signal: AbortSignal) =>
      this.#listOldest({ ...query, resourceVersion, resourceVersionMatch: 'NotOlderThan', signal }, api)
    try {
      return await within(clock, SINCE_OWN_LEASE.limitMs, query.signal, list)
    } catch (error) {
      if (!(error instanceof RemoteError)) throw error
      return undefined
    }
  }

  /** Reads all Leases, but returns only the oldest {@link MAX_MASTERS}, trimmed: somebody may have forged more. */
  async #listOldest(query: ListQuery & CallOptions, api = this.#api): Promise<readonly Lease[]> {
    let oldest: readonly Lease[] = []
    for await (const page of listPages(api, leases, query)) {
      oldest = oldest.concat(page.map(trimLease))
      if (oldest.length > MAX_MASTERS) oldest = this.#oldest(oldest)
    }
    return oldest
  }

  /** The oldest Leases by creationTimestamp, which nobody can forge. This master's own Lease is always one of them. */
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

/**
 * Throws if a stored Lease lacks what was just written into it, so that no master finds it: the write then counts as
 * failed. Otherwise each master would list itself alone, as soon as an admission policy removed labels or annotations.
 */
function requireRecord(stored: Lease, { instanceId }: Holder): void {
  if (stored.metadata?.labels?.[LEASE_LABEL] === 'master' && holderOf(stored)?.instanceId === instanceId) return
  const what = `the label ${LEASE_LABEL} or the annotation ${HOLDER_ANNOTATION}`
  throw new KubeError(
    'BadResponse',
    `Lease ${nameOf(stored)} was stored without ${what}: an admission policy removes it`,
  )
}

/**
 * The record in a Lease; undefined without a valid record or without the masters' label. The policy for Leases in
 * SECURITY.md protects the label: anybody may have written a Lease without the label.
 */
export function holderOf(lease: Lease | undefined): Holder | undefined {
  return lease?.metadata?.labels?.[LEASE_LABEL] === 'master' ? decodeHolder(recordOf(lease)) : undefined
}

function recordOf(lease: Lease | undefined): string | undefined {
  return lease?.metadata?.annotations?.[HOLDER_ANNOTATION]
}

/** Whether a record is in its master's own Lease. */
function isInItsPlace({ lease, holder }: { readonly lease: Lease; readonly holder: Holder }): boolean {
  return leaseName(holder) === nameOf(lease)
}

/**
 * The name of a master's Lease object, the same for each life of the master (see {@link masterKey}). The address in a
 * name is unambiguous. Examples: `apiserver-bootstrap-192-0-2-1-5b1cd2f0`, `apiserver-bootstrap-2001-db8--1-9c3e11d7`.
 */
function leaseName(holder: Holder): string {
  const address = addressOf(holder).replace(/[.:]/g, '-')
  return `${NAME_PREFIX}${address}-${hashText(masterKey(holder)).toString(16).padStart(8, '0')}`
}

/** Whether a change may affect membership. A renewal does not. */
function changesMembership(change: Change<Lease>): boolean {
  return change.type !== 'updated' || recordOf(change.old) !== recordOf(change.object)
}

interface LeasePlace {
  readonly leaseStore: 'etcd' | 'kubernetes' | 'memory'
  readonly leaseNamespace: string
  /** Without a slash at the end. */
  readonly etcdPrefix: string
}

/** Where the leases are, as the end of a sentence: `among the Leases in kube-system`. */
export function placeOfLeases({ leaseStore, leaseNamespace, etcdPrefix }: LeasePlace): string {
  return leaseStore === 'etcd' ? `under ${etcdPrefix}/masterleases/ in etcd` : `among the Leases in ${leaseNamespace}`
}

/** For a user who found no lease: the place, and the flags that select another one. */
export function searchedPlace(place: LeasePlace): string {
  return place.leaseStore === 'etcd'
    ? `${placeOfLeases(place)} (set --etcd-prefix for another prefix; omit --etcd-servers to use Lease objects)`
    : `${placeOfLeases(place)} with the label ${LABEL_SELECTOR} (set --lease-namespace for another namespace; set --etcd-servers to use leases in etcd)`
}
