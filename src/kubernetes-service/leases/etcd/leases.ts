import { GuardedKey } from '../../../etcd/guarded-key.ts'
import { isEtcdError, type KeyChange, type KeyValue } from '../../../etcd/kv.ts'
import type { AvailabilityReporter } from '../../../kube/availability.ts'
import {
  addressOf,
  encodeHolder,
  type Holder,
  isOfAnotherLife,
  type MasterLease,
  type MasterLeases,
  yieldsTo,
} from '../master-leases.ts'
import { type Grants, LeaseGrants, type LeaseGrantsOptions } from './grants.ts'
import { decodeRecord, EtcdLeaseKeys, hasLease, leaseValue, readSnapshot, type UnusableValue } from './snapshot.ts'

/** The TTL of a kube-apiserver's own lease; kube-apiserver has no flag for it. */
const KUBE_APISERVER_TTL_MS = 15_000
/** How often a snapshot is tried if the store is compacted between its two lists, which is rare. */
const SNAPSHOT_TRIES = 5

export interface EtcdLeasesOptions extends LeaseGrantsOptions {
  /** The prefix of the API servers' own keys, without a slash at the end. */
  readonly prefix: string
  readonly availability: AvailabilityReporter
}

/**
 * Leases at the keys of kube-apiserver's own, `<prefix>/masterleases/<ip>`, so that these masters and kube-apiservers
 * are one fleet. Beside each lease of ours is a holder record, `<prefix>/apiserver-bootstrap/holders/<ip>/<host>`.
 *
 * - Every write compares the revision of the last read or write; a steady renewal reads nothing. A value that cannot be
 *   encoded again without loss is renewed with the bytes that it has, if it is JSON or contains this master's address.
 *   Any other such value is never overwritten: `list` logs it, the lease expires, and the master creates a new one.
 * - A record is written before its lease and lasts longer, by half a second at least, so that no lease of ours is ever
 *   mistaken for a kube-apiserver's.
 * - kube-apiservers list every lease. So a master that becomes unready or is withdrawn deletes its lease, unless
 *   another holder at that address needs the lease. The record alone then shows that the master is alive. When the
 *   master is ready again, it creates its lease again.
 * - If a process without a record also renews a master's lease, that process is a kube-apiserver at the same address
 *   whose reconciler is on, and the master does not delete the lease when it leaves. The record states this
 *   (`coHolder`) for the master's next life. As long as the kube-apiserver renews that lease, the other masters list
 *   the address even if the record has the state `unready`.
 * - A new host at the address of a dead host takes over the lease at once. Both hosts are reported until the old record
 *   expires, one or three seconds after the old host's lease would have expired. The address stays listed.
 * - The store expires leases even while it accepts no renewals. The readers decide whether a master is gone.
 *
 * Upstream: pkg/controlplane/reconcilers/lease.go.
 */
export class EtcdLeases implements MasterLeases {
  readonly #options: EtcdLeasesOptions
  readonly #keys: EtcdLeaseKeys
  readonly #grants: LeaseGrants
  /** A co-holder that has not renewed for this long is gone. */
  readonly #coHolderTtlMs: number
  /** When a renewal last found the lease written by a process without a record. */
  #overtakenMs = Number.NEGATIVE_INFINITY
  #coHolderSeenMs = Number.NEGATIVE_INFINITY
  #own: { readonly lease: GuardedKey; readonly record: GuardedKey } | undefined
  #hasWrittenRecord = false
  /** Whether this process found the record of an earlier life before its own first write. */
  #isSuccessor = false
  /** Whether this master must have no lease, because it is unready or withdrawn. */
  #isReleased = false
  /** The revision of this master's last write of the lease before it released the lease. */
  #releasedRevision: bigint | undefined
  /** The keys of records that this process has begun to remove. */
  readonly #removing = new Set<string>()
  #unusable: ReadonlySet<string> = new Set()

  constructor(options: EtcdLeasesOptions) {
    this.#options = options
    this.#keys = new EtcdLeaseKeys(options.prefix)
    this.#grants = new LeaseGrants(options)
    this.#coHolderTtlMs = 2 * Math.max(options.ttlMs, KUBE_APISERVER_TTL_MS)
  }

  async list(signal: AbortSignal): Promise<readonly MasterLease[]> {
    const stored = await this.#snapshot(signal)
    const { live, unusable } = readSnapshot(this.#keys, stored)
    this.#logUnusable(unusable)
    if (this.#isReleased) this.#findCoHolder(live, stored.leases)
    return live
  }

  async mark(holder: Holder, signal: AbortSignal): Promise<void> {
    // The kube-apiserver at this address keeps the address listed. If this state were written, masters would remove the
    // address, and the kube-apiserver would add it again.
    if (this.#hasCoHolder && (holder.state === 'leaving' || holder.state === 'unready')) return
    const { record } = this.#ownKeys(holder)
    for (;;) {
      const stored = await record.read(signal)
      if (stored === undefined) return
      const before = decodeRecord(stored.value)
      if (isOfAnotherLife(before, holder) || this.#yields(before, holder)) return
      const isBack = holder.state === 'ready' || holder.state === 'failing'
      if (isBack && before !== undefined && !hasLease(before.state)) return this.update(holder, signal)
      // The record stays attached to its etcd lease, so it expires at the same time as before. (On kine the TTL of the
      // record starts again.)
      if (await this.#replace(record, holder, stored, signal)) break
    }
    if (!hasLease(holder.state)) await this.#release(holder, signal)
  }

  async remove(holder: Holder, signal: AbortSignal): Promise<void> {
    const { record } = this.#ownKeys(holder)
    // The record is marked as withdrawn first and deleted last, because a lease without any record counts as a
    // kube-apiserver's, and another master might leave because of it.
    for (;;) {
      const stored = await record.read(signal)
      if (stored === undefined) break
      const before = decodeRecord(stored.value)
      if (isOfAnotherLife(before, holder)) return
      if (this.#hasCoHolder) {
        if (await record.delete(stored, signal)) break
        continue
      }
      const isMarked = before?.state === 'withdrawn'
      // Noted before the write is sent, because the write may take effect without an answer.
      this.#removing.add(record.key)
      if (!isMarked && !(await this.#replace(record, { ...holder, state: 'withdrawn' }, stored, signal))) continue
      // If another master wants the lease, this record must outlast the lease: that master may be dead, and its record
      // may expire earlier.
      if (await this.#release(holder, signal)) return
      // The record is not deleted if a later life has taken it over.
      await record.delete(isMarked ? stored : (record.last ?? stored), signal)
      break
    }
    this.#removing.delete(record.key)
  }

  async watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { etcd, availability } = this.#options
    const follow = (prefix: string, source: string, concerns: (change: KeyChange) => boolean): Promise<void> =>
      etcd
        .watch(prefix, {
          onChange: (changes) => {
            if (changes === undefined || changes.some(concerns)) onChange()
          },
          report: (error) => {
            if (error === undefined) availability.succeeded(source)
            else availability.failed(source, error)
          },
          signal,
        })
        .finally(() => availability.forget(source))
    await Promise.all([
      // A renewal requires no action.
      follow(this.#keys.leases, 'leases masterleases', ({ type }) => type !== 'modified'),
      follow(this.#keys.records, 'leases holders', concernsMembership),
    ])
  }

  /** Leases and records at one revision. */
  async #snapshot(signal: AbortSignal): Promise<{ leases: readonly KeyValue[]; records: readonly KeyValue[] }> {
    const { etcd } = this.#options
    for (let tries = 1; ; tries++) {
      const leases = await etcd.list(this.#keys.leases, { signal })
      try {
        const records = await etcd.list(this.#keys.records, { revision: leases.revision, signal })
        return { leases: leases.items, records: records.items }
      } catch (error) {
        if (!isEtcdError(error, 'Compacted') || tries === SNAPSHOT_TRIES) throw error
      }
    }
  }

  async update(holder: Holder, signal: AbortSignal): Promise<void> {
    const { lease, record } = this.#ownKeys(holder)
    const beganMs = this.#options.clock.monotonicMs()
    const listed = hasLease(holder.state)
    this.#isReleased = !listed
    // `list` detects a kube-apiserver's lease at this address; the record then states that there is one.
    if (!listed && lease.last === undefined) await this.list(signal)
    let grants: Grants | undefined = await this.#grants.request(listed, beganMs, signal)
    let before = lease.last
    let changed = false
    const isFirst = !this.#hasWrittenRecord
    for (;;) {
      grants = await this.#writeRecord(record, holder, grants, signal)
      if (grants === undefined) return
      if (!listed) break
      const value = leaseValue(addressOf(holder), before)
      // A value that must not be overwritten is left to expire. `list` logs its fault once.
      if (value === undefined) return
      // A lease at an address for which no master has a record is a kube-apiserver's.
      if (isFirst && !this.#isSuccessor && before !== undefined && !(await this.#isHeldByOthers(holder, signal))) {
        this.#seeCoHolder(holder)
      }
      const written = before !== undefined
      if (await lease.put(value, grants.lease, before, signal)) return this.#noteCoHolder(changed, holder, signal)
      ;[before, grants] = await Promise.all([lease.read(signal), this.#grants.repeat(grants, signal)])
      changed ||= written && before !== undefined && !lease.isUnanswered(before)
    }
    if ((before ?? (await lease.readUnanswered(signal))) !== undefined) await this.#release(holder, signal)
  }

  /**
   * Whether a process without a holder record renews this master's lease too, such as a kube-apiserver with an active
   * reconciler at the same address. If so, removing the lease would remove a serving server from the list.
   */
  get #hasCoHolder(): boolean {
    return this.#options.clock.monotonicMs() - this.#coHolderSeenMs < this.#coHolderTtlMs
  }

  /** Called after a renewal. `changed`: whether another process wrote the lease since the previous renewal. */
  async #noteCoHolder(changed: boolean, holder: Holder, signal: AbortSignal): Promise<void> {
    if (!changed || (await this.#isHeldByOthers(holder, signal))) return
    const nowMs = this.#options.clock.monotonicMs()
    // The first such write may be the last one of another master at this address, which has left since.
    const isRepeated = nowMs - this.#overtakenMs < this.#coHolderTtlMs
    this.#overtakenMs = nowMs
    if (isRepeated) this.#seeCoHolder(holder)
  }

  /** While this master has no lease, finds out whether a read shows a kube-apiserver's lease in its place. */
  #findCoHolder(live: readonly MasterLease[], leases: readonly KeyValue[]): void {
    const { lease, record } = this.#own ?? {}
    const own = live.find(({ holder }) => holder?.coHolder && this.#keys.record(holder) === record?.key)?.holder
    const stored = leases.find(({ key }) => key === lease?.key)
    if (own === undefined || stored === undefined || lease?.isUnanswered(stored)) return
    // A lease that this process has written itself does not prove a co-holder.
    if (![lease?.last?.modRevision, this.#releasedRevision].includes(stored.modRevision)) this.#seeCoHolder(own)
  }

  #seeCoHolder(holder: Holder): void {
    const { clock, logger } = this.#options
    if (!this.#hasCoHolder) {
      logger.warn(
        { address: addressOf(holder) },
        'a kube-apiserver with its own endpoint reconciler also renews the lease of this address; this master does not delete it when it leaves',
      )
    }
    this.#coHolderSeenMs = clock.monotonicMs()
  }

  /** Writes the record. Returns the grants to continue with; undefined if a later life of the same master holds it. */
  async #writeRecord(
    record: GuardedKey,
    holder: Holder,
    granted: Grants,
    signal: AbortSignal,
  ): Promise<Grants | undefined> {
    const { lease } = this.#ownKeys(holder)
    let grants = granted
    let before = record.last
    while (!(await record.put(this.#encoded(holder), grants.record, before, signal))) {
      const again = this.#grants.repeat(grants, signal)
      before = await record.read(signal)
      const stored = before && decodeRecord(before.value)
      if (!this.#hasWrittenRecord && stored !== undefined) {
        // The record may also be from this process, if the answer to its first write was lost.
        this.#isSuccessor ||= stored.instanceId !== holder.instanceId
        const written = hasLease(stored.state) ? undefined : await lease.read(signal)
        const isNewer = written !== undefined && before !== undefined && written.modRevision > before.modRevision
        if (stored.coHolder || isNewer) this.#seeCoHolder(holder)
      }
      grants = await again
      if (before === undefined || !this.#yields(stored, holder)) continue
      // If the address has no lease, a record that this process finds before its own first write is taken for an
      // earlier life's. If `stored` states a later start, the host's clock was set back.
      if (this.#hasWrittenRecord || (await lease.read(signal)) !== undefined) return undefined
    }
    this.#hasWrittenRecord = true
    return grants
  }

  /** Writes a record in place of `stored`, with its remaining time. False if `stored` has changed or expired. */
  #replace(record: GuardedKey, holder: Holder, stored: KeyValue, signal: AbortSignal): Promise<boolean> {
    return record.put(this.#encoded(holder), stored.lease, stored, signal)
  }

  #encoded(holder: Holder): Uint8Array {
    return Buffer.from(encodeHolder({ ...holder, coHolder: this.#hasCoHolder || undefined }))
  }

  /**
   * Deletes the lease, unless another master at this address wants the lease or a kube-apiserver renews it.
   *
   * The holders are read after the lease: a master that begins to want the lease meanwhile writes it, and the delete
   * conflicts. Returns true if another master wants the lease but has not written it since this master did.
   */
  async #release(holder: Holder, signal: AbortSignal): Promise<boolean> {
    const { lease } = this.#ownKeys(holder)
    this.#isReleased = true
    this.#releasedRevision = lease.last?.modRevision ?? this.#releasedRevision
    lease.forget()
    for (;;) {
      const stored = await lease.read(signal)
      if (stored === undefined || this.#hasCoHolder) return false
      if (await this.#isHeldByOthers(holder, signal)) {
        return stored.modRevision === this.#releasedRevision || lease.isUnanswered(stored)
      }
      if (await lease.delete(stored, signal)) return false
    }
  }

  /** Whether another master wants the lease of this address: on another host, or another life of this master. */
  async #isHeldByOthers(holder: Holder, signal: AbortSignal): Promise<boolean> {
    const { items } = await this.#options.etcd.list(this.#keys.recordsOf(addressOf(holder)), { signal })
    return items
      .map(({ key, value }) => ({ key, other: decodeRecord(value) }))
      .filter(
        ({ key, other }) => key !== this.#keys.record(holder) || (other ?? holder).instanceId !== holder.instanceId,
      )
      .some(({ other }) => other === undefined || hasLease(other.state))
  }

  /** See {@link yieldsTo}; this process may take back a record that it has begun to remove. */
  #yields(stored: Holder | undefined, holder: Holder): boolean {
    const begun = stored?.instanceId === holder.instanceId && this.#removing.has(this.#keys.record(holder))
    return !begun && yieldsTo(stored, holder)
  }

  #ownKeys(holder: Holder): { readonly lease: GuardedKey; readonly record: GuardedKey } {
    const { etcd } = this.#options
    const key = this.#keys.record(holder)
    if (this.#own?.record.key !== key) {
      this.#own = {
        lease: new GuardedKey(etcd, this.#keys.lease(addressOf(holder))),
        record: new GuardedKey(etcd, key),
      }
    }
    return this.#own
  }

  /** Logs each value once, for as long as it exists. */
  #logUnusable(unusable: readonly UnusableValue[]): void {
    for (const { key, reason } of unusable) {
      if (!this.#unusable.has(key)) this.#options.logger.warn({ key, reason }, 'a value in etcd cannot be used')
    }
    this.#unusable = new Set(unusable.map(({ key }) => key))
  }
}

function concernsMembership({ type, value, previousValue }: KeyChange): boolean {
  return type !== 'modified' || previousValue === undefined || Buffer.compare(previousValue, value) !== 0
}
