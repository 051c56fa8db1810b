import { type EtcdKv, isEtcdError, type KeyValue } from '../../etcd/kv.ts'
import { tryParseAddress } from '../../net/address.ts'
import { decodeMasterLease } from '../../protobuf/master-lease.ts'
import { unlistableReason } from '../advertised-address.ts'
import { EtcdLeaseKeys } from './etcd-keys.ts'
import { holderAt } from './etcd-snapshot.ts'
import type { LeaseInspector, LeaseLife, LeaseSighting, OddValue } from './inspect.ts'
import type { Holder } from './master-leases.ts'

/** A stored holder record: what it says, and where it is. */
interface StoredRecord {
  readonly stored: KeyValue
  readonly address: string | undefined
  readonly holder: Holder | undefined
}

/** What a sighting is made of: a lease with the records of its address, or a record without a lease. */
interface Found extends Pick<LeaseSighting, 'address' | 'leased' | 'odd'> {
  readonly main: KeyValue
  readonly own: readonly StoredRecord[]
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
    const leased = leases.items.map((main): Found => {
      const address = textOf(main.key.slice(this.#keys.leases.length))
      const own = records.filter((record) => address !== undefined && record.address === address)
      return { main, address, leased: true, odd: [...oddLease(main, address), ...own.flatMap(oddRecord)], own }
    })
    const joined = new Set(leased.flatMap(({ own }) => own))
    const alone = records
      .filter((record) => !joined.has(record))
      .map((record): Found => {
        const { stored: main, address } = record
        return {
          main,
          address,
          leased: false,
          odd: [...oddPlace(main.key, address), ...oddRecord(record)],
          own: [record],
        }
      })
    const sightings: LeaseSighting[] = []
    for (const found of [...leased, ...alone]) sightings.push(await this.#sighting(found, signal))
    return sightings
  }

  async evict(sighting: LeaseSighting, signal: AbortSignal): Promise<boolean> {
    const [first, ...others] = this.#seen.get(sighting) ?? []
    if (first === undefined || !(await this.#etcd.delete(first.key, first.modRevision, signal))) return false
    // A record that was written meanwhile is of somebody who is there again.
    for (const { key, modRevision } of others) await this.#etcd.delete(key, modRevision, signal)
    return true
  }

  async #sighting({ main, own, ...found }: Found, signal: AbortSignal): Promise<LeaseSighting> {
    const sighting: LeaseSighting = {
      ...found,
      id: main.key,
      revision: String(main.modRevision),
      holders: own.flatMap(({ holder }) => holder ?? []),
      life: await this.#life(main.lease, signal),
    }
    this.#seen.set(sighting, [...new Set([main, ...own.map(({ stored }) => stored)])])
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
    return { stored, address: textOf(rest.slice(0, rest.indexOf('/'))), holder: holderAt(this.#keys, stored) }
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
