import { type EtcdKv, isEtcdError, type KeyValue } from '../../etcd/kv.ts'
import type { KubeApi } from '../../kube/api.ts'
import { listPages } from '../../kube/api-wrappers.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type ObjectReference, referenceIn } from '../../kube/event-object.ts'
import { type Lease, leases } from '../../kube/resources.ts'
import { tryParseAddress } from '../../net/address.ts'
import { decodeMasterLease } from '../../protobuf/master-lease.ts'
import type { Clock } from '../../runtime/clock.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { unlistableReason } from '../identity.ts'
import { deleteAsRead } from '../leases/ended-leases.ts'
import { EtcdLeaseKeys, holderAt } from '../leases/etcd/snapshot.ts'
import { holderOf, LABEL_SELECTOR, LEASE_NAMESPACE } from '../leases/kubernetes.ts'
import type { Holder } from '../leases/master-leases.ts'
import { LONGEST_LEASE_TTL_MS } from '../options.ts'

/**
 * How a lease, or a holder record without one, ends.
 * - `ends`: the store ends it; until then its master counts as alive.
 * - `never`: nothing ends it, whether or not its master lives.
 * - `renewed`: only watching the lease for a whole TTL shows whether it is still renewed. `leftMs`, if present, is
 *   computed from the times in the lease and this machine's clock.
 */
export type LeaseLife =
  | { readonly type: 'ends'; readonly leftMs: number }
  | { readonly type: 'never' }
  | { readonly type: 'renewed'; readonly ttlMs: number; readonly leftMs: number | undefined }

/** A fault of a stored value, or of its key. `reason` is a few words. */
export interface OddValue {
  /**
   * `json`: only the address in the key counts. `unreadable`: the value cannot be decoded, or lacks an address or a
   * valid holder. `misplaced`: the value names another address than its key. `unlistable`: the key contains no address
   * that a client could use.
   */
  readonly type: 'json' | 'unreadable' | 'misplaced' | 'unlistable'
  readonly reason: string
}

/** One lease as read, or a holder record without a lease: in etcd an unready or withdrawn master has only a record. */
export interface InspectedLease {
  /** A key, or `Lease NAMESPACE/NAME`. */
  readonly id: string
  readonly object?: ObjectReference
  /** Changes with each write. */
  readonly revision: string
  /** In canonical form, in etcd from the key, in a Lease object from its record; undefined if none is there. */
  readonly address: string | undefined
  /**
   * The holders according to the records, in the order of their keys. Empty for the lease of a kube-apiserver or a
   * foreign one.
   */
  readonly holders: readonly Holder[]
  readonly life: LeaseLife
  /** Whether there is a lease; otherwise there is only a holder record. */
  readonly leased: boolean
  readonly odd: readonly OddValue[]
}

/**
 * For operators: shows the leases of a store as they are, broken ones included, and removes one. Masters use {@link
 * MasterLeases}. Both methods reject when the store cannot be reached.
 */
export interface LeaseInspector {
  /** All leases and records, read from the store itself. */
  inspect(signal: AbortSignal): Promise<readonly InspectedLease[]>
  /**
   * Removes a lease that {@link inspect} returned, with its holder records. If the lease was written since, everything
   * stays; a record that was written since also stays. Returns whether the lease was removed.
   */
  evict(lease: InspectedLease, signal: AbortSignal): Promise<boolean>
}

/** A stored holder record, and the address in its key. */
interface StoredRecord {
  readonly stored: KeyValue
  readonly address: string | undefined
  readonly holder: Holder | undefined
}

/**
 * Shows and removes the leases in etcd of kube-apiservers and of our masters, with the holder records of their
 * addresses. kine does not state the remaining time of a lease. There the life of a lease is `renewed`, and the id of
 * its etcd lease is the TTL in seconds.
 */
export class EtcdLeaseInspector implements LeaseInspector {
  readonly #etcd: EtcdKv
  readonly #keys: EtcdLeaseKeys
  /**
   * The keys of an inspected lease. `evict` removes the first one before the others; if the first one was written
   * meanwhile, `evict` removes nothing.
   */
  readonly #seen = new WeakMap<InspectedLease, readonly KeyValue[]>()

  /** `prefix` is the prefix of the API servers' own keys, without a slash at the end. */
  constructor(options: { readonly etcd: EtcdKv; readonly prefix: string }) {
    this.#etcd = options.etcd
    this.#keys = new EtcdLeaseKeys(options.prefix)
  }

  async inspect(signal: AbortSignal): Promise<readonly InspectedLease[]> {
    // Records are written before their leases. We read records after leases, so that no lease seems to have no record.
    const leases = await this.#etcd.list(this.#keys.leases, { signal })
    const records = (await this.#etcd.list(this.#keys.records, { signal })).items.map((stored) => this.#record(stored))
    const inspected: InspectedLease[] = []
    const joined = new Set<StoredRecord>()
    for (const stored of leases.items) {
      const address = textOf(stored.key.slice(this.#keys.leases.length))
      const own = records.filter((record) => address !== undefined && record.address === address)
      for (const record of own) joined.add(record)
      const found = { address, leased: true, odd: [...oddLease(stored, address), ...own.flatMap(oddRecord)] }
      inspected.push(await this.#inspected(stored, own, found, signal))
    }
    for (const record of records) {
      if (joined.has(record)) continue
      const { stored, address } = record
      const found = { address, leased: false, odd: [...oddPlace(stored.key, address), ...oddRecord(record)] }
      inspected.push(await this.#inspected(stored, [record], found, signal))
    }
    return inspected
  }

  async evict(lease: InspectedLease, signal: AbortSignal): Promise<boolean> {
    const [first, ...others] = this.#seen.get(lease) ?? []
    if (first === undefined || !(await this.#etcd.delete(first.key, first.modRevision, signal))) return false
    // A record that was written meanwhile stays, because it belongs to a master that is back.
    for (const { key, modRevision } of others) await this.#etcd.delete(key, modRevision, signal)
    return true
  }

  /** `main`: the lease, or the record without one. `own`: the records of its address. */
  async #inspected(
    main: KeyValue,
    own: readonly StoredRecord[],
    found: Pick<InspectedLease, 'address' | 'leased' | 'odd'>,
    signal: AbortSignal,
  ): Promise<InspectedLease> {
    const lease: InspectedLease = {
      ...found,
      id: main.key,
      revision: String(main.modRevision),
      holders: own.flatMap(({ holder }) => holder ?? []),
      life: await this.#life(main.lease, signal),
    }
    this.#seen.set(lease, [...new Set([main, ...own.map(({ stored }) => stored)])])
    return lease
  }

  async #life(lease: bigint, signal: AbortSignal): Promise<LeaseLife> {
    if (lease === 0n) return { type: 'never' }
    try {
      const times = await this.#etcd.timeToLive(lease, signal)
      return { type: 'ends', leftMs: Number(times?.leftSeconds ?? 0n) * 1000 }
    } catch (error) {
      if (!isEtcdError(error, 'Unsupported')) throw error
      return { type: 'renewed', ttlMs: Number(lease) * 1000, leftMs: undefined }
    }
  }

  #record(stored: KeyValue): StoredRecord {
    const rest = stored.key.slice(this.#keys.records.length)
    const [address = ''] = rest.split('/')
    return { stored, address: textOf(address), holder: holderAt(this.#keys, stored) }
  }
}

function oddLease({ key, value }: KeyValue, address: string | undefined): readonly OddValue[] {
  const place = oddPlace(key, address)
  if (place.length > 0) return place
  const lease = decodeMasterLease(value)
  if (lease.type === 'json') return [{ type: 'json', reason: 'the value is JSON' }]
  if (lease.type === 'unreadable') return [{ type: 'unreadable', reason: `the value ${lease.reason}` }]
  const { address: named } = lease
  if (named === undefined) return [{ type: 'unreadable', reason: 'the value contains no address' }]
  return named === address
    ? []
    : [{ type: 'misplaced', reason: `the value contains the address ${JSON.stringify(named)}` }]
}

function oddRecord({ stored, holder }: StoredRecord): readonly OddValue[] {
  return holder === undefined ? [{ type: 'unreadable', reason: `cannot read ${stored.key}` }] : []
}

function oddPlace(key: string, address: string | undefined): readonly OddValue[] {
  const parsed = address === undefined ? undefined : tryParseAddress(address)
  const reason = parsed === undefined ? `${key} does not contain an IP address` : unlistableReason(parsed)
  return reason === undefined ? [] : [{ type: 'unlistable', reason }]
}

/** The address in a part of a key, in canonical form, whether or not it can be listed. */
function textOf(text: string): string | undefined {
  return tryParseAddress(text)?.text
}

/** The TTL of a Lease that states none. Masters always state theirs. */
const DEFAULT_TTL_MS = 15_000

/** Shows and removes the coordination.k8s.io Leases of masters. Only watching one shows whether it is renewed. */
export class KubernetesLeaseInspector implements LeaseInspector {
  readonly #api: KubeApi
  readonly #clock: Clock
  readonly #namespace: string

  constructor(options: { readonly api: KubeApi; readonly clock: Clock; readonly namespace?: string | undefined }) {
    this.#api = options.api
    this.#clock = options.clock
    this.#namespace = options.namespace ?? LEASE_NAMESPACE
  }

  async inspect(signal: AbortSignal): Promise<readonly InspectedLease[]> {
    const query = { namespace: this.#namespace, labelSelector: LABEL_SELECTOR, signal }
    const pages = await Array.fromAsync(listPages(this.#api, leases, query))
    return pages.flat().map((lease) => this.#inspected(lease))
  }

  async evict({ object }: InspectedLease, signal: AbortSignal): Promise<boolean> {
    if (object === undefined) return false
    try {
      await deleteAsRead(this.#api, { metadata: object }, { signal })
      return true
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return false
      throw error
    }
  }

  #inspected(object: Lease): InspectedLease {
    const { metadata, spec } = object
    const holder = holderOf(object)
    const statedMs = spec?.leaseDurationSeconds === undefined ? DEFAULT_TTL_MS : spec.leaseDurationSeconds * 1000
    // No master states a longer TTL.
    const ttlMs = Math.min(statedMs, LONGEST_LEASE_TTL_MS)
    const renewedMs = tryParseTime(spec?.renewTime ?? '')
    const leftMs = renewedMs === undefined ? undefined : renewedMs + ttlMs - this.#clock.wallMs()
    return {
      id: `Lease ${this.#namespace}/${metadata?.name}`,
      object: referenceIn(leases, object),
      revision: metadata?.resourceVersion ?? '',
      address: holder?.addresses[0],
      holders: holder === undefined ? [] : [holder],
      life: { type: 'renewed', ttlMs, leftMs },
      leased: true,
      odd: holder === undefined ? [{ type: 'unreadable', reason: `Lease ${metadata?.name} has no valid holder` }] : [],
    }
  }
}
