import { create } from '@bufbuild/protobuf'
import { RangeAllocationSchema } from './gen/k8s.io/api/core/v1/generated_pb.ts'
import { asGoWrites } from './go-message.ts'
import { decodeStored, encodeStored, type JsonObject, type ProtobufObject, type StoredKind } from './stored-object.ts'

type RangeAllocationDesc = typeof RangeAllocationSchema

const rangeAllocation: StoredKind<RangeAllocationDesc> = {
  apiVersion: 'v1',
  kind: 'RangeAllocation',
  schema: RangeAllocationSchema,
}

/** The allocated numbers of a range. */
export interface RangeSnapshot {
  /** The range in text, from the server that wrote it: `10.96.0.0/12`, `30000-32767`. */
  readonly range: string
  /** The bitmap as Go's big.Int.Bytes(): big-endian, without leading zeros. */
  readonly data: Uint8Array
}

/** A range, decoded from protobuf, with what is needed to write it again without loss. */
export interface ProtobufRangeAllocation extends RangeSnapshot {
  readonly type: 'protobuf'
  /** The whole value, for {@link encodeRangeAllocation}. */
  readonly stored: ProtobufObject<RangeAllocationDesc>
}

/** A value below `<prefix>/ranges/`. */
export type StoredRangeAllocation =
  | ProtobufRangeAllocation
  /** A range from an old cluster. This program never rewrites it. */
  | (RangeSnapshot & { readonly type: 'json' })
  /** A value that must not be overwritten. The reason is one line and ends a sentence that begins with the key. */
  | { readonly type: 'unreadable'; readonly reason: string }

/** Decodes the value of a range. Never throws. */
export function decodeRangeAllocation(value: Uint8Array): StoredRangeAllocation {
  const stored = decodeStored(rangeAllocation, value)
  if (stored.type === 'json') return fromJson(stored.object)
  if (stored.type === 'unreadable') return { type: 'unreadable', reason: stored.reason }
  const { range, data } = stored.object
  return { type: 'protobuf', range, data, stored }
}

/**
 * The bytes that kube-apiserver would store for a range with these numbers allocated (CreateOrUpdate in
 * pkg/registry/core/service/allocator/storage/storage.go). The rest of the previous value is preserved, including
 * unknown fields. Without a previous value the range is new.
 */
export function encodeRangeAllocation(snapshot: RangeSnapshot, previous?: ProtobufRangeAllocation): Uint8Array {
  const object = asGoWrites(RangeAllocationSchema, previous?.stored.object ?? create(RangeAllocationSchema))
  object.range = snapshot.range
  object.data = snapshot.data
  return encodeStored(rangeAllocation, object, previous?.stored.envelope)
}

function fromJson({ range, data }: JsonObject): StoredRangeAllocation {
  // Go writes null for a nil bitmap.
  const text = data ?? ''
  const bitmap = typeof text === 'string' ? Buffer.from(text, 'base64') : undefined
  return typeof range === 'string' && bitmap !== undefined && bitmap.toString('base64') === text
    ? { type: 'json', range, data: bitmap }
    : { type: 'unreadable', reason: 'is JSON without a valid range and data' }
}
