import { EtcdError, type EtcdKv, type KeyChange } from '../../etcd/kv.ts'
import {
  decodeRangeAllocation,
  encodeRangeAllocation,
  type ProtobufRangeAllocation,
} from '../../protobuf/range-allocation.ts'
import {
  type RangeChange,
  type RangeContent,
  type RangeName,
  type RangeRegistry,
  rangeNames,
  type StoredRange,
} from './range-registry.ts'

export interface EtcdRangeRegistryOptions {
  readonly etcd: EtcdKv
  /** The prefix of the API servers' keys, without a slash at the end. */
  readonly prefix: string
}

/** The stored object that a write replaces, and its revision, which the compare-and-put compares. */
class EtcdVersion {
  readonly modRevision: bigint
  /** The stored object, whose unknown fields a write preserves; undefined for JSON. */
  readonly allocation: ProtobufRangeAllocation | undefined

  constructor(modRevision: bigint, allocation: ProtobufRangeAllocation | undefined) {
    this.modRevision = modRevision
    this.allocation = allocation
  }
}

/**
 * The bitmaps of the kube-apiservers on this etcd or kine: RangeAllocations at `<prefix>/ranges/<name>`. JSON from an
 * old cluster is read, but never rewritten. Upstream: pkg/registry/core/service/allocator/storage/storage.go.
 */
export class EtcdRangeRegistry implements RangeRegistry {
  readonly writable = true
  readonly ordered = true
  readonly #etcd: EtcdKv
  readonly #prefix: string

  constructor({ etcd, prefix }: EtcdRangeRegistryOptions) {
    this.#etcd = etcd
    this.#prefix = `${prefix}/ranges/`
  }

  where(name: RangeName): string {
    return `${this.#prefix}${name} in etcd`
  }

  async read(name: RangeName, signal: AbortSignal): Promise<StoredRange> {
    const stored = await this.#etcd.get(this.#prefix + name, signal)
    return stored === undefined ? { type: 'absent' } : decoded(stored.value, stored.modRevision)
  }

  async write(
    name: RangeName,
    content: RangeContent,
    previous: StoredRange,
    signal: AbortSignal,
  ): Promise<StoredRange | undefined> {
    const before = this.#beforeOf(name, previous)
    const key = this.#prefix + name
    const value = encodeRangeAllocation(content, before?.allocation)
    const modRevision =
      before === undefined
        ? await this.#etcd.create(key, value, { signal })
        : await this.#etcd.update(key, value, before.modRevision, { signal })
    return modRevision === undefined ? undefined : decoded(value, modRevision)
  }

  watch({ onChange, report, signal }: Parameters<RangeRegistry['watch']>[0]): Promise<void> {
    return this.#etcd.watch(this.#prefix, {
      onChange: (changes) => {
        if (changes === undefined) onChange(undefined)
        else for (const change of changes) this.#report(change, onChange)
      },
      report,
      signal,
    })
  }

  #report({ type, key, value, modRevision }: KeyChange, onChange: (change: RangeChange) => void): void {
    const name = rangeNames.find((known) => this.#prefix + known === key)
    if (name === undefined) return
    onChange({ name, stored: type === 'deleted' ? { type: 'absent' } : decoded(value, modRevision) })
  }

  /** The version that the write compares; undefined if the key must not exist yet. */
  #beforeOf(name: RangeName, previous: StoredRange): EtcdVersion | undefined {
    if (previous.type === 'absent') return undefined
    if (previous.type === 'unreadable') throw new TypeError(`${this.where(name)} ${previous.reason}`)
    if (previous.fixed !== undefined) throw new EtcdError('Refused', `${this.where(name)} ${previous.fixed}`)
    if (previous.version instanceof EtcdVersion) return previous.version
    throw new TypeError(`the previous value of ${this.where(name)} comes from another registry`)
  }
}

function decoded(value: Uint8Array, modRevision: bigint): StoredRange {
  const allocation = decodeRangeAllocation(value)
  if (allocation.type === 'unreadable') return allocation
  const { range, data } = allocation
  const found = { type: 'range', range, data, revision: String(modRevision) } as const
  switch (allocation.type) {
    case 'protobuf':
      return { ...found, version: new EtcdVersion(modRevision, allocation) }
    case 'json':
      return {
        ...found,
        fixed: 'is JSON, written by an old kube-apiserver, and is not rewritten',
        version: new EtcdVersion(modRevision, undefined),
      }
  }
}
