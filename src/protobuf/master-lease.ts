import { create } from '@bufbuild/protobuf'
import { memoize } from '../runtime/memo.ts'
import { type EndpointSubset, EndpointSubsetSchema, EndpointsSchema } from './gen/k8s.io/api/core/v1/generated_pb.ts'
import { ObjectMetaSchema } from './gen/k8s.io/apimachinery/pkg/apis/meta/v1/generated_pb.ts'
import { asGoWrites } from './go-message.ts'
import { decodeStored, encodeStored, type ProtobufObject, type StoredKind } from './stored-object.ts'

type EndpointsDesc = typeof EndpointsSchema

const endpoints: StoredKind<EndpointsDesc> = { apiVersion: 'v1', kind: 'Endpoints', schema: EndpointsSchema }

/** A master's lease, decoded from protobuf, with what is needed to write it again without loss. */
export interface ProtobufMasterLease {
  readonly type: 'protobuf'
  /** The address that a kube-apiserver lists for this lease; undefined if the lease names none. */
  readonly address: string | undefined
  /** Counts renewals, because kube-apiserver writes a value only if it has changed. */
  readonly generation: bigint
  /** The whole value, for {@link encodeMasterLease}. */
  readonly stored: ProtobufObject<EndpointsDesc>
}

/** A value below `<prefix>/masterleases/`. */
export type StoredMasterLease =
  | ProtobufMasterLease
  /** A lease from an old cluster: its key names the address, and this program renews it with the same value. */
  | { readonly type: 'json' }
  /**
   * A value that cannot be decoded without loss, so it must not be overwritten. The reason is one line and ends a
   * sentence that begins with the key. `address`: the address of the lease, if it could be read.
   */
  | { readonly type: 'unreadable'; readonly reason: string; readonly address: string | undefined }

/** Decodes the value of a lease. Never throws. Callers share the results, so do not change them. */
export function decodeMasterLease(value: Uint8Array): StoredMasterLease {
  if (value.length > MAX_REMEMBERED_BYTES) return decode(value)
  return remembered(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('latin1'))
}

/** The lease of an ordinary master has no more bytes than this. Larger values are not cached. */
const MAX_REMEMBERED_BYTES = 1_024
/** A cache of decoded values: each reconciliation reads all leases, and most have not changed. */
const remembered = memoize((text) => decode(Buffer.from(text, 'latin1')), 64)

function decode(value: Uint8Array): StoredMasterLease {
  const stored = decodeStored(endpoints, value)
  if (stored.type === 'json') return { type: 'json' }
  // A kube-apiserver writes one address, and reads the first.
  const address = stored.object?.subsets[0]?.addresses[0]?.ip
  if (stored.type === 'unreadable') return { type: 'unreadable', reason: stored.reason, address }
  return { type: 'protobuf', address, generation: stored.object.metadata?.generation ?? 0n, stored }
}

/**
 * The bytes that kube-apiserver would store for a master that renews its lease (UpdateLease in
 * pkg/controlplane/reconcilers/lease.go): one subset with the address, and the next generation. `address` must be as Go
 * writes it. The rest of the previous value is preserved, including unknown fields. Without a previous value the lease
 * is new.
 */
export function encodeMasterLease(address: string, previous?: ProtobufMasterLease): Uint8Array {
  const object = asGoWrites(EndpointsSchema, previous?.stored.object ?? create(EndpointsSchema))
  object.metadata ??= create(ObjectMetaSchema)
  object.metadata.generation = BigInt.asIntN(64, object.metadata.generation + 1n)
  object.subsets = [asGoWrites(EndpointSubsetSchema, subsetWith(address, object.subsets[0]))]
  return encodeStored(endpoints, object, previous?.stored.envelope)
}

function subsetWith(address: string, previous: EndpointSubset | undefined): EndpointSubset {
  const subset = create(EndpointSubsetSchema, { addresses: [{ ip: address }] })
  const [listed] = subset.addresses
  if (previous !== undefined) subset.$unknown = previous.$unknown
  if (listed !== undefined) listed.$unknown = previous?.addresses.find(({ ip }) => ip === address)?.$unknown
  return subset
}
