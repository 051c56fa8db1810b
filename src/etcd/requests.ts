import type { MessageInitShape } from '@bufbuild/protobuf'
import {
  Compare_CompareResult as CompareResult,
  Compare_CompareTarget as CompareTarget,
  type RangeRequestSchema,
  type RequestOpSchema,
  type TxnRequestSchema,
  type WatchRequestSchema,
} from '../protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import type { RequestLimit } from '../runtime/request-limit.ts'
import type { EtcdKv, KeyValue } from './kv.ts'

// These requests have exactly the shape of kube-apiserver's (etcd's client/v3/kubernetes/client.go), because kine
// recognizes transactions by their shape (its pkg/server/{create,update,delete}.go) and refuses all others.

type RangeInit = MessageInitShape<typeof RangeRequestSchema>
type TxnInit = MessageInitShape<typeof TxnRequestSchema>
type OpInit = MessageInitShape<typeof RequestOpSchema>

/** With this header, as in kube-apiserver's watches, a member without a leader refuses at once and ends its watches. */
export const requireLeader = { hasleader: 'true' } as const

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function keyBytes(key: string): Uint8Array {
  return encoder.encode(key)
}

export function keyText(key: Uint8Array): string {
  return decoder.decode(key)
}

interface Stored {
  readonly value: Uint8Array
  /** The etcd lease to attach the key to, 0n for none. */
  readonly lease: bigint
}

export function getRequest(key: Uint8Array): RangeInit {
  return { key, limit: 1n }
}

/** Lists all keys under a prefix, at the newest revision if `revision` is 0n. */
export function listRequest(prefix: Uint8Array, revision: bigint): RangeInit {
  return { key: prefix, rangeEnd: prefixEnd(prefix), revision }
}

/** Puts a key that does not exist. */
export function createRequest(key: Uint8Array, stored: Stored): TxnInit {
  return { compare: [isAt(key, 0n)], success: [put(key, stored)] }
}

/** Puts a key that is still at `modRevision`, and otherwise reads it. */
export function updateRequest(key: Uint8Array, stored: Stored, modRevision: bigint): TxnInit {
  return { compare: [isAt(key, modRevision)], success: [put(key, stored)], failure: [range(key)] }
}

/** Deletes a key that is still at `modRevision`, and otherwise reads it. */
export function deleteRequest(key: Uint8Array, modRevision: bigint): TxnInit {
  return {
    compare: [isAt(key, modRevision)],
    success: [{ request: { case: 'requestDeleteRange', value: { key } } }],
    failure: [range(key)],
  }
}

/** Watches a prefix from a revision on, with the previous values. */
export function watchRequest(prefix: Uint8Array, startRevision: bigint): MessageInitShape<typeof WatchRequestSchema> {
  const value = { key: prefix, rangeEnd: prefixEnd(prefix), startRevision, prevKv: true }
  return { requestUnion: { case: 'createRequest', value } }
}

/**
 * The first key after all those that begin with `prefix`: the prefix up to its last byte below 0xff, with that byte one
 * higher. Throws a RangeError if there is no such byte.
 */
export function prefixEnd(prefix: Uint8Array): Uint8Array {
  const last = prefix.findLastIndex((byte) => byte < 0xff)
  if (last === -1) throw new RangeError('a prefix must have a byte below 0xff')
  const end = prefix.slice(0, last + 1)
  end[last] = (end[last] as number) + 1
  return end
}

function isAt(key: Uint8Array, modRevision: bigint): NonNullable<TxnInit['compare']>[number] {
  return {
    result: CompareResult.EQUAL,
    target: CompareTarget.MOD,
    key,
    targetUnion: { case: 'modRevision', value: modRevision },
  }
}

function put(key: Uint8Array, { value, lease }: Stored): OpInit {
  return { request: { case: 'requestPut', value: { key, value, lease } } }
}

function range(key: Uint8Array): OpInit {
  return { request: { case: 'requestRange', value: { key } } }
}

/** How many failed writes are remembered. Earlier ones cannot happen any more: their etcd leases have ended. */
const MAX_UNANSWERED = 256

/** A key that this process writes by compare-and-put. The last write is remembered, so the next needs no read. */
export class GuardedKey {
  readonly key: string
  readonly #etcd: EtcdKv
  #last: KeyValue | undefined
  /** The last failed writes since a successful one. Each may have happened, because its answer may be lost. */
  #unanswered: readonly Pick<KeyValue, 'value' | 'lease'>[] = []

  constructor(etcd: EtcdKv, key: string) {
    this.#etcd = etcd
    this.key = key
  }

  /**
   * The key as this process last wrote it; undefined if it has not, and after `delete` or `forget`. Other processes may
   * have changed the key since.
   */
  get last(): KeyValue | undefined {
    return this.#last
  }

  /**
   * Whether this may be the result of a failed write by this process. On kine another process may have written the same
   * value under the same lease id.
   */
  isUnanswered({ value, lease }: KeyValue): boolean {
    return this.#unanswered.some((sent) => sent.lease === lease && Buffer.compare(sent.value, value) === 0)
  }

  /** Forgets the last write, because the key no longer belongs to this process. */
  forget(): void {
    this.#last = undefined
  }

  read(signal: AbortSignal): Promise<KeyValue | undefined> {
    return this.#etcd.get(this.key, signal)
  }

  /** Reads the key from the store; undefined unless a failed write by this process has happened. */
  async readUnanswered(signal: AbortSignal): Promise<KeyValue | undefined> {
    const stored = this.#unanswered.length === 0 ? undefined : await this.read(signal)
    return stored !== undefined && this.isUnanswered(stored) ? stored : undefined
  }

  /**
   * Writes the key if it is unchanged since `before`, or, without `before`, if it does not exist. Returns whether it
   * was written.
   */
  async put(value: Uint8Array, lease: bigint, before: KeyValue | undefined, signal: AbortSignal): Promise<boolean> {
    const sent =
      before === undefined
        ? this.#etcd.create(this.key, value, { lease, signal })
        : this.#etcd.update(this.key, value, before.modRevision, { lease, signal })
    const modRevision = await sent.catch((error: unknown) => {
      this.#unanswered = [...this.#unanswered, { value, lease }].slice(-MAX_UNANSWERED)
      throw error
    })
    if (modRevision !== undefined) {
      this.#last = { key: this.key, value, modRevision, lease }
      this.#unanswered = []
    }
    return modRevision !== undefined
  }

  /** Deletes the key if it is unchanged since `before`. Returns whether it was deleted. Forgets the last write. */
  async delete(before: KeyValue, signal: AbortSignal): Promise<boolean> {
    this.#last = undefined
    return this.#etcd.delete(this.key, before.modRevision, signal)
  }
}

/** The same store, whose requests are aborted at the limit. Watches are not limited. */
export function limitedEtcd(etcd: EtcdKv, limit: RequestLimit): EtcdKv {
  return {
    get: (key, signal) => limit.run(signal, (limited) => etcd.get(key, limited)),
    list: (prefix, options) => limit.run(options.signal, (signal) => etcd.list(prefix, { ...options, signal })),
    create: (key, value, options) =>
      limit.run(options.signal, (signal) => etcd.create(key, value, { ...options, signal })),
    update: (key, value, modRevision, options) =>
      limit.run(options.signal, (signal) => etcd.update(key, value, modRevision, { ...options, signal })),
    delete: (key, modRevision, signal) => limit.run(signal, (limited) => etcd.delete(key, modRevision, limited)),
    grantLease: (ttlSeconds, signal) => limit.run(signal, (limited) => etcd.grantLease(ttlSeconds, limited)),
    timeToLive: (lease, signal) => limit.run(signal, (limited) => etcd.timeToLive(lease, limited)),
    watch: (prefix, options) => etcd.watch(prefix, options),
    close: () => etcd.close(),
  }
}
