import type { KeyValue } from '../../../etcd/kv.ts'
import { decodeMasterLease } from '../../../protobuf/master-lease.ts'
import { isListable } from '../../identity.ts'
import { addressOf, decodeHolder, type Holder, type HolderState, type MasterLease } from '../master-leases.ts'

/**
 * The keys of a fleet's leases in etcd. The first prefix is kube-apiserver's own (`masterleases` in
 * pkg/controlplane/instance.go), so that a fleet may contain both kinds of masters.
 */
export class EtcdLeaseKeys {
  /** Leases, by address in Go's form. */
  readonly leases: string
  /** Holder records, by address and host. */
  readonly records: string

  /** `prefix` is the prefix of the API servers' own keys, without a slash at the end. */
  constructor(prefix: string) {
    this.leases = `${prefix}/masterleases/`
    this.records = `${prefix}/apiserver-bootstrap/holders/`
  }

  lease(address: string): string {
    return `${this.leases}${address}`
  }

  /** The prefix of the keys of all holder records of one address. */
  recordsOf(address: string): string {
    return `${this.records}${address}/`
  }

  record(holder: Holder): string {
    return `${this.recordsOf(addressOf(holder))}${encodeURIComponent(holder.host)}`
  }

  /** The address in a lease's key; undefined for one that cannot be listed. */
  addressOfLease(key: string): string | undefined {
    const text = key.slice(this.leases.length)
    return isListable(text) ? text : undefined
  }
}

/**
 * An unusable value, or one that counts by its key alone, and its fault: the reason ends a sentence that begins with
 * the key.
 */
export interface UnusableValue {
  readonly key: string
  readonly reason: string
}

/**
 * Whether a master in this state has a lease, so that other API servers list its address too. An unready or withdrawn
 * master has only its holder record, because a kube-apiserver lists every lease.
 */
export function hasLease(state: HolderState): boolean {
  return state === 'ready' || state === 'failing' || state === 'leaving'
}

/** Reads a stored holder record. */
export function decodeRecord(value: Uint8Array): Holder | undefined {
  return decodeHolder(Buffer.from(value).toString())
}

/** The holder in a stored record; undefined if it is not a record of the master in its key. */
export function holderAt(keys: EtcdLeaseKeys, { key, value }: KeyValue): Holder | undefined {
  const holder = decodeRecord(value)
  return holder !== undefined && keys.record(holder) === key ? holder : undefined
}

/**
 * The live leases of one snapshot of the store, sorted by address and host. Pure.
 *
 * A lease belongs to the holders that have a record at its address; without any it is a kube-apiserver's, at the
 * address that a kube-apiserver would read from it, else at that of its key: a process that renews a lease lives,
 * whatever its value. A record in the state `ready` or `failing` counts only beside a lease; any other counts by
 * itself. Unusable values are left out and reported: one bad value must not spoil the list.
 */
export function readSnapshot(
  keys: EtcdLeaseKeys,
  stored: { readonly leases: readonly KeyValue[]; readonly records: readonly KeyValue[] },
): { readonly live: readonly MasterLease[]; readonly unusable: readonly UnusableValue[] } {
  const unusable: UnusableValue[] = []
  const holders = new Map<string, Holder[]>()
  for (const record of stored.records) {
    const holder = holderAt(keys, record)
    if (holder === undefined) {
      unusable.push({ key: record.key, reason: 'holds no record of a master at that address' })
    } else {
      const address = addressOf(holder)
      holders.set(address, [...(holders.get(address) ?? []), holder])
    }
  }

  const live: MasterLease[] = []
  const renewals = new Map<string, string>()
  for (const { key, value, modRevision } of stored.leases) {
    const address = keys.addressOfLease(key)
    if (address === undefined) {
      unusable.push({ key, reason: 'names no address that could be listed' })
      continue
    }
    renewals.set(address, String(modRevision))
    const { named, reason } = readLease(keys, value)
    if (reason !== undefined) unusable.push({ key, reason })
    if (!holders.has(address)) live.push({ address: named ?? address, renewal: String(modRevision) })
  }
  for (const [address, held] of holders) {
    for (const holder of held) {
      const needsLease = holder.state === 'ready' || holder.state === 'failing'
      const renewal = renewals.get(address)
      if (!needsLease || renewal !== undefined) live.push({ address, holder, ...(renewal && { renewal }) })
    }
  }
  return { live, unusable }
}

/**
 * The address that a kube-apiserver lists for a stored lease, and the fault of the value. A JSON value has no address,
 * which is no fault.
 */
function readLease(
  keys: EtcdLeaseKeys,
  value: Uint8Array,
): { readonly named?: string | undefined; readonly reason?: string | undefined } {
  const lease = decodeMasterLease(value)
  if (lease.type === 'json') return {}
  const named = lease.address === undefined ? undefined : keys.addressOfLease(keys.lease(lease.address))
  if (lease.type === 'unreadable') {
    const counts = named === undefined ? 'the address of its key counts until it ends' : 'its address counts'
    return { named, reason: `${lease.reason}; ${counts}` }
  }
  if (named !== undefined) return { named }
  const what = lease.address === undefined ? 'no address' : `${JSON.stringify(lease.address)}, which cannot be listed`
  return { reason: `holds ${what}; the address of its key counts` }
}
