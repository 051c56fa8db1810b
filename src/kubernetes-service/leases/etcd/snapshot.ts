import type { KeyValue } from '../../../etcd/kv.ts'
import { decodeMasterLease, encodeMasterLease } from '../../../protobuf/master-lease.ts'
import { isListable } from '../../identity.ts'
import { addressOf, decodeHolder, type Holder, type HolderState, type MasterLease } from '../master-leases.ts'

/**
 * The keys of a fleet's leases in etcd. The prefix of leases is kube-apiserver's own (`masterleases` in
 * pkg/controlplane/instance.go), so that a fleet may also contain kube-apiservers with their own reconciler.
 */
export class EtcdLeaseKeys {
  /** The prefix of the keys of leases, before the address in Go's form. */
  readonly leases: string
  /** The prefix of the keys of holder records, before the address and the host. */
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

  /** The address in a lease's key; undefined if the key contains none that can be listed. */
  addressOfLease(key: string): string | undefined {
    const text = key.slice(this.leases.length)
    return isListable(text) ? text : undefined
  }
}

/**
 * A value that cannot be used at all, or of which only the address or the key counts. `reason` ends a sentence that
 * begins with the key.
 */
export interface UnusableValue {
  readonly key: string
  readonly reason: string
}

/**
 * Whether a master in this state has a lease in etcd. An unready or withdrawn master has only its holder record,
 * because a kube-apiserver lists every lease.
 */
export function hasLease(state: HolderState): boolean {
  return state === 'ready' || state === 'failing' || state === 'leaving'
}

export function decodeRecord(value: Uint8Array): Holder | undefined {
  return decodeHolder(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString())
}

/** The holder in a stored record; undefined if it is not a record of the master in its key. */
export function holderAt(keys: EtcdLeaseKeys, { key, value }: KeyValue): Holder | undefined {
  const holder = decodeRecord(value)
  return holder !== undefined && keys.record(holder) === key ? holder : undefined
}

/**
 * The live leases of one snapshot of the store; those without a record come first. Pure.
 *
 * A lease belongs to the holders that have a record at its address. Without a record it is a kube-apiserver's. Its
 * address is then the one that a kube-apiserver would read from the value or, without one that can be listed, the
 * address in the key: a process that renews a lease is alive, whatever the value. A record in the state `ready` or
 * `failing` counts only beside a lease, any other record also without one. While a kube-apiserver renews the lease of
 * an address, an `unready` master there counts as `failing`, and beside a `withdrawn` one the lease counts by itself:
 * both are listed, because the kube-apiserver lists the address too, and the two would overwrite each other. Values
 * that cannot be used are left out and returned in `unusable`, because one bad value must not spoil the list.
 */
export function readSnapshot(
  keys: EtcdLeaseKeys,
  stored: { readonly leases: readonly KeyValue[]; readonly records: readonly KeyValue[] },
): { readonly live: readonly MasterLease[]; readonly unusable: readonly UnusableValue[] } {
  const unusable: UnusableValue[] = []
  const holders = new Map<string, Recorded[]>()
  for (const record of stored.records) {
    const holder = holderAt(keys, record)
    if (holder === undefined) {
      unusable.push({ key: record.key, reason: 'is not a valid holder record for that address' })
    } else {
      const address = addressOf(holder)
      const { modRevision, lease } = record
      holders.set(address, [...(holders.get(address) ?? []), { holder, modRevision, neverEnds: lease === 0n }])
    }
  }

  const live: MasterLease[] = []
  const renewals = new Map<string, Pick<MasterLease, 'renewal' | 'neverEnds'> & { readonly modRevision: bigint }>()
  for (const { key, value, modRevision, lease } of stored.leases) {
    const address = keys.addressOfLease(key)
    if (address === undefined) {
      unusable.push({ key, reason: 'does not contain an address that can be listed' })
      continue
    }
    const renewed = { renewal: String(modRevision), ...(lease === 0n && { neverEnds: true }) }
    renewals.set(address, { ...renewed, modRevision })
    const { named, reason } = readLease(keys, value)
    if (reason !== undefined) unusable.push({ key, reason })
    if (!holders.has(address)) live.push({ address: named ?? address, ...renewed })
  }
  for (const [address, held] of holders) {
    const { modRevision, ...renewed } = renewals.get(address) ?? {}
    for (const record of held) {
      const isCoHeld = modRevision !== undefined && isOfKubeApiserver(modRevision, record, held)
      const holder = isCoHeld ? coHeld(record.holder) : record.holder
      const needsLease = holder.state === 'ready' || holder.state === 'failing'
      if (modRevision !== undefined) live.push({ address, holder, ...renewed })
      // A record without an expiry, such as `etcdctl make-mirror` writes, would keep a dead master listed.
      else if (!needsLease && !record.neverEnds) live.push({ address, holder })
      if (isCoHeld && holder.state === 'withdrawn') live.push({ address, ...renewed })
    }
  }
  return { live, unusable }
}

interface Recorded {
  readonly holder: Holder
  readonly modRevision: bigint
  readonly neverEnds: boolean
}

function coHeld(holder: Holder): Holder {
  return { ...holder, state: holder.state === 'withdrawn' ? 'withdrawn' : 'failing', coHolder: true }
}

/**
 * Whether the lease beside the record of an unready or withdrawn master is a kube-apiserver's. Such a master deletes
 * its own lease after its record is written, so a lease that was written after that record is not its own. The next
 * record of that master states this in `coHolder`.
 */
function isOfKubeApiserver(renewal: bigint, record: Recorded, held: readonly Recorded[]): boolean {
  const { holder } = record
  if (hasLease(holder.state) || held.some((other) => hasLease(other.holder.state))) return false
  // If another host at this address is giving up its lease, the record of that host is newer than the lease that it is
  // about to delete.
  return holder.coHolder === true || held.every(({ modRevision }) => renewal > modRevision)
}

/**
 * `named`: the address that a kube-apiserver lists for a stored lease, if it can be listed. `reason`: the fault of the
 * value, if any. Both are undefined for a JSON value, whose key names the address.
 */
function readLease(
  keys: EtcdLeaseKeys,
  value: Uint8Array,
): { readonly named?: string | undefined; readonly reason?: string | undefined } {
  const lease = decodeMasterLease(value)
  if (lease.type === 'json') return {}
  const named = lease.address === undefined ? undefined : keys.addressOfLease(keys.lease(lease.address))
  if (lease.type === 'unreadable') {
    const counts = named === undefined ? 'using the address of its key until the lease expires' : 'using its address'
    return { named, reason: `${lease.reason}; ${counts}` }
  }
  if (named !== undefined) return { named }
  const what = lease.address === undefined ? 'no address' : `${JSON.stringify(lease.address)}, which cannot be listed`
  return { reason: `contains ${what}; using the address of its key` }
}

/** The value to store for a renewal; undefined if the stored value must not be overwritten. */
export function leaseValue(address: string, before: KeyValue | undefined): Uint8Array | undefined {
  if (before === undefined) return encodeMasterLease(address)
  const stored = decodeMasterLease(before.value)
  switch (stored.type) {
    case 'protobuf':
      return encodeMasterLease(address, stored)
    case 'json':
      return before.value
    case 'unreadable':
      return stored.address === address ? before.value : undefined
  }
}
