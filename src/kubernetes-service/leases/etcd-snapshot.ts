import type { KeyValue } from '../../etcd/kv.ts'
import { decodeMasterLease } from '../../protobuf/master-lease.ts'
import type { EtcdLeaseKeys } from './etcd-keys.ts'
import { decodeHolder } from './holder-record.ts'
import { addressOf, type Holder, type HolderState, type MasterLease } from './master-leases.ts'

/** A value that could not be used, or for its key alone, and what is wrong with it: the reason ends a sentence that begins with the key. */
export interface UnusableValue {
  readonly key: string
  readonly reason: string
}

/**
 * Whether a master in this state is one whose address other API servers should list too: its lease is there. A master that is
 * unready, or was withdrawn, is known by its holder record alone, because a kube-apiserver lists every lease.
 */
export function keepsLease(state: HolderState): boolean {
  return state === 'ready' || state === 'failing' || state === 'leaving'
}

/** Reads a stored holder record. */
export function decodeRecord(value: Uint8Array): Holder | undefined {
  return decodeHolder(Buffer.from(value).toString())
}

/** Who a stored holder record is of; undefined where it holds none of the master that its key names. */
export function holderAt(keys: EtcdLeaseKeys, { key, value }: KeyValue): Holder | undefined {
  const holder = decodeRecord(value)
  return holder !== undefined && keys.record(holder) === key ? holder : undefined
}

/**
 * The live leases that one snapshot of the store shows, sorted by address and host. Pure.
 *
 * A lease belongs to the holders that have a record at its address; without any it is a kube-apiserver's, at the address that a
 * kube-apiserver would read from it, else at that of its key: whoever renews a lease lives, whatever is in it. A record that says `ready` or `failing` counts only beside a lease; any other counts by
 * itself. What cannot be used is left out and told apart: one bad value must not spoil the list.
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

/** The address that a kube-apiserver lists for a stored lease, and what is wrong with the value. A JSON value names none, which is right. */
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
