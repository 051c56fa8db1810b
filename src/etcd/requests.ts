import type { MessageInitShape } from '@bufbuild/protobuf'
import {
  Compare_CompareResult as CompareResult,
  Compare_CompareTarget as CompareTarget,
  type RangeRequestSchema,
  type RequestOpSchema,
  type TxnRequestSchema,
  type WatchRequestSchema,
} from '../protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'

// The reads and transactions have exactly the shape of kube-apiserver's (etcd's client/v3/kubernetes/client.go),
// because kine recognizes transactions by their shape (its pkg/server/{create,update,delete}.go) and refuses all
// others.

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

/** Puts a key if it does not exist. */
export function createRequest(key: Uint8Array, stored: Stored): TxnInit {
  return { compare: [isAt(key, 0n)], success: [put(key, stored)] }
}

/** Puts a key if it is still at `modRevision`, and otherwise reads it. */
export function updateRequest(key: Uint8Array, stored: Stored, modRevision: bigint): TxnInit {
  return { compare: [isAt(key, modRevision)], success: [put(key, stored)], failure: [range(key)] }
}

/** Deletes a key if it is still at `modRevision`, and otherwise reads it. */
export function deleteRequest(key: Uint8Array, modRevision: bigint): TxnInit {
  return {
    compare: [isAt(key, modRevision)],
    success: [{ request: { case: 'requestDeleteRange', value: { key } } }],
    failure: [range(key)],
  }
}

/** Watches a prefix from a revision on, with the previous values. */
export function watchRequest(prefix: Uint8Array, startRevision: bigint): MessageInitShape<typeof WatchRequestSchema> {
  // With `fragment` the server divides a long response. Without it, a response with many changes can be longer than the
  // client accepts.
  const value = { key: prefix, rangeEnd: prefixEnd(prefix), startRevision, prevKv: true, fragment: true }
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
