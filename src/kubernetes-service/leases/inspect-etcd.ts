import { type EtcdKv, isEtcdError, type KeyValue } from '../../etcd/kv.ts'
import { tryParseAddress } from '../../net/address.ts'
import { decodeMasterLease } from '../../protobuf/master-lease.ts'
import { unlistableReason } from '../advertised-address.ts'
import { EtcdLeaseKeys } from './etcd-keys.ts'
import { decodeRecord } from './etcd-snapshot.ts'
import type { LeaseInspector, LeaseLife, LeaseSighting, OddValue } from './inspect.ts'
import type { Holder } from './master-leases.ts'

/** A stored holder record: what it says, and where it is. */
interface StoredRecord {
  readonly stored: KeyValue
  readonly address: string | undefined
  readonly holder: Holder | undefined
}

/**
 * Shows and removes the leases that kube-apiservers and masters of ours keep in etcd, each with the holder records of its address.
 *
 * On kine nobody can ask how long a lease has: there one is `renewed`, by its number of seconds.
 */
export class EtcdLeaseInspector implements LeaseInspector {
  readonly #etcd: EtcdKv
  readonly #keys: EtcdLeaseKeys
  /** What a sighting was made of: the first is removed first, and if it was written meanwhile nothing is. */
  readonly #seen = new WeakMap<LeaseSighting, readonly KeyValue[]>()

  /** `prefix` is what the API servers' own keys begin with, without a slash at the end. */
  constructor(options: { readonly etcd: EtcdKv; readonly prefix: string }) {
    this.#etcd = options.etcd
    this.#keys = new EtcdLeaseKeys(options.prefix)
  }

  async inspect(signal: AbortSignal): Promise<readonly LeaseSighting[]> {
    // Records are written before their leases and read after them: a master that is about to appear is not taken for one without.
    const leases = await this.#etcd.list(this.#keys.leases, { signal })
    const records = (await this.#etcd.list(this.#keys.records, { signal })).items.map((stored) => this.#record(stored))
    const leased = leases.items.map((lease) => {
      const address = textOf(lease.key.slice(this.#keys.leases.length))
      const own = records.filter((record) => address !== undefined && record.address === address)
      return { lease, address, own }
    })
    const joined = new Set(leased.flatMap(({ own }) => own))
    const sightings: LeaseSighting[] = []
    for (const { lease, address, own } of leased) {
      const odd = [...oddLease(lease, address), ...own.flatMap(oddRecord)]
      sightings.push(await this.#sighting(lease, { address, leased: true, odd, own }, signal))
    }
    for (const record of records) {
      if (joined.has(record)) continue
      const { stored, address } = record
      const odd = [...oddPlace(stored.key, address), ...oddRecord(record)]
      sightings.push(await this.#sighting(stored, { address, leased: false, odd, own: [record] }, signal))
    }
    return sightings
  }

  async evict(sighting: LeaseSighting, signal: AbortSignal): Promise<boolean> {
    const [first, ...others] = this.#seen.get(sighting) ?? []
    if (first === undefined || !(await this.#etcd.delete(first.key, first.modRevision, signal))) return false
    // A record that was written meanwhile is of somebody who is there again.
    for (const { key, modRevision } of others) await this.#etcd.delete(key, modRevision, signal)
    return true
  }

  async #sighting(
    main: KeyValue,
    found: {
      readonly address: string | undefined
      readonly leased: boolean
      readonly odd: readonly OddValue[]
      readonly own: readonly StoredRecord[]
    },
    signal: AbortSignal,
  ): Promise<LeaseSighting> {
    const { address, leased, odd, own } = found
    const sighting: LeaseSighting = {
      id: main.key,
      revision: String(main.modRevision),
      address,
      holders: own.flatMap(({ holder }) => holder ?? []),
      leased,
      life: await this.#life(main.lease, signal),
      odd,
    }
    this.#seen.set(sighting, leased ? [main, ...own.map(({ stored }) => stored)] : [main])
    return sighting
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
    const holder = decodeRecord(stored.value)
    const fits = holder !== undefined && this.#keys.record(holder) === stored.key
    return { stored, address: textOf(rest.slice(0, rest.indexOf('/'))), holder: fits ? holder : undefined }
  }
}

function oddLease({ key, value }: KeyValue, address: string | undefined): readonly OddValue[] {
  const place = oddPlace(key, address)
  if (place.length > 0) return place
  const lease = decodeMasterLease(value)
  if (lease.type === 'json') return [{ type: 'json', reason: 'the value is JSON' }]
  if (lease.type === 'unreadable') return [{ type: 'unreadable', reason: `the value ${lease.reason}` }]
  const { address: named } = lease
  if (named === undefined) return [{ type: 'unreadable', reason: 'the value holds no address' }]
  return named === address ? [] : [{ type: 'misplaced', reason: `the value says ${JSON.stringify(named)}` }]
}

function oddRecord({ stored, holder }: StoredRecord): readonly OddValue[] {
  return holder === undefined ? [{ type: 'unreadable', reason: `cannot read ${stored.key}` }] : []
}

function oddPlace(key: string, address: string | undefined): readonly OddValue[] {
  const parsed = address === undefined ? undefined : tryParseAddress(address)
  const reason = parsed === undefined ? `${key} names no address` : unlistableReason(parsed)
  return reason === undefined ? [] : [{ type: 'unlistable', reason }]
}

/** An address as a key names it, whether or not it could be listed. */
function textOf(text: string): string | undefined {
  return tryParseAddress(text)?.text
}
