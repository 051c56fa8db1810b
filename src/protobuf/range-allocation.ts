import { clone, create } from '@bufbuild/protobuf'
import { RangeAllocationSchema } from './gen/k8s.io/api/core/v1/generated_pb.ts'
import { asGoWrites } from './go-message.ts'
import { decodeStored, encodeStored, type JsonObject, type ProtobufObject, type StoredKind } from './stored-object.ts'

type RangeAllocationDesc = typeof RangeAllocationSchema

const rangeAllocation: StoredKind<RangeAllocationDesc> = {
  apiVersion: 'v1',
  kind: 'RangeAllocation',
  schema: RangeAllocationSchema,
}

/** Which numbers of a range are taken. */
export interface RangeSnapshot {
  /** The range in text, as the server that wrote it was told: `10.96.0.0/12`, `30000-32767`. */
  readonly range: string
  /** The bitmap as Go's big.Int.Bytes(): big-endian, without leading zeros. */
  readonly data: Uint8Array
}

/** A range as kube-apiserver stores it, and as it may be written again. */
export interface ProtobufRangeAllocation extends RangeSnapshot {
  readonly type: 'protobuf'
  /** The whole value, for {@link encodeRangeAllocation}. */
  readonly stored: ProtobufObject<RangeAllocationDesc>
}

/** What is stored under a key below `<prefix>/ranges/`. */
export type StoredRangeAllocation =
  | ProtobufRangeAllocation
  /** An old cluster's; it is never rewritten. */
  | (RangeSnapshot & { readonly type: 'json' })
  /** Must not be overwritten. The reason is one line and ends a sentence that begins with the key. */
  | { readonly type: 'unreadable'; readonly reason: string }

/** Reads a value below `<prefix>/ranges/`; never throws. */
export function decodeRangeAllocation(value: Uint8Array): StoredRangeAllocation {
  const stored = decodeStored(rangeAllocation, value)
  if (stored.type === 'json') return fromJson(stored.object)
  if (stored.type === 'unreadable') return { type: 'unreadable', reason: stored.reason }
  const { range, data } = stored.object
  return { type: 'protobuf', range, data, stored }
}

/**
 * What kube-apiserver would store for a range with these numbers taken, byte for byte (CreateOrUpdate in
 * pkg/registry/core/service/allocator/storage/storage.go). What the previous value has beyond that stays as it is, fields that are
 * not described here included; without one the range is new.
 */
export function encodeRangeAllocation(snapshot: RangeSnapshot, previous?: ProtobufRangeAllocation): Uint8Array {
  const object =
    previous === undefined ? create(RangeAllocationSchema) : clone(RangeAllocationSchema, previous.stored.object)
  object.range = snapshot.range
  object.data = snapshot.data
  return encodeStored(rangeAllocation, asGoWrites(RangeAllocationSchema, object), previous?.stored.envelope)
}

function fromJson({ range, data }: JsonObject): StoredRangeAllocation {
  // Go writes null for a bitmap that was never made.
  const text = data ?? ''
  const bitmap = typeof text === 'string' ? Buffer.from(text, 'base64') : undefined
  return typeof range === 'string' && bitmap !== undefined && bitmap.toString('base64') === text
    ? { type: 'json', range, data: bitmap }
    : { type: 'unreadable', reason: 'is JSON without a range and its data' }
}
